"""Jobs as Django's results, and the reverse.

A job's data are ``{"args": [...], "kwargs": {...}}``, and once an attempt has failed,
``"failures"`` with what a job's hash has no field for: which exception it was, and who ran it.

Priorities: Django's run from -100 to 100 and higher ones run first; a queue's from 1 on and lower ones run
first. 100 becomes 1, 0 becomes 101, -100 becomes 201. Jobs of other producers without a priority run before all.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import attrs
from django.conf import settings
from django.utils import timezone as django_time

from echomq import Job, JobState, Unrecoverable
from echomq.moments import to_datetime

from .framework import (
    FAILED,
    READY,
    RUNNING,
    SUCCESSFUL,
    TASK_MAX_PRIORITY,
    TASK_MIN_PRIORITY,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = [
    "Failure",
    "InvalidData",
    "StoredError",
    "TaskData",
    "job_priority",
    "local_time",
    "result_id",
    "split_id",
    "task_result",
]

_STATUS = {
    JobState.ACTIVE: RUNNING,
    JobState.COMPLETED: SUCCESSFUL,
    JobState.FAILED: FAILED,
}
_MOST_ATTEMPTS = 1_000
"""Attempts that a result tells of; the last ones."""

_UNKNOWN = "unknown"
_OURS = re.compile(r"^(echomq(?:_django)?\.[\w.]+)(?::|$)", re.MULTILINE)


class InvalidData(Unrecoverable):
    """The data of a job are no arguments of a task."""


class StoredError(TaskError):
    """An error of a result, whose class is looked up only among what is imported."""

    __slots__ = ()

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception.

        Raises:
            ImportError: It is not imported here; nothing is imported because a stored result says so.
            ValueError: What has that path is no exception.
        """
        found = _loaded(self.exception_class_path)
        if not isinstance(found, type) or not issubclass(found, BaseException):
            raise ValueError(f"{self.exception_class_path!r} does not reference a valid exception.")  # noqa: TRY004  # as Django does
        return found


def _loaded(path: str) -> object:
    module, *names = path.split(".")
    while names and f"{module}.{names[0]}" in sys.modules:
        module = f"{module}.{names.pop(0)}"
    found: object = sys.modules.get(module)
    for name in names:
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
    if found is None:
        raise ImportError(f"{path!r} is not imported here; import its module first")
    return found


@attrs.frozen(kw_only=True)
class Failure:
    """An attempt that a task's code failed.

    Attributes:
        attempt: Which, from 1.
        exception: Path of the exception's class.
        worker: Name of the worker.
        started_ms: When it began.
    """

    attempt: int
    exception: str
    worker: str
    started_ms: int


_FIELDS_OF_FAILURE = {"attempt": int, "exception": str, "worker": str, "started_ms": int}


@attrs.frozen
class TaskData:
    """The data of a job.

    Attributes:
        args: Arguments of the task.
        kwargs: Those by name.
        failures: By attempt.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    failures: Mapping[int, Failure] = attrs.field(factory=dict)

    @classmethod
    def of(cls, job: Job) -> TaskData:
        """Read a job's data, whoever wrote them.

        Raises:
            InvalidData: They are no arguments of a task; tells why.
            ProtocolError: They are not JSON.
        """
        data = job.data
        if not isinstance(data, dict):
            raise InvalidData(f"the data of job {job.id} are no arguments of a task: expected an object")
        if unknown := data.keys() - {"args", "kwargs", "failures"}:
            raise InvalidData(f"the data of job {job.id} hold what no task has: {', '.join(sorted(unknown))}")
        args, kwargs = data.get("args", []), data.get("kwargs", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise InvalidData(f"the data of job {job.id} are no arguments of a task: args is a list, kwargs an object")
        return cls(args, kwargs, _failures(data.get("failures")))

    def to_json(self) -> dict[str, Any]:
        """Return it as it is stored."""
        data: dict[str, Any] = {"args": self.args, "kwargs": self.kwargs}
        if self.failures:
            data["failures"] = [attrs.asdict(failure) for failure in self.failures.values()]
        return data

    def failed(self, failure: Failure) -> TaskData:
        """Return the data with one failure more."""
        return attrs.evolve(self, failures={**self.failures, failure.attempt: failure})


def _failures(rows: object) -> Mapping[int, Failure]:
    found = {}
    for row in rows if isinstance(rows, list) else ():
        if isinstance(row, dict) and {name: type(value) for name, value in row.items()} == _FIELDS_OF_FAILURE:
            found[row["attempt"]] = Failure(**row)
    return found


def job_priority(priority: int) -> int:
    """Return the queue's priority for one of Django's."""
    return TASK_MAX_PRIORITY + 1 - priority


def _task_priority(priority: int) -> int:
    return min(TASK_MAX_PRIORITY, max(TASK_MIN_PRIORITY, TASK_MAX_PRIORITY + 1 - priority))


def result_id(queue: str, job_id: str) -> str:
    """Return the id of a result: a job's id is one within its queue only."""
    return f"{queue}:{job_id}"


def split_id(result_id: str) -> tuple[str, str]:
    """Return queue and job id; either may be empty if that is no id of a result."""
    queue, _, job_id = result_id.partition(":")  # names of queues hold no colon
    return queue, job_id


def task_result(job: Job, state: JobState, task: Task[..., Any], alias: str) -> TaskResult[Any]:
    """Return a job as a result.

    Args:
        job: As read from the server.
        state: Where it is.
        task: What it runs.
        alias: Of the backend.

    Raises:
        InvalidData: The data are no arguments of a task.
        ProtocolError: They are not JSON.
    """
    data = TaskData.of(job)
    status = _STATUS.get(state, READY)
    started = [failure.started_ms for failure in data.failures.values()]
    result: TaskResult[Any] = TaskResult(
        task=_as_enqueued(task, job, alias),
        id=result_id(job.queue_name, job.id),
        status=status,
        enqueued_at=local_time(job.timestamp),
        started_at=local_time(_moment(min(started)) if started else job.processed_on),
        finished_at=local_time(job.finished_on),
        last_attempted_at=local_time(job.processed_on),
        args=data.args,
        kwargs=data.kwargs,
        backend=alias,
        errors=_errors(job, status, data.failures),
        worker_ids=_workers(job, status, data.failures),
    )
    if status == SUCCESSFUL:
        object.__setattr__(result, "_return_value", job.return_value)
    return result


def _as_enqueued(task: Task[..., Any], job: Job, alias: str) -> Task[..., Any]:
    due = _moment(job.timestamp_ms + job.options.delay) if job.options.delay else None
    return task.using(
        backend=alias, queue_name=job.queue_name, priority=_task_priority(job.priority), run_after=local_time(due)
    )


def _errors(job: Job, status: TaskResultStatus, failures: Mapping[int, Failure]) -> list[TaskError]:
    failed = job.attempts_made - (status == SUCCESSFUL)
    if status == FAILED:
        failed = max(failed, 1)
    rows = job.stacktrace
    errors: list[TaskError] = []
    for attempt in range(max(1, failed - _MOST_ATTEMPTS + 1), failed + 1):
        row = attempt - failed + len(rows) - 1  # the rows of the last attempts may be all that is kept
        text = rows[row] if row >= 0 else ""
        known = failures.get(attempt)
        errors.append(
            StoredError(
                exception_class_path=_own_error(text) if known is None else known.exception,
                traceback=text or (job.failed_reason or "" if attempt == failed else ""),
            )
        )
    return errors


def _own_error(traceback: str) -> str:
    """Return the class of what a worker itself fails a job with: it took too long, was cancelled, or got lost."""
    found = _OURS.findall(traceback)
    return found[-1] if found else "echomq.errors.JobFailed"


def _workers(job: Job, status: TaskResultStatus, failures: Mapping[int, Failure]) -> list[str]:
    if job.processed_on_ms is None:  # it was cancelled before anybody took it, which the server counts as an attempt
        return []
    attempts = job.attempts_made + (status == RUNNING)
    workers = [
        failures[attempt].worker if attempt in failures else _UNKNOWN
        for attempt in range(max(1, attempts - _MOST_ATTEMPTS + 1), attempts + 1)
    ]
    if workers and attempts not in failures and job.processed_by:
        workers[-1] = job.processed_by
    return workers


def _moment(value_ms: int) -> datetime | None:
    try:
        return to_datetime(value_ms)
    except OverflowError:  # a foreign client wrote a moment beyond the calendar
        return None


def local_time(moment: datetime | None) -> datetime | None:
    """Return a moment as Django's settings want it: aware, or naive in the project's zone."""
    return moment if moment is None or settings.USE_TZ else django_time.make_naive(moment)
