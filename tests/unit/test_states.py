"""States of a job."""

import pytest

from echomq.errors import InvalidOption
from echomq.states import ALLOWED_MOVES, JobState, can_move, state_from_fields, state_from_places


def test_each_state_has_its_moves() -> None:
    """The table says of each state where it leads, and only "unknown" leads nowhere."""
    assert set(ALLOWED_MOVES) == set(JobState)
    assert [state for state in JobState if not ALLOWED_MOVES[state]] == [JobState.UNKNOWN]


def test_moves() -> None:
    """A waiting job does not complete without having been active; a finished one only goes back in line."""
    assert can_move(JobState.WAITING, JobState.ACTIVE)
    assert can_move(JobState.ACTIVE, JobState.WAITING_CHILDREN)
    assert not can_move(JobState.WAITING, JobState.COMPLETED)
    assert not can_move(JobState.COMPLETED, JobState.ACTIVE)
    assert not any(can_move(state, JobState.UNKNOWN) for state in JobState)


def test_all_states_are_reachable() -> None:
    """Each state a job can be in is reached from another one."""
    assert frozenset.union(*ALLOWED_MOVES.values()) == frozenset(JobState) - {JobState.UNKNOWN}


@pytest.mark.parametrize(
    ("places", "state"),
    [
        ({"wait"}, JobState.WAITING),
        ({"paused"}, JobState.WAITING),
        ({"waiting-children"}, JobState.WAITING_CHILDREN),
        ({"active", "wait"}, JobState.ACTIVE),
        ({"active", "delayed", "completed"}, JobState.COMPLETED),
        ({"failed", "prioritized"}, JobState.FAILED),
        (set(), JobState.UNKNOWN),
        ({"stalled", "marker"}, JobState.UNKNOWN),
    ],
)
def test_state_from_places(places: set[str], state: JobState) -> None:
    """A job's state follows from where its id is; on a damaged queue all clients agree on the first."""
    assert state_from_places(places) is state


def test_state_from_fields() -> None:
    """A finished job without a result has failed."""

    def finished(has_return_value: bool) -> JobState:
        return state_from_fields(is_finished=True, has_return_value=has_return_value, is_delayed=False, priority=0)

    assert finished(has_return_value=True) is JobState.COMPLETED
    assert finished(has_return_value=False) is JobState.FAILED


def test_words() -> None:
    """States are named by their words; the wire's "wait" is understood, anything else refused with the list."""
    assert JobState.of("wait") is JobState.of("waiting") is JobState.of(JobState.WAITING) is JobState.WAITING
    with pytest.raises(InvalidOption, match=r"'done' is no state.*completed"):
        JobState.of("done")
