"""The pool of slots that the workers of a group share.

A worker asks for slots before it takes jobs, and is told when it is its turn; nothing
is asked for a job that comes along with the end of another, as long as it is this
queue's turn.

Source: :mod:`echomq.scheduling.weights`.
"""

from collections.abc import Callable, Mapping

import attrs

from .checks import whole
from .errors import UsageError
from .scheduling.weights import Turns

__all__ = ["Pool", "Share", "weights_of"]


@attrs.define(eq=False)
class Share:
    """One queue's access to the pool.

    Attributes:
        name: Of the queue.
        started: Jobs it has taken so far, but for those that came along with the end of others.
        running: Jobs that run.
        fetching: Slots promised to a take under way.
        wanted: Slots it would like.
        granted: Set while it waits: told how many it gets.
    """

    name: str
    _pool: "Pool" = attrs.field(repr=False)
    started: int = attrs.field(init=False, default=0)
    running: int = attrs.field(init=False, default=0)
    fetching: int = attrs.field(init=False, default=0)
    wanted: int = attrs.field(init=False, default=0)
    granted: Callable[[int], object] | None = attrs.field(init=False, default=None)
    _was_empty: bool = attrs.field(init=False, default=False)
    _started_before: int = attrs.field(init=False, default=0)

    @property
    def is_busy(self) -> bool:
        """Whether it uses slots or waits for some."""
        return bool(self.running or self.fetching or self.granted)

    def ask(self, wanted: int, granted: Callable[[int], object]) -> bool:
        """Ask for slots; :meth:`fetched` gives back those that are not used.

        Args:
            wanted: At least 1.
            granted: Told once how many may be used, at most ``wanted``; 0 after :meth:`stop`.

        Returns:
            Whether it was told at once.
        """
        if self._was_empty:
            self._was_empty = False
            self._pool.wake(self)
        self._started_before = self.started
        self.wanted, self.granted = wanted, granted
        self._pool.distribute()
        return self.granted is None

    def grant(self, count: int) -> None:
        """Tell whoever waits how many slots it gets."""
        granted, self.granted = self.granted, None
        if granted is not None:
            granted(count)

    def stop(self) -> None:
        """Wait for slots no more."""
        self.grant(0)

    def fetched(self) -> None:
        """Give back the slots of a take that is answered, or not wanted any more; jobs it brought run by now."""
        self.granted = None
        unused = self.fetching - (self.started - self._started_before)
        self.fetching = 0
        if unused:
            self._was_empty = True
            self._pool.take_back(self, unused)
        self._pool.distribute()

    def using(self, running: int) -> None:
        """Tell how many jobs run now."""
        self.started += max(0, running - self.running)
        freed, self.running = running < self.running, running
        if freed:
            self._pool.distribute()

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        return self._pool.room_for(self, ending)


@attrs.define(eq=False)
class Pool:
    """Slots for several queues.

    Attributes:
        capacity: Jobs at one time over all queues.
        turns: How far the queues are.
        shares: Their access.
    """

    capacity: int
    turns: Turns
    shares: dict[str, Share] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make a share for each queue."""
        self.shares = {name: Share(name, self) for name in self.turns.weights}

    @classmethod
    def of(cls, capacity: int, weights: Mapping[str, int]) -> "Pool":
        """Return a pool for queues of these weights."""
        return cls(capacity, Turns(weights))

    @property
    def free(self) -> int:
        """Slots that nobody uses; below 0 after the capacity was lowered."""
        return self.capacity - sum(share.running + share.fetching for share in self.shares.values())

    @property
    def started(self) -> int:
        """Jobs taken so far, but for those that came along with the end of others."""
        return sum(share.started for share in self.shares.values())

    def _waiting(self) -> list[str]:
        return [
            share.name for share in self.shares.values() if share.granted is not None and share.fetching < share.wanted
        ]

    def wake(self, woken: Share) -> None:
        """Note that a queue wants slots again that had run empty."""
        busy = [share.name for share in self.shares.values() if share.is_busy and share is not woken]
        self.turns = self.turns.woken(woken.name, busy)

    def take_back(self, share: Share, count: int) -> None:
        """Note that a queue had no jobs for slots it was given."""
        self.turns = self.turns.started(share.name, -count)

    def resize(self, capacity: int) -> None:
        """Have another number of slots."""
        self.capacity = capacity
        self.distribute()

    def distribute(self) -> None:
        """Give free slots to those that wait, in their turn."""
        served = set()
        while self.free > 0 and (waiting := self._waiting()):
            name = self.turns.next_of(waiting)
            self.turns = self.turns.started(name)
            self.shares[name].fetching += 1
            served.add(name)
        for name in served:
            self.shares[name].grant(self.shares[name].fetching)

    def room_for(self, share: Share, ending: int) -> int:
        """See :meth:`Share.room_for`."""
        surplus = max(0, -self.free)  # after the capacity was lowered
        others = [name for name in self._waiting() if name != share.name]
        own, self.turns = self.turns.kept(share.name, max(0, ending - surplus), others)
        return own


def weights_of(queues: Mapping[str, object], given: Mapping[str, int]) -> dict[str, int]:
    """Return the weight of each queue, 1 where nothing is said.

    Raises:
        UsageError: There is no queue, or a weight for one that is not there, or one below 1.
    """
    if not queues:
        raise UsageError("processors: expected one for each queue, but there is none")
    for queue, weight in given.items():
        if queue not in queues:
            raise UsageError(f"weights: there is no processor for queue {queue!r}")
        whole(f"weights[{queue!r}]", weight, 1)
    return {queue: given.get(queue, 1) for queue in queues}
