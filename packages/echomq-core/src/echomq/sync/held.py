"""A job that a blocking worker holds, and what is known of it.

Its flags are changed by several threads, all of which have the condition of the
slots then; a flag once set stays set, but for ``reporting`` and ``attempting``.
"""

import threading
import time

import attrs

from echomq.calls.fetch import Take
from echomq.job import Job
from echomq.scheduling.outcome import Outcome

from .context import Context
from .errands import Later

__all__ = ["Held"]


@attrs.define(eq=False)
class Held:
    """A job of ours; also the :class:`~echomq.sync.renewal.Lease` of its lock.

    Attributes:
        job: The job.
        take: How it was taken.
        context: Its ``ctx``.
        outcome: How it ended, or what to report without running it.
        renewed_at_s: When the lock was taken or renewed, on the monotonic clock.
        thread: Id of the thread that works on it, or tells of its end.
        reporting: A call that releases the lock is under way.
        lost: The lock is not ours any more.
        cut: The worker closes and does not wait longer.
        given_up: Set when the slot is released already; whatever its thread does has no effect.
        attempting: Its code runs.
        over: Its code has ended, or will not be run.
        verdict: What the attempt fails with because it was told to stop.
        untold: Why its end is not stored as it was told.
        detached: Its code runs on, and its attempt was ended behind its back.
        limit: What is to happen at its limit of time, if it has one.
    """

    job: Job
    take: Take
    context: Context
    outcome: Outcome | None = None
    renewed_at_s: float = attrs.field(init=False, factory=time.monotonic)
    thread: int | None = attrs.field(init=False, default=None)
    reporting: bool = attrs.field(init=False, default=False)
    lost: bool = attrs.field(init=False, default=False)
    cut: bool = attrs.field(init=False, default=False)
    given_up: threading.Event = attrs.field(init=False, factory=threading.Event)
    attempting: bool = attrs.field(init=False, default=False)
    over: bool = attrs.field(init=False, default=False)
    verdict: BaseException | None = attrs.field(init=False, default=None)
    untold: BaseException | None = attrs.field(init=False, default=None)
    detached: bool = attrs.field(init=False, default=False)
    limit: Later | None = attrs.field(init=False, default=None)

    @property
    def job_id(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.job.id

    @property
    def token(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.take.token
