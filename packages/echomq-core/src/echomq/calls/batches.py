"""Take several jobs, or complete several, in one call of a script of our own.

What they leave is what the contract's scripts would, called one after the
other. Neither is repeatable: see :mod:`echomq.calls.fetch` and
:mod:`echomq.calls.finish`.

Source: protocol spec 03 sections 3.1 and 3.2; ``lua/README.md``.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, TypeAlias

import attrs

from echomq import replies
from echomq.call import Reply, ScriptCall
from echomq.codec import pack
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import Keep

from .fetch import Take, Taken, take_wire, taken_job
from .finish import keep_wire

__all__ = ["MOST_JOBS", "Done", "Ended", "Found", "Terms", "finish_jobs", "take_jobs"]

MOST_JOBS = 50
"""Most jobs in one call: what the server does meanwhile, a millisecond, holds up all others."""


@attrs.frozen(kw_only=True)
class Terms:
    """What all jobs of a batch have in common. Make one and keep it: it is packed once.

    Attributes:
        keys: The queue.
        take: How jobs are taken; its token is not used.
        keep: Finished jobs to keep. None keeps all.
        metrics_points: Minutes of history to count in, or None for no metrics.
        packed: The same, as the scripts take it.
        finish_keys: KEYS of ``finishJobs``.
    """

    keys: Keys
    take: Take
    keep: Keep | None = None
    metrics_points: int | None = None
    packed: bytes = attrs.field(init=False, repr=False, eq=False)
    finish_keys: tuple[str, ...] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        """Pack once what each call sends."""
        wire = take_wire(self.take)
        wire["keepJobs"] = keep_wire(self.keep)
        wire["maxMetricsSize"] = "" if self.metrics_points is None else self.metrics_points
        object.__setattr__(self, "packed", pack(wire))
        object.__setattr__(self, "finish_keys", _finish_keys(self.keys))


def _finish_keys(keys: Keys) -> tuple[str, ...]:
    return (
        *(keys.wait, keys.active, keys.prioritized, keys.events, keys.stalled, keys.limiter, keys.delayed),
        *(keys.meta, keys.priority_counter, keys.base + "completed", keys.metrics("completed"), keys.marker),
    )


@attrs.frozen(kw_only=True)
class Found:
    """What a take of several jobs found.

    Attributes:
        jobs: Locked for the taker: the first with the first token.
        rest: Why there are not more; None: there may be.
    """

    jobs: tuple[Job, ...]
    rest: Taken | None


Done: TypeAlias = tuple[str, str, str]
"""A job that is done: its id, the token of its lock, its result as JSON text."""


@attrs.frozen(kw_only=True)
class Ended:
    """What became of a batch of jobs that are done.

    Attributes:
        stored: For each of them: its result is stored. Else nothing was written, and ``complete`` tells why.
        found: What was taken: the first job with the token of the first one stored, and so on.
    """

    stored: tuple[bool, ...]
    found: Found


@attrs.frozen
class _ReadFound:
    keys: Keys

    def __call__(self, reply: Reply) -> Found:
        return _found(self.keys, *replies.rows(reply, 3))


@attrs.frozen
class _ReadEnded:
    keys: Keys
    count: int

    def __call__(self, reply: Reply) -> Ended:
        codes, *found = replies.rows(reply, 4)
        stored = tuple([code == 0 for code in replies.rows(codes, self.count)])
        return Ended(stored=stored, found=_found(self.keys, *found))


def _found(keys: Keys, flat: Any, limited_ms: Any, next_delayed_at_ms: Any) -> Found:
    if not isinstance(flat, (list, tuple)) or len(flat) % 2:
        raise replies.unexpected(flat, "ids and hashes")
    parts = iter(flat)
    jobs = tuple([taken_job(keys, job_id, fields) for job_id, fields in zip(parts, parts, strict=True)])
    if limited_ms == -1:
        return Found(jobs=jobs, rest=None)
    rest = Taken(
        limited_ms=max(replies.number(limited_ms), 0), next_delayed_at_ms=max(replies.number(next_delayed_at_ms), 0)
    )
    return Found(jobs=jobs, rest=rest)


def take_jobs(terms: Terms, tokens: Sequence[str], now_ms: int) -> ScriptCall[Found]:
    """Take the next jobs. Due delayed jobs are promoted on the way.

    Args:
        terms: How.
        tokens: One for each job wanted, :data:`MOST_JOBS` at most; they become the values of the locks.
        now_ms: The present.
    """
    keys = terms.keys
    return ScriptCall(
        script="takeJobs",
        keys=(
            *(keys.wait, keys.active, keys.prioritized, keys.events, keys.limiter, keys.delayed),
            *(keys.meta, keys.priority_counter, keys.marker),
        ),
        args=(keys.base, now_ms, terms.packed, *tokens),
        decode=_ReadFound(keys),
    )


def finish_jobs(terms: Terms, done: Sequence[Done], *, most: int, now_ms: int) -> ScriptCall[Ended]:
    """Report that jobs are done and, if wanted, take the next ones.

    Only for plain jobs; what the script finds to have children, a parent, a
    deduplication id or a failure it leaves alone.

    Args:
        terms: How.
        done: The jobs, :data:`MOST_JOBS` at most.
        most: How many jobs to take; no more are taken than are stored.
        now_ms: The present.
    """
    return ScriptCall(
        script="finishJobs",
        keys=terms.finish_keys,
        args=(terms.keys.base, now_ms, terms.packed, most, *chain.from_iterable(done)),
        decode=_ReadEnded(terms.keys, len(done)),
    )
