"""Change and remove single jobs of a queue, blocking.

Methods of :class:`~echomq.Queue`.

Source: protocol spec 03 sections 3.9 and 3.11; 04 sections 2.5 to 2.9; 05 section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import removal, rerun
from echomq.calls import change
from echomq.calls import remove as remove_calls
from echomq.clock import wall_ms
from echomq.moments import duration_ms
from echomq.states import JobState

if TYPE_CHECKING:
    from echomq.moments import Duration

    from .queue import Queue

__all__ = [
    "add_log",
    "change_delay",
    "change_priority",
    "clear_logs",
    "promote",
    "remove",
    "remove_deduplication",
    "retry",
    "update_data",
    "update_progress",
]


def remove(self: Queue, job_id: str, *, children: bool = True) -> None:
    """Remove a job, with its children unless told otherwise; an absent one is no error.

    Raises:
        JobLocked: It, or a child, is being processed.
        JobBelongsToScheduler: It is the current job of a scheduler.
    """
    self._perform(removal.remove(self.keys, job_id, with_children=children))


def retry(
    self: Queue,
    job_id: str,
    state: JobState | str = JobState.FAILED,
    *,
    lifo: bool = False,
    reset_attempts: bool = False,
    data: object = rerun.KEEP,
) -> None:
    """Run a failed (or completed) job again, with other data if wanted.

    Args:
        job_id: The job.
        state: Where it is.
        lifo: Put it first in line.
        reset_attempts: Give it all its attempts again.
        data: Any JSON value that takes the place of its data; left out, they stay.

    Raises:
        JobNotFound, JobNotInState: Nothing was changed.
        NotEncodable: The data is not strict JSON.
    """
    plan = rerun.retry(
        *(self.keys, job_id, JobState.of(state)),
        lifo=lifo,
        reset_attempts=reset_attempts,
        data=data,
    )
    self._perform(plan)


def promote(self: Queue, job_id: str) -> None:
    """Let a delayed job run now.

    Raises:
        JobNotInState: It is not delayed.
    """
    self._send(change.promote(self.keys, job_id))


def change_delay(self: Queue, job_id: str, delay: Duration) -> None:
    """Let a delayed job wait so long from now (ms or ``timedelta``).

    Raises:
        JobNotFound, JobNotInState: It is not delayed.
    """
    self._send(change.change_delay(self.keys, job_id, duration_ms("delay", delay), wall_ms()))


def change_priority(self: Queue, job_id: str, priority: int, *, lifo: bool = False) -> None:
    """Give a job another priority, 0 to 2,097,151.

    Raises:
        JobNotFound: There is no such job.
    """
    self._send(change.change_priority(self.keys, job_id, priority, lifo=lifo))


def update_data(self: Queue, job_id: str, data: object) -> None:
    """Replace a job's data.

    Raises:
        JobNotFound: There is no such job.
    """
    self._send(change.update_data(self.keys, job_id, data))


def update_progress(self: Queue, job_id: str, progress: object) -> None:
    """Store how far a job has come, any JSON value, and announce it.

    Raises:
        JobNotFound: There is no such job.
    """
    self._send(change.update_progress(self.keys, job_id, progress))


def add_log(self: Queue, job_id: str, row: str, *, keep: int | None = None) -> int:
    """Append a row to a job's log and return how many there are.

    Raises:
        JobNotFound: There is no such job.
    """
    return self._send(change.add_log(self.keys, job_id, row, keep))


def clear_logs(self: Queue, job_id: str, *, keep: int = 0) -> None:
    """Drop all but the last ``keep`` rows of a job's log."""
    self._send(change.clear_logs(self.keys, job_id, keep))


def remove_deduplication(self: Queue, deduplication_id: str, *, job_id: str | None = None) -> bool:
    """Free a deduplication id, only if a certain job holds it where ``job_id`` is given; tells whether it was taken."""
    return self._send(remove_calls.remove_deduplication_key(self.keys, deduplication_id, job_id))
