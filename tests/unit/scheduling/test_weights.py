"""Queues that share slots take turns by weight."""

from collections import Counter

from echomq.scheduling.weights import Turns


def _order(turns: Turns, waiting: set[str], count: int) -> list[str]:
    order = []
    for _ in range(count):
        name = turns.next_of(waiting)
        turns = turns.started(name)
        order.append(name)
    return order


def test_turns_follow_weights() -> None:
    """Queues that always have jobs start as many as their weights say, evenly spread."""
    order = _order(Turns({"a": 3, "b": 1}), {"a", "b"}, 40)

    assert Counter(order) == {"a": 30, "b": 10}
    assert max(len(run) for run in "".join(order).split("b")) <= 4


def test_rest_is_neither_made_up_for_nor_held_against() -> None:
    """A queue that had run empty comes back beside the one that is furthest behind, wherever it was."""
    turns = Turns({"a": 1, "b": 1, "c": 1}).started("a", 1_000).started("b", 10)

    assert Counter(_order(turns.woken("c", {"a"}), {"a", "c"}, 10)) == {"a": 5, "c": 5}
    assert Counter(_order(turns.woken("a", {"b"}), {"a", "b"}, 10)) == {"a": 5, "b": 5}
    assert turns.woken("a", set()) == turns


def test_slots_are_kept_in_turn() -> None:
    """A queue uses its slots again while it is its turn, all of them if nobody waits."""
    turns = Turns({"a": 2, "b": 1})

    assert turns.kept("a", 5, ())[0] == 5
    kept, after = turns.kept("a", 5, ("b",))
    assert kept == 1
    assert after.next_of(("a", "b")) == "b"
    assert turns.started("a", 3).started("a", -3) == turns
