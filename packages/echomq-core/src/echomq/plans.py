"""Operations of several calls, written once for both shells.

A plan is a generator: it yields a request (or a batch), receives the decoded
reply (or the outcomes), and returns the result. What a request raises is
thrown into the plan. Plans do no I/O; :mod:`echomq.aio` and :mod:`echomq.sync`
run them, each with one small loop.

Source: design.md section 3; protocol spec 05 section 10.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import attrs

from .call import Batch, Command, ScriptCall
from .calls import add as add_calls
from .calls import queue as queue_calls
from .calls import remove as remove_calls
from .checks import check_names, nested, whole
from .errors import BulkAddFailed, EchoMQError, InvalidOption, JobLocked
from .job import Job
from .keys import Keys
from .moments import moment_ms
from .options import JobOptions, RateLimit, job_options
from .states import JobState
from .version import __version__

__all__ = [
    "PLACES",
    "UNSTARTED",
    "NewJob",
    "Plan",
    "add_bulk",
    "announce",
    "checked_defaults",
    "clean",
    "draft",
    "drafts",
    "drain",
    "global_concurrency",
    "global_rate_limit",
    "move_all_to_wait",
    "obliterate",
    "remove",
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
_STEP = 1_000
_TREE_STEP = 500
"""Jobs that one call removes: 5 to 10 ms of the server's time, measured with 100,000 jobs."""

_SWEPT = {
    JobState.WAITING: ("wait", "paused"),
    JobState.ACTIVE: ("active",),
    JobState.DELAYED: ("delayed",),
    JobState.PRIORITIZED: ("prioritized",),
}
"""Where jobs that may be spared stand, so that a step must begin behind those that were."""


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
    merged: JobOptions = job_options(**{**defaults, **options})
    return Job.from_options(keys, name, data, merged, now_ms)


def drafts(keys: Keys, jobs: Iterable[NewJob], defaults: Mapping[str, object], now_ms: int) -> list[Job]:
    """Return the jobs of a bulk add; the first bad one raises, before anything is sent.

    Raises:
        InvalidOption: An item is not ``(name, data)`` or ``(name, data, options)``, or as :func:`draft`.
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
        check_names(JobOptions, options)  # names that are no text cannot be keywords
        result.append(draft(keys, item[0], item[1], options, defaults, now_ms))
    return result


def add_bulk(jobs: Sequence[Job], *, atomic: bool) -> Plan[list[Job]]:
    """Add many jobs.

    Args:
        jobs: From :func:`drafts`.
        atomic: True sends one MULTI/EXEC, so that a lost link or a full server leaves all
            jobs or none. False sends pipelines of 1,000, for bulks too large to stop the server for.

    Returns:
        The jobs with their ids, in order.

    Raises:
        BulkAddFailed: The server declined some of them; tells which, and which were added.
    """
    outcomes: list[Any] = []
    waiting = iter(jobs)
    while chunk := list(islice(waiting, len(jobs) if atomic else _PIPELINE_LENGTH)):
        outcomes += yield Batch(requests=tuple(add_calls.add_job(job) for job in chunk), atomic=atomic)
    added: list[Any] = [
        outcome if isinstance(outcome, EchoMQError) else attrs.evolve(job, id=outcome)
        for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    if any(isinstance(outcome, EchoMQError) for outcome in added):
        raise BulkAddFailed(added)
    return added


def resume(keys: Keys) -> Plan[None]:
    """Resume a queue and bring back all jobs that an old client left in its ``paused`` list.

    Source: protocol spec 04 section 2.1.
    """
    left = yield queue_calls.resume(keys)
    while left:
        left = yield queue_calls.resume(keys, silent=True)


def obliterate(keys: Keys, *, force: bool, count: int) -> Plan[None]:
    """Delete a queue with all it holds, in steps of ``count`` jobs.

    Raises:
        QueueHasActiveJobs: Jobs are being processed, and ``force`` is not set.
        InvalidOption: ``count`` is not at least 1.

    Source: protocol spec 04 section 2.4.
    """
    whole("count", count, 1)  # steps of none would never end
    yield queue_calls.pause(keys)
    while (yield queue_calls.obliterate(keys, count, force)):
        pass


def clean(keys: Keys, state: JobState, *, before_ms: int, limit: int) -> Plan[list[str]]:
    """Remove jobs of one state that are older than a moment, in steps.

    Args:
        keys: The queue.
        state: Which jobs.
        before_ms: Only jobs not younger than this moment.
        limit: At most this many, the oldest; 0 for all.

    Returns:
        Ids of the removed jobs.

    Raises:
        InvalidOption: ``limit`` is no count.

    Source: protocol spec 04 section 2.3.
    """
    whole("limit", limit)
    removed: list[str] = []
    for place in _SWEPT.get(state, ()):
        left = limit - len(removed) if limit else 0
        if left or not limit:
            removed += yield from _sweep(keys, place, before_ms=before_ms, limit=left, tell=True)
    while state not in _SWEPT:
        step = min(_STEP, limit - len(removed)) if limit else _STEP
        ids = yield remove_calls.clean(keys, state, before_ms, step)
        removed += ids
        if len(ids) < step or len(removed) == limit:
            break
    return removed


def drain(keys: Keys, *, delayed: bool) -> Plan[None]:
    """Drop all jobs that wait, and those delayed if asked, in steps; schedulers keep their next job.

    In the order in which jobs move on, so that none slips past.

    Source: protocol spec 04 section 2.2.
    """
    for place in ("delayed", "prioritized", "paused", "wait")[0 if delayed else 1 :]:
        yield from _sweep(keys, place, before_ms=None, limit=0, tell=False)


def _sweep(keys: Keys, place: str, *, before_ms: int | None, limit: int, tell: bool) -> Plan[list[str]]:
    removed: list[str] = []
    first: int | None = 0
    while first is not None:
        left = limit - len(removed) if limit else 0
        swept = yield remove_calls.sweep(
            keys, place, before_ms=before_ms, first=first, count=_STEP, limit=left, tell=tell
        )
        removed += swept.removed
        first = swept.first
    return removed


def remove(keys: Keys, job_id: str, *, with_children: bool) -> Plan[None]:
    """Remove a job, with all below it if asked: at once, or in steps if that is too much for one call.

    Raises:
        JobLocked: It, or a child, is being processed. Nothing was removed, unless a worker took a child of a
            large tree while that was being removed.
        JobBelongsToScheduler: It is the current job of a scheduler.

    Source: protocol spec 04 section 2.5.
    """
    if not with_children:
        yield remove_calls.remove_job(keys, job_id, with_children=False)
        return
    if (yield remove_calls.remove_tree(keys, job_id, effort=_TREE_STEP, begun=False)):
        return
    yield from _expect_no_lock(keys, job_id)
    while not (yield remove_calls.remove_tree(keys, job_id, effort=_TREE_STEP, begun=True)):
        pass


def _expect_no_lock(keys: Keys, job_id: str) -> Plan[None]:
    parents = [keys.job(job_id)]
    while parents:
        parent, cursor, begun = parents.pop(), "0", False
        while cursor != "0" or not begun:
            cursor, children = yield remove_calls.scan_children(parent, cursor, _STEP)
            begun = True
            if not children:
                continue
            if (yield remove_calls.count_existing([f"{child}:lock" for child in children])):
                raise JobLocked("removeTree", job_id)
            pending = [f"{child}:dependencies" for child in children]
            if (yield remove_calls.count_existing(pending)):
                found = yield Batch(requests=tuple(remove_calls.count_existing([key]) for key in pending))
                parents += [child for child, is_parent in zip(children, found, strict=True) if is_parent == 1]


def move_all_to_wait(keys: Keys, state: JobState, *, count: int, until_ms: int | None) -> Plan[None]:
    """Retry all failed or completed jobs, or promote all delayed ones, in steps of ``count``.

    Raises:
        InvalidOption: ``count`` is not at least 1, or the state is another one.

    Source: protocol spec 04 section 2.10.
    """
    whole("count", count, 1)
    until_ms = None if until_ms is None else moment_ms("until_ms", until_ms)
    while (yield queue_calls.move_jobs_to_wait(keys, state, count, until_ms)):
        pass


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
