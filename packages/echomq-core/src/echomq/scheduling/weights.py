"""Whose turn it is: several queues share one pool of slots, by weight. Pure.

Each queue is as far as it has started jobs, one over its weight for each; who is
behind comes next. A queue that had run empty comes back beside the one that is
furthest behind, so that it neither makes up for its rest nor pays for better days.
"""

from collections.abc import Collection, Mapping

import attrs

__all__ = ["Turns"]


@attrs.frozen
class Turns:
    """How far the queues are.

    Attributes:
        weights: Share of each queue, at least 1.
        passed: How far each is.
    """

    weights: Mapping[str, int]
    passed: Mapping[str, float] = attrs.field()

    @passed.default
    def _at_the_start(self) -> Mapping[str, float]:
        return dict.fromkeys(self.weights, 0.0)

    def next_of(self, waiting: Collection[str]) -> str:
        """Return who comes next of those that wait; the heavier one of two that are equally far."""
        return min(waiting, key=lambda name: (self.passed[name], -self.weights[name]))

    def started(self, name: str, count: int = 1) -> "Turns":
        """Return how far all are when a queue has started jobs; a negative count takes back what was promised."""
        return attrs.evolve(self, passed={**self.passed, name: self.passed[name] + count / self.weights[name]})

    def woken(self, name: str, busy: Collection[str]) -> "Turns":
        """Return how far all are when a queue has jobs again that had run empty.

        Args:
            name: The queue.
            busy: The others that run jobs or wait for their turn.
        """
        least = min((self.passed[other] for other in busy), default=self.passed[name])
        return attrs.evolve(self, passed={**self.passed, name: least})

    def kept(self, name: str, count: int, waiting: Collection[str]) -> tuple[int, "Turns"]:
        """Return how many slots that come free a queue uses again at once, and how far all are then.

        Args:
            name: Whose jobs end.
            count: How many of them.
            waiting: The others that wait for a slot.
        """
        turns, own = self, 0
        for _ in range(count):
            if waiting and turns.next_of({name, *waiting}) != name:
                break
            turns, own = turns.started(name), own + 1
        return own, turns
