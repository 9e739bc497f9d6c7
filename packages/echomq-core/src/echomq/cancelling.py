"""Cancel a job, wherever it is and whoever runs it: what both shells do. Pure.

A job that no worker runs is taken and failed here, by the script with which workers
fail jobs, so that parents, retention and events see a failure like any other. One
that runs is marked, and its worker is asked through the queue's control channel.
Until it has ended the question is repeated, since it may have gone back to wait.
"""

from collections.abc import Generator
from enum import Enum
from typing import Any

from .call import Command, ScriptCall
from .calls.control import Asked, Ended, cancel_job
from .calls.fetch import Take
from .calls.finish import fail
from .errors import JobNotFound
from .keys import Keys
from .states import JobState

__all__ = ["CANCELLED", "Cancellation", "cancel", "pause_ms"]

CANCELLED = "cancelled"
"""What a job fails with where no reason is given."""

_LOCK_MS = 30_000
_SHORTEST_PAUSE_MS = 10
_LONGEST_PAUSE_MS = 250


class Cancellation(Enum):
    """What became of a job that was to be cancelled."""

    FAILED = "failed"
    """No worker ran it; it has failed now, with the reason given."""

    STOPPED = "stopped"
    """A worker ran it, and has stopped it."""

    ASKED = "asked"
    """It still runs. Its worker was asked, and stops it when it hears that; should the job be taken
    again, by whatever client, it fails with the reason given and its code is not run."""

    FINISHED = "finished"
    """It had ended before."""


def cancel(
    keys: Keys, job_id: str, reason: str, token: str, told: str, now_ms: int
) -> Generator[ScriptCall[Any] | Command[Any], Any, tuple[Cancellation, str]]:
    """Cancel a job, or look what became of that.

    Args:
        keys: The queue.
        job_id: The job.
        reason: What it fails with.
        token: Made for this cancellation.
        told: What the step before gave; empty for the first.
        now_ms: The present.

    Returns:
        What became of it, and what to tell the next step; there is one only for ASKED.

    Raises:
        JobNotFound, JobNotInState, JobBelongsToScheduler: Nothing was changed.
        InvalidOption: That is no id of a job.
    """
    try:
        found = yield cancel_job(keys, job_id, reason, token=token, lock_ms=_LOCK_MS, told=told)
    except JobNotFound:
        if not told:
            raise
        return Cancellation.STOPPED, told  # ended, and removed at once as its options say
    if isinstance(found, Asked):
        return Cancellation.ASKED, found.token
    if isinstance(found, Ended):
        stopped = told and found.state is JobState.FAILED and found.reason == reason
        return Cancellation.STOPPED if stopped else Cancellation.FINISHED, told
    take = Take(token=token, lock_ms=_LOCK_MS)
    yield fail(found.job, reason, stacktrace=found.job.stacktrace, take=take, keep=None, fetch=False, now_ms=now_ms)
    return Cancellation.FAILED, told


def pause_ms(steps: int) -> int:
    """Return how long to rest after so many steps that found the job still running."""
    return min(_LONGEST_PAUSE_MS, _SHORTEST_PAUSE_MS << min(steps, 10))
