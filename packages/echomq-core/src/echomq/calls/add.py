"""Add jobs.

An add is repeatable only with a job id of the caller's: the second run then
finds the job and changes nothing. Without one, the server would number a second
job; with a deduplication id, a second refusal could replace the job that is
kept for later.

Source: protocol spec 02 sections 1 to 3.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs
import msgspec

from echomq import codec, replies
from echomq.call import Reply, ScriptCall
from echomq.job import Job
from echomq.keys import Keys

__all__ = [
    "FEW",
    "PORTION_SIZE",
    "add_delayed_job",
    "add_job",
    "add_jobs",
    "add_parent_job",
    "add_portion",
    "add_prioritized_job",
    "add_standard_job",
    "is_plain",
    "portions",
    "release_parent",
]

FEW = 2
"""Of so many jobs each is added by a call of its own, which costs the server less: measured."""

PORTION_SIZE = 1024 * 1024
"""Length of data from which no further job goes into a call."""


def add_job(job: Job, *, defer: bool = False, has_children: bool = False) -> ScriptCall[str]:
    """Add a job with the script that its options ask for.

    Args:
        job: From :meth:`~echomq.job.Job.from_options`.
        defer: The job is part of a flow: its parent is released by a later :func:`release_parent`.
        has_children: The job waits for children, which are added after it.

    Returns:
        Decodes to the id: the job's own, or that of the job that was there already.

    Raises:
        ParentNotFound: By ``decode``; nothing was written.
        ParentConflict: By ``decode``; the job exists and has another parent.

    Source: protocol spec 02 section 2.
    """
    if has_children:
        return add_parent_job(job, defer=defer)
    if job.delay_ms > 0:
        return add_delayed_job(job, defer=defer)
    if job.priority:
        return add_prioritized_job(job, defer=defer)
    return add_standard_job(job, defer=defer)


def add_standard_job(job: Job, *, defer: bool = False) -> ScriptCall[str]:
    """Add a job that may run at once, in order of arrival."""
    k = job.keys
    keys = (k.wait, k.paused, k.meta, k.id_counter, k.completed, k.delayed, k.active, k.events, k.marker)
    return _add("addStandardJob", keys, job, defer)


def add_delayed_job(job: Job, *, defer: bool = False) -> ScriptCall[str]:
    """Add a job that may not run before its delay is over."""
    k = job.keys
    keys = (k.marker, k.meta, k.id_counter, k.delayed, k.completed, k.events)
    return _add("addDelayedJob", keys, job, defer)


def add_prioritized_job(job: Job, *, defer: bool = False) -> ScriptCall[str]:
    """Add a job that may run at once, by priority."""
    k = job.keys
    keys = (
        *(k.marker, k.meta, k.id_counter, k.prioritized, k.delayed),
        *(k.completed, k.active, k.events, k.priority_counter),
    )
    return _add("addPrioritizedJob", keys, job, defer)


def add_parent_job(job: Job, *, defer: bool = False) -> ScriptCall[str]:
    """Add a job that waits for its children; its delay and priority count afterwards."""
    k = job.keys
    keys = (k.meta, k.id_counter, k.delayed, k.waiting_children, k.completed, k.events)
    return _add("addParentJob", keys, job, defer)


def _add(script: str, keys: tuple[str, ...], job: Job, defer: bool) -> ScriptCall[str]:
    options, parent_key = job.options, job.parent_key
    deduplication = options.deduplication
    head = (
        job.keys.base,
        job.id,
        job.name,
        job.timestamp_ms,
        parent_key,
        None if parent_key is None else f"{parent_key}:dependencies",
        None if parent_key is None else _parent(job),
        job.scheduler_id,
        None if deduplication is None else job.keys.deduplication(deduplication.id),
        1 if defer else None,
    )
    return ScriptCall(
        script=script,
        keys=keys,
        args=(codec.pack(head), job.raw_data, options.packed),
        decode=replies.Checked(replies.text, script, job.id or None),
        repeatable=bool(job.id) and deduplication is None,
    )


def _parent(job: Job) -> Mapping[str, object] | None:
    options = job.options
    if options.parent is None:
        return job.parent
    parent: dict[str, object] = {"id": options.parent.id, "queueKey": options.parent.queue}
    flags = {
        "fpof": options.fail_parent_on_failure,
        "rdof": options.remove_dependency_on_failure,
        "idof": options.ignore_dependency_on_failure,
        "cpof": options.continue_parent_on_failure,
    }
    parent.update({flag: True for flag, is_set in flags.items() if is_set})
    return parent


def is_plain(job: Job) -> bool:
    """Tell whether :func:`add_jobs` can add this job: whether its add has nothing to do with any other job."""
    options = job.options
    return (
        options.is_plain
        and not job.id
        and job.parent_key is None
        and job.scheduler_id is None
        # A plugin may have changed one and not the other.
        and job.delay_ms == options.delay
        and job.priority == options.priority
    )


def portions(jobs: Iterable[Job], most: int) -> Iterator[list[Job]]:
    """Cut jobs into portions for one call each, in order: one job for :func:`add_job`, or several for :func:`add_jobs`.

    Args:
        jobs: As :func:`add_job` takes them.
        most: Jobs in a portion.
    """
    portion: list[Job] = []
    size, keys = 0, None
    for job in jobs:
        plain = is_plain(job)
        differs = job.keys is not keys and job.keys != keys
        if not plain or differs or size >= PORTION_SIZE or len(portion) >= most:
            yield from _enough(portion)
            portion, size, keys = [], 0, job.keys
        if plain:
            portion.append(job)
            size += len(job.raw_data)
        else:
            yield [job]
    yield from _enough(portion)


def _enough(portion: list[Job]) -> Iterable[list[Job]]:
    return [portion] if len(portion) > FEW else [[job] for job in portion]


def add_portion(portion: Sequence[Job]) -> ScriptCall[list[str]]:
    """Add a portion of jobs; decodes to their ids, in order."""
    if len(portion) > 1:
        return add_jobs(portion)
    call = add_job(portion[0])
    return ScriptCall(
        script=call.script, keys=call.keys, args=call.args, decode=_One(call.decode), repeatable=call.repeatable
    )


def add_jobs(jobs: Sequence[Job]) -> ScriptCall[list[str]]:
    """Add many plain jobs of one queue with one script; what they have in common is sent once.

    Args:
        jobs: One at least, 3,000 at most; see :func:`is_plain`.

    Returns:
        Decodes to their ids, in order.

    Source: protocol spec 02 section 2; ``lua/README.md``, "Scripts of our own".
    """
    options: dict[bytes, int] = {}
    kinds: dict[tuple[str, int, int], int] = {}
    order: list[int] = []
    last_options, last_name, last_ms = None, "", 0
    for job in jobs:
        given, name, made_ms = job.options, job.name, job.timestamp_ms
        if given is last_options and made_ms == last_ms and name == last_name:
            order[-1] += 1
            continue
        last_options, last_name, last_ms = given, name, made_ms
        place = options.setdefault(given.packed, len(options) + 1)
        order += (kinds.setdefault((name, made_ms, place), len(kinds) + 1), 1)
    head = ([msgspec.Raw(packed) for packed in options], list(kinds), order)
    k = jobs[0].keys
    return ScriptCall(
        script="addJobs",
        keys=(k.wait, k.meta, k.id_counter, k.delayed, k.active, k.events, k.marker, k.prioritized, k.priority_counter),
        args=(k.base, codec.pack(head), *[job.raw_data for job in jobs]),
        decode=_Numbers(len(jobs)),
    )


@attrs.frozen
class _One:
    """Reads the id of one job as a list."""

    read: Callable[[Reply], str]

    def __call__(self, reply: Reply) -> list[str]:
        return [self.read(reply)]


@attrs.frozen
class _Numbers:
    """Reads the number of the first of so many jobs as the ids of all."""

    count: int

    def __call__(self, reply: Reply) -> list[str]:
        first = replies.number(reply)
        return [str(number) for number in range(first, first + self.count)]


def release_parent(keys: Keys, job_id: str, now_ms: int) -> ScriptCall[None]:
    """Let a parent of a flow run if none of its children is pending; the last step of a flow's insert.

    Repeatable: a parent that was released no longer waits for children, and a second run stops there.

    Args:
        keys: The parent's queue.
        job_id: The parent.
        now_ms: The present; a delay of the parent counts from here.

    Source: protocol spec 02 section 3.
    """
    return ScriptCall(
        script="releaseParentIfNoPendingDependencies",
        keys=(keys.job(job_id), keys.dependencies(job_id)),
        args=(keys.qualified_name, job_id, now_ms),
        decode=replies.nothing,
        repeatable=True,
    )
