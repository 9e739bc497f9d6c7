"""A job that a worker holds, and what is known of it."""

from typing import TYPE_CHECKING

from echomq.calls.fetch import Take
from echomq.job import Job

from .context import Context, ThreadContext

if TYPE_CHECKING:
    import asyncio

__all__ = ["Held"]


class Held:
    """A job of ours; also the :class:`~echomq.sync.renewal.Lease` of its lock.

    One is made for each job: what is still as at the beginning stands in the class.

    Attributes:
        job: The job.
        take: How it was taken.
        context: Its ``ctx``.
        renewed_at_s: When the lock was taken or renewed, on the monotonic clock.
        is_late: Its lock may run out before it is renewed, or have done so; ask before it runs.
        task: What works on it.
        reporting: A call that releases the lock is under way.
        lost: The lock is not ours any more.
        cut: The worker closes and does not wait longer.
        given_up: The slot is released already; whatever its task does has no effect.
        attempting: Its code runs.
        over: Its code has ended, or will not be run.
        verdict: What the attempt fails with because it was told to stop.
        untold: Why its end is not stored as it was told.
    """

    task: "asyncio.Task[None] | None" = None
    is_late: bool = False
    reporting: bool = False
    lost: bool = False
    cut: bool = False
    given_up: bool = False
    attempting: bool = False
    over: bool = False
    verdict: BaseException | None = None
    untold: BaseException | None = None

    def __init__(self, job: Job, take: Take, context: Context | ThreadContext, renewed_at_s: float) -> None:
        self.job = job
        self.take = take
        self.context = context
        self.renewed_at_s = renewed_at_s

    @property
    def job_id(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.job.id

    @property
    def token(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.take.token

    def interrupt(self) -> None:
        """Cancel a coroutine; ask a thread to end."""
        self.context.cancel()
        if self.task is not None and not isinstance(self.context, ThreadContext):
            self.task.cancel()
