"""When each thing a worker does is due.

Source: protocol spec 05 sections 4.3 to 4.6.
"""

from .state import Phase, WorkerState

__all__ = ["LONGEST_WAIT_MS", "alarm_at", "due_at", "pause_ms", "renewal_ms", "wait_ms"]

LONGEST_WAIT_MS = 10_000
"""Longest block for a delayed job that is known; a clock that jumps can delay it by no more."""

_SHORTEST_WAIT_MS = 2
_SHORTEST_PAUSE_MS = 50
_LONGEST_PAUSE_MS = 5_000


def wait_ms(state: WorkerState, now_ms: int) -> int:
    """Return how long to block for the marker; 0: do not, a delayed job is due.

    The block is bounded always: a marker that another worker popped and lost is made up for by its end.
    """
    if not state.next_delayed_at:
        return max(state.pace.drain_ms, _SHORTEST_WAIT_MS)
    left_ms = state.next_delayed_at - now_ms
    return 0 if left_ms <= 0 else min(max(left_ms, _SHORTEST_WAIT_MS), LONGEST_WAIT_MS)


def due_at(at_wall_ms: float, wall_ms: int, now_ms: int) -> int:
    """Return a moment of the wall clock on the worker's own clock; never in its past, and never 0."""
    return max(1, now_ms + max(0, int(at_wall_ms) - wall_ms))


def pause_ms(failures: int, dice: float) -> int:
    """Return how long to rest after so many failures in a row: doubling, half of it left to chance.

    Args:
        failures: At least 1.
        dice: Random number from 0 to 1; spreads the attempts of many workers.
    """
    longest = min(_LONGEST_PAUSE_MS, _SHORTEST_PAUSE_MS << min(failures - 1, 10))
    return int(longest * (0.5 + dice / 2))


def renewal_ms(lock_ms: int) -> int:
    """Return how often locks are renewed: four times in their life.

    Source: protocol spec 05 section 4.5.
    """
    return max(1, lock_ms // 4)


def alarm_at(state: WorkerState) -> int:
    """Return when ``step`` wants to be called again if nothing happens before; 0: never."""
    times = [state.limited_until, state.retry_at, state.let_go_at]
    if state.phase is Phase.OPEN:
        if state.pace.stalled_ms and not state.checking and not state.paused:
            times.append(state.check_at)
        if state.waiting and state.may_take:
            times.append(state.next_delayed_at)
    elif state.phase is Phase.CLOSING:
        times.append(state.cut_at)
    return min((at for at in times if at), default=0)
