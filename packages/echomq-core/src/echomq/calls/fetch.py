"""Take jobs, and give them back.

None of the calls that take or return a job is repeatable: the job that a lost
reply named is recovered as stalled, and taking again would take another.

Source: protocol spec 03 sections 3.1, 3.6 and 3.10; 05 sections 4.3 and 4.4.
"""

from typing import Any

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import RateLimit
from echomq.states import JobState

__all__ = [
    "NO_LOCK",
    "Take",
    "Taken",
    "get_rate_limit_ttl",
    "has_unstarted",
    "is_maxed",
    "move_job_from_active_to_wait",
    "move_to_active",
    "read_taken",
    "set_marker",
    "take_wire",
    "taken_job",
    "wait_marker",
]

NO_LOCK = "0"
"""A token that asks for no lock."""


def take_wire(take: "Take") -> dict[str, Any]:
    """Return what the scripts want to know about a take, for msgpack.

    Source: protocol spec 03 section 1.3.
    """
    limiter = take.limiter
    wire: dict[str, Any] = {
        "token": take.token,
        "lockDuration": take.lock_ms,
        "limiter": None if limiter is None else {"max": limiter.max, "duration": limiter.duration},
    }
    if take.worker_name is not None:
        wire["name"] = take.worker_name
    return wire


@attrs.frozen(kw_only=True)
class Take:
    """How a worker's slot takes jobs. Make one for each slot and keep it: it is packed once.

    Attributes:
        token: Value of the locks.
        lock_ms: Their life.
        limiter: Rate limit of the worker, or None.
        worker_name: Stored with the jobs it takes, or None.
        packed: The same, as the scripts take it.
    """

    token: str
    lock_ms: int
    limiter: RateLimit | None = None
    worker_name: str | None = None
    packed: bytes = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Pack once what each fetch sends."""
        object.__setattr__(self, "packed", codec.pack(take_wire(self)))


@attrs.frozen(kw_only=True)
class Taken:
    """What a take found.

    Attributes:
        job: A job, locked for the taker; None if there was none.
        limited_ms: Take nothing for so long; 0: not limited.
        next_delayed_at_ms: When the earliest delayed job is due, in ms since the epoch; 0: none is known.
    """

    job: Job | None = None
    limited_ms: int = 0
    next_delayed_at_ms: int = 0


@attrs.frozen
class _ReadTaken:
    keys: Keys

    def __call__(self, reply: Reply) -> Taken:
        return read_taken(self.keys, reply)


def read_taken(keys: Keys, reply: Reply) -> Taken:
    """Return what a take found.

    Raises:
        ProtocolError: The reply has none of the contract's four shapes.

    Source: protocol spec 03 section 2, S12.
    """
    if not isinstance(reply, (list, tuple)) or len(reply) < 2:
        raise replies.unexpected(reply, "what a take found")
    fields, job_id = reply[0], reply[1]
    if not (isinstance(fields, int) and isinstance(job_id, int)):
        return Taken(job=taken_job(keys, job_id, fields))
    limited_ms, next_ms = (*reply[2:4], 0, 0)[:2]
    return Taken(limited_ms=max(replies.number(limited_ms), 0), next_delayed_at_ms=max(replies.number(next_ms), 0))


def taken_job(keys: Keys, job_id: Reply, fields: Reply) -> Job:
    """Return a job that was taken; one that could not be named again is marked to fail without being run.

    Raises:
        ProtocolError: The id is no text, or the fields are no hash.
    """
    try:
        name = job_id.decode() if type(job_id) is bytes else replies.text(job_id)
    except UnicodeDecodeError:
        job = Job.from_hash(keys, replies.text(job_id), fields, JobState.ACTIVE)
        return attrs.evolve(job, deferred_failure=f"its id is not UTF-8: {job_id!r}; remove it by hand")
    return Job.from_hash(keys, name, fields, JobState.ACTIVE)


def move_to_active(keys: Keys, take: Take, now_ms: int) -> ScriptCall[Taken]:
    """Take the next job. Due delayed jobs are promoted on the way.

    Args:
        keys: The queue.
        take: How.
        now_ms: The present.

    Source: protocol spec 03 section 3.1.
    """
    return ScriptCall(
        script="moveToActive",
        keys=(
            *(keys.wait, keys.active, keys.prioritized, keys.events, keys.stalled, keys.limiter),
            *(keys.delayed, keys.paused, keys.meta, keys.priority_counter, keys.marker),
        ),
        args=(keys.base, now_ms, take.packed),
        decode=_ReadTaken(keys),
    )


def move_job_from_active_to_wait(keys: Keys, job_id: str, token: str) -> ScriptCall[int]:
    """Give an active job back, as the next in line; no attempt is used.

    Returns:
        Decodes to the ms that a rate limit still lasts, or 0.

    Raises:
        JobNotFound, LockMissing, LockMismatch: By ``decode``; nothing was written. A job
            that is locked but not active is no error here.

    Source: protocol spec 03 section 3.6.
    """
    return ScriptCall(
        script="moveJobFromActiveToWait",
        keys=(
            *(keys.active, keys.wait, keys.stalled, keys.paused, keys.meta),
            *(keys.limiter, keys.prioritized, keys.marker, keys.events),
        ),
        args=(job_id, token, keys.job(job_id)),
        decode=replies.Checked(replies.number, "moveJobFromActiveToWait", job_id),
    )


def get_rate_limit_ttl(keys: Keys, max_jobs: int = 0) -> ScriptCall[int]:
    """Ask how long a rate limit lasts. Repeatable: it only reads (an expired counter may go).

    Args:
        keys: The queue.
        max_jobs: Limit to compare with; 0 takes the queue's own, and without one tells of a manual limit.

    Returns:
        Decodes to ms; 0 or negative: not limited.

    Source: protocol spec 03 section 3.10.
    """
    return ScriptCall(
        script="getRateLimitTtl",
        keys=(keys.limiter, keys.meta),
        args=(max_jobs,),
        decode=replies.number,
        repeatable=True,
    )


def is_maxed(keys: Keys) -> ScriptCall[bool]:
    """Ask whether as many jobs are active as the queue allows. Repeatable: it only reads.

    Source: protocol spec 03 section 3.10.
    """
    return ScriptCall(script="isMaxed", keys=(keys.meta, keys.active), args=(), decode=replies.flag, repeatable=True)


def wait_marker(keys: Keys, timeout_ms: int) -> Command[float | None]:
    """Block until there may be a job. Belongs on a connection of its own.

    Not repeatable: the pop removes the marker. Whatever happened, take afterwards.

    Args:
        keys: The queue.
        timeout_ms: Longest wait, at least 1.

    Returns:
        Decodes to the marker's score: 0 to take now, else when a delayed job is due, in ms
        since the epoch, maybe fractional. None: nothing came.

    Source: protocol spec 01 section 6; 05 section 4.3.
    """
    return Command(
        parts=("BZPOPMIN", keys.marker, f"{timeout_ms / 1000:.3f}"), decode=_read_marker, block_ms=timeout_ms
    )


def has_unstarted(keys: Keys) -> Command[bool]:
    """Ask whether any job waits, by priority or not, or is delayed. Repeatable: it only reads."""
    return Command(parts=("EXISTS", keys.wait, keys.prioritized, keys.delayed), decode=_is_positive, repeatable=True)


def _is_positive(reply: Reply) -> bool:
    return replies.number(reply) > 0


def set_marker(keys: Keys) -> Command[None]:
    """Wake a worker, whatever there is to do: markers are hints. Repeatable.

    Source: protocol spec 01 section 6.
    """
    return Command(parts=("ZADD", keys.marker, 0, "0"), decode=replies.nothing, repeatable=True)


def _read_marker(reply: Reply) -> float | None:
    if reply is None:
        return None
    try:
        return float(reply[2])
    except (TypeError, ValueError, IndexError, KeyError):
        raise replies.unexpected(reply, "a member of the marker") from None
