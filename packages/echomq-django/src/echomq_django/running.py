"""What ``echomq_worker`` does with a job: finds its task, runs it, and tells Django's signals.

It runs in the thread of its job. Database connections are treated as around a request: those that are
too old or broken are closed before and after.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
from django.db import close_old_connections, reset_queries

from echomq import Job, JobSignal, JobState, NotEncodable, Unrecoverable
from echomq.clock import wall_ms
from echomq.errors import EchoMQError

from .framework import (
    FAILED,
    TaskContext,
    TaskResult,
    TaskResultDoesNotExist,
    normalize_json,
    task_finished,
    task_started,
)
from .records import Failure, StoredError, TaskData, result_id, task_result
from .registry import find_task

if TYPE_CHECKING:
    from collections.abc import Callable

    from echomq.sync.context import Context

    from .backend import EchoMQBackend

__all__ = ["Runner"]

_log = logging.getLogger("echomq.django")


@attrs.frozen
class Runner:
    """Runs the tasks of one backend.

    Attributes:
        backend: It.
        worker: Name of the worker, for the results of its jobs.
    """

    backend: EchoMQBackend
    worker: str

    def run(self, job: Job, ctx: Context) -> Any:
        """Run the task of a job and return its result as JSON; a processor."""
        return _with_databases(partial(self._run, job, ctx))

    def completed(self, job: Job, value: Any) -> None:
        """Tell Django that a task has finished; a listener of ``completed``."""
        _with_databases(partial(self._tell_success, job, value))

    def failed(self, job: Job, error: BaseException) -> None:
        """Tell Django that a task has finished, if no attempt follows; a listener of ``failed``."""
        _with_databases(partial(self._tell_failure, job, error))

    # -- an attempt -----------------------------------------------------------------------------

    def _run(self, job: Job, ctx: Context) -> Any:
        try:
            result = self._result(job, JobState.ACTIVE)
            task_started.send_robust(type(self.backend), task_result=result)
            context = (TaskContext(task_result=result),) if result.task.takes_context else ()
            value = result.task.call(*context, *result.args, **result.kwargs)
            return _as_json(job, value)
        except JobSignal as signal:
            if isinstance(signal, Unrecoverable):
                self._record(ctx, signal)
            raise
        except BaseException as error:
            self._record(ctx, error)
            raise

    def _result(self, job: Job, state: JobState) -> TaskResult[Any]:
        taken = attrs.evolve(job, processed_by=job.processed_by or self.worker)
        return task_result(taken, state, find_task(job.name), self.backend.alias)

    def _record(self, ctx: Context, error: BaseException) -> None:
        """Keep with the job what its stack traces do not tell; what stops the attempt from outside tells itself."""
        if ctx.cancelled.is_set():
            return
        job = ctx.job
        kind = type(error)
        failure = Failure(
            attempt=job.attempts_made + 1,
            exception=f"{kind.__module__}.{kind.__qualname__}",
            worker=job.processed_by or self.worker,
            started_ms=job.processed_on_ms or wall_ms(),
        )
        try:
            ctx.update_data(TaskData.of(job).failed(failure).to_json())
        except EchoMQError as problem:  # the attempt fails as it should; the result just tells less of it
            _log.warning("job %s: the class of its failure could not be kept: %s", job.id, problem)

    # -- its end --------------------------------------------------------------------------------

    def _tell_success(self, job: Job, value: Any) -> None:
        ended = attrs.evolve(job, attempts_made=job.attempts_made + 1, finished_on_ms=wall_ms())
        result = self._result(ended, JobState.COMPLETED)
        object.__setattr__(result, "_return_value", value)
        task_finished.send_robust(type(self.backend), task_result=result)

    def _tell_failure(self, job: Job, error: BaseException) -> None:
        result = self._final_failure(job, error)
        if result is None:
            return
        try:
            raise error  # Django's own receiver, and others, ask for the exception that is being handled
        except BaseException:  # noqa: BLE001  # it was handled long ago: the job has failed
            task_finished.send_robust(type(self.backend), task_result=result)

    def _final_failure(self, job: Job, error: BaseException) -> TaskResult[Any] | None:
        """Return the result of a task that has failed for good; None if it runs again, or is none of ours."""
        try:
            result = self.backend.get_result(result_id(job.queue_name, job.id))
        except TaskResultDoesNotExist:
            return self._removed_failure(job, error)
        return result if result.status == FAILED else None

    def _removed_failure(self, job: Job, error: BaseException) -> TaskResult[Any] | None:
        try:
            ended = attrs.evolve(job, attempts_made=job.attempts_made + 1, finished_on_ms=wall_ms())
            result = self._result(ended, JobState.FAILED)
        except EchoMQError:  # no task of this project; the worker has logged why the job failed
            return None
        kind = type(error)
        result.errors[-1:] = [
            StoredError(
                exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=result.errors[-1].traceback
            )
        ]
        return result


def _with_databases(work: Callable[[], Any]) -> Any:
    reset_queries()
    close_old_connections()
    try:
        return work()
    finally:
        close_old_connections()


def _as_json(job: Job, value: Any) -> Any:
    try:
        return normalize_json(value)
    except (TypeError, ValueError) as error:  # another attempt would return it again
        raise NotEncodable(f"the result of job {job.id}", "$", str(error)) from error
