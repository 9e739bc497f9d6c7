"""Operations of several calls, written once for both shells.

A plan is a generator: it yields a request (or a batch), receives the decoded
reply (or the outcomes), and returns the result. What a request raises is
thrown into the plan. Plans do no I/O; :mod:`echomq.aio` and :mod:`echomq.sync`
run them, each with one small loop.

Source: design.md section 3; protocol spec 05 section 10.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from .call import Batch, Command, ScriptCall
from .calls import add as add_calls
from .calls import queue as queue_calls
from .checks import nested, whole
from .errors import BulkAddFailed, EchoMQError, InvalidOption, UsageError
from .given import given_options
from .job import Job
from .keys import Keys
from .options import RateLimit, job_options
from .states import JobState
from .version import __version__

__all__ = [
    "PLACES",
    "UNSTARTED",
    "NewJob",
    "Plan",
    "add_bulk",
    "announce",
    "ask_all",
    "checked_defaults",
    "draft",
    "drafts",
    "global_concurrency",
    "global_rate_limit",
    "resume",
]

T = TypeVar("T")

Plan: TypeAlias = Generator[ScriptCall[Any] | Command[Any] | Batch, Any, T]

NewJob: TypeAlias = tuple[str, object] | tuple[str, object, Mapping[str, object]]
"""A job to add in bulk: name, data and, if wanted, its options by name."""

PLACES = tuple(state for state in JobState if state is not JobState.UNKNOWN)
"""The states that a list or set of the queue stands for."""

UNSTARTED = (JobState.WAITING, JobState.PRIORITIZED, JobState.DELAYED, JobState.WAITING_CHILDREN)
"""Where a job is before a worker takes it."""

_PIPELINE_LENGTH = 1_000
_SCRIPT_LENGTH = 250
"""Jobs that one script adds: 1 to 2 ms of the server's time."""


def ask_all(requests: Sequence[ScriptCall[Any] | Command[Any]], *, atomic: bool = False) -> Plan[list[Any]]:
    """Ask for several things in one batch and return what each request decodes to.

    Raises:
        EchoMQError: That of the first request that failed.
    """
    if not requests:
        return []
    outcomes = yield Batch(requests=tuple(requests), atomic=atomic)
    for outcome in outcomes:
        if isinstance(outcome, EchoMQError):
            raise outcome
    return list(outcomes)


def checked_defaults(defaults: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return a queue's options for new jobs, checked once and early.

    Raises:
        InvalidOption: A value is not acceptable, or there is a job id, which no two jobs can share.
        UnknownOption: No option has that name.
    """
    if defaults is not None and not isinstance(defaults, Mapping):
        raise InvalidOption("default_job_options", f"expected a mapping of names to values, not {defaults!r}")
    defaults = dict(defaults or {})
    if defaults.get("job_id") is not None:
        raise InvalidOption("default_job_options.job_id", "no two jobs can share an id; pass it with each job")
    job_options(**defaults)
    return defaults


def draft(
    keys: Keys, name: str, data: object, options: Mapping[str, object], defaults: Mapping[str, object], now_ms: int
) -> Job:
    """Return the job these options describe, before it has an id.

    Args:
        keys: The queue it goes to.
        name: Name of the job; not empty.
        data: Any JSON value; None is sent as ``null``.
        options: As the caller wrote them.
        defaults: Options of the queue; an option of the call wins.
        now_ms: Becomes the job's timestamp unless an option fixes it.

    Raises:
        UnknownOption: No option has that name.
        InvalidOption: A value is outside what its field allows.
        NotEncodable: The data is not strict JSON.
    """
    return Job.from_options(keys, name, data, given_options({**defaults, **options} if defaults else options), now_ms)


def drafts(keys: Keys, jobs: Iterable[NewJob], defaults: Mapping[str, object], now_ms: int) -> list[Job]:
    """Return the jobs of a bulk add; the first bad one raises, before anything is sent.

    Raises:
        InvalidOption: An item is not ``(name, data)`` or ``(name, data, options)``.
        UsageError: As :func:`draft`, with the place of the item before the text.
    """
    if not isinstance(jobs, Iterable):
        raise InvalidOption("jobs", f"expected (name, data) or (name, data, options) of each job, not {jobs!r}")
    result = []
    for index, item in enumerate(jobs):
        if not isinstance(item, tuple) or not 2 <= len(item) <= 3:
            raise InvalidOption(
                f"jobs[{index}]", f"expected (name, data) or (name, data, options), not {type(item).__name__}"
            )
        options = item[2] if len(item) == 3 else {}
        if not isinstance(options, Mapping):
            raise InvalidOption(f"jobs[{index}]", f"options are a mapping of names to values, not {options!r}")
        try:
            result.append(draft(keys, item[0], item[1], options, defaults, now_ms))
        except UsageError as error:
            error.args = (f"jobs[{index}]: {error}",)  # of thousands, which one
            raise
    return result


def add_bulk(jobs: Sequence[Job], *, atomic: bool, fresh: bool = False) -> Plan[list[Job]]:
    """Add many jobs.

    Args:
        jobs: From :func:`drafts`.
        fresh: Nobody else has seen them, so that they need not be copied to be numbered.
        atomic: True adds them in one script or one MULTI/EXEC, so that a lost link or a full server leaves all
            jobs or none. False sends scripts of 250 jobs, four at a time, for bulks too large to stop the server for.

    Returns:
        The jobs with their ids, in order.

    Raises:
        BulkAddFailed: The server declined some of them; tells which, and which were added.
    """
    portions = list(add_calls.portions(jobs, _PIPELINE_LENGTH if atomic else _SCRIPT_LENGTH))
    sent = [(portion, add_calls.add_portion(portion)) for portion in portions]
    if atomic and len(sent) == 1 and len(jobs) > 1:
        ids = yield sent[0][1]  # a script is all or nothing by itself
        return _numbered(jobs, ids, fresh)
    added: list[Any] = []
    for pipeline in _pipelines(sent, len(jobs) if atomic else _PIPELINE_LENGTH):
        outcomes = yield Batch(requests=tuple(call for _, call in pipeline), atomic=atomic)
        for (portion, _), outcome in zip(pipeline, outcomes, strict=True):
            failed = isinstance(outcome, EchoMQError)
            added += [outcome] * len(portion) if failed else _numbered(portion, outcome, fresh)
    if any(isinstance(outcome, EchoMQError) for outcome in added):
        raise BulkAddFailed(added)
    return added


def _numbered(jobs: Sequence[Job], ids: Sequence[str], fresh: bool) -> list[Job]:
    number = Job.numbered if fresh else Job.with_id
    return [number(job, job_id) for job, job_id in zip(jobs, ids, strict=True)]


_Sent: TypeAlias = tuple[list[Job], ScriptCall[list[str]]]


def _pipelines(sent: Iterable[_Sent], most: int) -> Iterator[list[_Sent]]:
    """Cut calls with their jobs into batches of so many jobs at most."""
    pipeline: list[_Sent] = []
    count = 0
    for portion, call in sent:
        if pipeline and count + len(portion) > most:
            yield pipeline
            pipeline, count = [], 0
        pipeline.append((portion, call))
        count += len(portion)
    if pipeline:
        yield pipeline


def resume(keys: Keys) -> Plan[None]:
    """Resume a queue and bring back all jobs that an old client left in its ``paused`` list.

    Source: protocol spec 04 section 2.1.
    """
    left = yield queue_calls.resume(keys)
    while left:
        left = yield queue_calls.resume(keys, silent=True)


def announce(keys: Keys, max_events: int) -> Command[None]:
    """Write the queue's settings record: who uses it, and how long its event log may grow.

    Raises:
        InvalidOption: ``max_events`` is no count.

    Source: protocol spec 05 section 1.
    """
    whole("max_events", max_events)
    return queue_calls.write_meta(keys, version=f"echomq:{__version__}", max_events=max_events)


def global_concurrency(keys: Keys, concurrency: int | None) -> Command[Any]:
    """Set the limit of active jobs over all workers; None lifts it."""
    if concurrency is None:
        return queue_calls.remove_global_concurrency(keys)
    return queue_calls.set_global_concurrency(keys, concurrency)


def global_rate_limit(keys: Keys, limit: RateLimit | None) -> Command[Any]:
    """Set the rate limit over all workers; None lifts it.

    Raises:
        InvalidOption: It is no rate limit.
    """
    limit = nested(RateLimit, "limit", limit)
    if limit is None:
        return queue_calls.remove_global_rate_limit(keys)
    return queue_calls.set_global_rate_limit(keys, limit.max, limit.duration)
