"""The states of a job.

A job has exactly one state. ``paused`` is not one of them: a paused queue's
jobs are waiting. The key and count name of ``waiting`` is ``wait`` on the wire.

Source: protocol spec 01 section 11.
"""

from enum import Enum

__all__ = ["JobState"]


class JobState(str, Enum):
    """Where a job is in its life; values are the words that clients of all runtimes show."""

    WAITING = "waiting"
    ACTIVE = "active"
    DELAYED = "delayed"
    PRIORITIZED = "prioritized"
    WAITING_CHILDREN = "waiting-children"
    COMPLETED = "completed"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_finished(self) -> bool:
        """True for the two states a job only leaves when it is retried."""
        return self in (JobState.COMPLETED, JobState.FAILED)
