"""The states of a job, where a job may go from each, and how a state is told.

A job has exactly one state. ``paused`` is not one of them: a paused queue's
jobs are waiting. The key and count name of ``waiting`` is ``wait`` on the wire.

Source: protocol spec 01 section 11.
"""

from collections.abc import Collection, Mapping
from enum import Enum

from .errors import InvalidOption

__all__ = ["ALLOWED_MOVES", "JobState", "can_move", "state_from_fields", "state_from_places"]


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

    @classmethod
    def of(cls, value: "JobState | str") -> "JobState":
        """Return the state a user named; ``"wait"``, the wire's word, also means waiting.

        Raises:
            InvalidOption: No state is called that.
        """
        try:
            return cls.WAITING if value == "wait" else cls(value)
        except ValueError:
            known = ", ".join(state.value for state in cls)
            raise InvalidOption("state", f"{value!r} is no state of a job; there are: {known}") from None

    @classmethod
    def each(cls, values: "Collection[JobState | str]") -> "tuple[JobState, ...]":
        """Return the states a user named, each once, in his order."""
        return tuple(dict.fromkeys(map(cls.of, values)))


ALLOWED_MOVES: Mapping[JobState, frozenset[JobState]] = {
    JobState.WAITING: frozenset({JobState.ACTIVE, JobState.PRIORITIZED}),
    JobState.PRIORITIZED: frozenset({JobState.ACTIVE, JobState.WAITING}),
    JobState.DELAYED: frozenset({JobState.WAITING, JobState.PRIORITIZED}),
    JobState.ACTIVE: frozenset(JobState) - {JobState.ACTIVE, JobState.UNKNOWN},
    JobState.WAITING_CHILDREN: frozenset({JobState.WAITING, JobState.PRIORITIZED, JobState.DELAYED}),
    JobState.COMPLETED: frozenset({JobState.WAITING, JobState.PRIORITIZED}),
    JobState.FAILED: frozenset({JobState.WAITING, JobState.PRIORITIZED}),
    JobState.UNKNOWN: frozenset(),
}
"""State -> states that one script call can bring the job to, besides removing it.

A retried job goes to ``prioritized`` if it has a priority. A call that moves a
job and takes it again at once (a retry with no wait, on an idle queue) is two moves.

Source: protocol spec 03 section 3 and 4.2; 04 section 2.
"""

_LOOKED_UP_IN_ORDER = (
    ("completed", JobState.COMPLETED),
    ("failed", JobState.FAILED),
    ("delayed", JobState.DELAYED),
    ("prioritized", JobState.PRIORITIZED),
    ("active", JobState.ACTIVE),
    ("wait", JobState.WAITING),
    ("paused", JobState.WAITING),
    ("waiting-children", JobState.WAITING_CHILDREN),
)


def can_move(source: JobState, target: JobState) -> bool:
    """Tell whether one call can bring a job from one state to another."""
    return target in ALLOWED_MOVES[source]


def state_from_places(places: Collection[str]) -> JobState:
    """Return the state of a job from the lists and sets that hold its id.

    Args:
        places: Family names of the keys, ``{"wait"}``. More than one only on a damaged
            queue; then all clients agree on the first in this order.

    Source: protocol spec 01 section 11.
    """
    return next((state for place, state in _LOOKED_UP_IN_ORDER if place in places), JobState.UNKNOWN)


def state_from_fields(*, is_finished: bool, has_return_value: bool, is_delayed: bool, priority: int) -> JobState:
    """Guess the state of a job from its hash alone.

    Only the finished states are certain. A job that runs, waits for children or
    waits to run looks the same in its hash; the guess is that it waits.

    Args:
        is_finished: The hash has the moment it finished.
        has_return_value: The hash has a return value.
        is_delayed: The hash has a delay that has not been used up.
        priority: 0 for none.
    """
    if is_finished:
        return JobState.COMPLETED if has_return_value else JobState.FAILED
    if is_delayed:
        return JobState.DELAYED
    return JobState.PRIORITIZED if priority else JobState.WAITING
