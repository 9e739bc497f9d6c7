"""Remove jobs and what is left of them.

Source: protocol spec 04 sections 2.2, 2.3, 2.5 and 2.6; 02 section 4.3.
"""

from collections.abc import Iterable, Sequence

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.checks import filled
from echomq.errors import InvalidOption, JobLocked, script_error
from echomq.keys import FAMILY_NAMES, Keys
from echomq.states import JobState

__all__ = [
    "Swept",
    "clean",
    "count_existing",
    "glob_escaped",
    "orphan_candidates",
    "remove_deduplication_key",
    "remove_job",
    "remove_orphans",
    "remove_tree",
    "scan_children",
    "scan_keys",
    "sweep",
]

_SUB_KEYS = ("logs", "dependencies", "processed", "failed", "unsuccessful", "lock")
_FAMILIES = (
    *("active", "wait", "waiting-children", "paused", "id", "delayed", "prioritized", "stalled-check", "completed"),
    *("failed", "stalled", "repeat", "limiter", "meta", "events", "pc", "marker", "de"),
)
_NEVER_JOBS = FAMILY_NAMES | {"de", "dn", "metrics", "repeat"}


@attrs.frozen
class _ReadRemoved:
    script: str
    job_id: str

    def __call__(self, reply: Reply) -> bool:
        code = replies.number(reply)
        if code < 0:
            raise script_error(code, self.script, self.job_id)
        if code == 0:
            raise JobLocked(self.script, self.job_id)
        return code == 1


def remove_job(keys: Keys, job_id: str, with_children: bool = True) -> ScriptCall[bool]:
    """Remove a job from wherever it is; an absent one is no error. Decodes to True.

    Repeatable: the second run finds no such job.

    Args:
        keys: The queue.
        job_id: The job.
        with_children: Remove its children and theirs too.

    Raises:
        JobLocked: By ``decode``; it, or a child, is being processed. Nothing was written.
        JobBelongsToScheduler: By ``decode``; it is the pending job of a scheduler. Nothing was written.
        InvalidOption: That is no id of a job.
    """
    return ScriptCall(
        script="removeJob",
        keys=(keys.job_named(job_id), keys.repeat),
        args=(job_id, "1" if with_children else "0", keys.base),
        decode=_ReadRemoved("removeJob", job_id),
        repeatable=True,
    )


def remove_tree(keys: Keys, job_id: str, *, effort: int, begun: bool) -> ScriptCall[bool]:
    """Remove a job with all below it, one step of it.

    Repeatable: what is gone is gone.

    Args:
        keys: The queue.
        job_id: The job.
        effort: About how many jobs to remove in this step.
        begun: False removes all or nothing; True as much as the effort allows, the job itself last.

    Returns:
        Decodes to True when all is gone; to False if there is more than the effort allows.

    Raises:
        JobLocked: By ``decode``; it, or a child, is being processed.
        JobBelongsToScheduler: By ``decode``; it is the pending job of a scheduler.
    """
    return ScriptCall(
        script="removeTree",
        keys=(keys.job_named(job_id), keys.repeat),
        args=(job_id, keys.base, effort, "1" if begun else "0"),
        decode=_ReadRemoved("removeTree", job_id),
        repeatable=True,
    )


def scan_children(job_key: str, cursor: str, count: int) -> Command[tuple[str, list[str]]]:
    """Go on through the unfinished children of a job, in no order.

    Args:
        job_key: Key of the job.
        cursor: ``"0"`` to begin, then as decoded.
        count: About how many to read.

    Returns:
        Decodes to the next cursor, ``"0"`` at the end, and keys of children.
    """
    return Command(
        parts=("SSCAN", f"{job_key}:dependencies", cursor, "COUNT", count), decode=_read_scan, repeatable=True
    )


def count_existing(keys: Sequence[str]) -> Command[int]:
    """Count those of some keys, at least one, that exist."""
    return Command(parts=("EXISTS", *keys), decode=replies.number, repeatable=True)


@attrs.frozen
class Swept:
    """What one step of a sweep did.

    Attributes:
        removed: Ids of the removed jobs.
        first: Where the next step begins; None after the last one.
    """

    removed: list[str]
    first: int | None


def sweep(
    keys: Keys, state: str, *, before_ms: int | None, first: int, count: int, limit: int = 0, tell: bool = False
) -> ScriptCall[Swept]:
    """Remove jobs that have not finished and are older than a moment, one step of it.

    Not repeatable: a second run would begin where the first one did.

    Args:
        keys: The queue.
        state: The wire's word: ``wait``, ``paused``, ``active`` (only those without a lock), ``delayed`` or
            ``prioritized``.
        before_ms: Only jobs not younger than this moment; None for all.
        first: 0, then as decoded.
        count: Most jobs to look at in this step.
        limit: Remove so many at most, the oldest; 0 for all, from the newest on.
        tell: Announce how many went.
    """
    return ScriptCall(
        script="sweepJobs",
        keys=(keys.base + state, keys.events, keys.repeat),
        args=(
            *(keys.base, state, "inf" if before_ms is None else before_ms),
            *(first, count, limit, "1" if tell else "0"),
        ),
        decode=_read_swept,
    )


def _read_swept(reply: Reply) -> Swept:
    if not isinstance(reply, (list, tuple)) or len(reply) != 2:
        raise replies.unexpected(reply, "a place and ids")
    first = replies.number(reply[0])
    return Swept(replies.texts(reply[1]), None if first < 0 else first)


def clean(keys: Keys, state: JobState, before_ms: int, limit: int) -> ScriptCall[list[str]]:
    """Remove jobs of one state that are older than a moment.

    Not repeatable: a second run would remove up to ``limit`` more.

    Args:
        keys: The queue.
        state: Any but UNKNOWN. Active jobs go only without a lock.
        before_ms: Only jobs not younger than this moment.
        limit: At most this many; 0 for all.

    Returns:
        Decodes to the ids of the removed jobs.

    Raises:
        InvalidOption: The state is UNKNOWN.
    """
    if state is JobState.UNKNOWN:
        raise InvalidOption("state", "no list holds jobs of unknown state")
    name = codec.STATE_NAMES[state]
    return ScriptCall(
        script="cleanJobsInSet",
        keys=(keys.base + name, keys.events, keys.repeat),
        args=(keys.base, before_ms, limit, name),
        decode=replies.texts,
    )


def scan_keys(keys: Keys, cursor: str, count: int) -> Command[tuple[str, list[str]]]:
    """Go on through all keys of a queue, in no order.

    Args:
        keys: The queue.
        cursor: ``"0"`` to begin, then as decoded.
        count: How much work the server may do for one answer.

    Returns:
        Decodes to the next cursor, ``"0"`` at the end, and the keys found.
    """
    pattern = f"{glob_escaped(keys.base)}*"
    parts = ("SCAN", cursor, "MATCH", pattern, "COUNT", count)
    return Command(parts=parts, decode=_read_scan, repeatable=True, near=keys.meta)


def glob_escaped(text: str) -> str:
    """Return a pattern of SCAN that stands for this text only."""
    return "".join(f"\\{letter}" if letter in "*?[]\\^" else letter for letter in text)


def _read_scan(reply: Reply) -> tuple[str, list[str]]:
    if not isinstance(reply, (list, tuple)) or len(reply) != 2:
        raise replies.unexpected(reply, "a cursor and keys")
    return replies.text(reply[0]), replies.texts(reply[1])


def orphan_candidates(keys: Keys, found: Iterable[str]) -> list[str]:
    """Return the ids that some keys of a queue may belong to, each once.

    Source: protocol spec 05 section 10, removeOrphanedJobs.
    """
    ids: dict[str, None] = {}
    for key in found:
        job_id, _, sub_key = key[len(keys.base) :].partition(":")
        if job_id and job_id not in _NEVER_JOBS and (not sub_key or sub_key in _SUB_KEYS):
            ids[job_id] = None
    return list(ids)


def remove_orphans(keys: Keys, candidates: Sequence[str]) -> ScriptCall[int]:
    """Delete the keys of those candidates that no list or set of the queue holds.

    Repeatable: what is gone is gone; only the count would be of the second run.

    Returns:
        Decodes to how many candidates were found nowhere.
    """
    return ScriptCall(
        script="removeOrphanedJobs",
        keys=(keys.base,),
        args=(len(_FAMILIES), *_FAMILIES, len(_SUB_KEYS), *_SUB_KEYS, *candidates),
        decode=replies.number,
        repeatable=True,
    )


def remove_deduplication_key(
    keys: Keys, deduplication_id: str, job_id: str | None = None
) -> ScriptCall[bool] | Command[bool]:
    """Free a deduplication id before its time. Repeatable.

    Args:
        keys: The queue.
        deduplication_id: The id.
        job_id: Only if this job holds it; None: whoever does.

    Returns:
        Decodes to False if nothing was freed.
    """
    key = keys.deduplication(filled("deduplication_id", deduplication_id))
    if job_id is None:
        return Command(parts=("DEL", key), decode=replies.flag, repeatable=True)
    return ScriptCall(
        script="removeDeduplicationKey", keys=(key,), args=(job_id,), decode=replies.flag, repeatable=True
    )
