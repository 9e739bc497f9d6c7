"""How a blocking worker of a group waits for its turn; see :mod:`echomq.shares`."""

import threading
from collections.abc import Callable
from typing import Protocol

import attrs

from echomq.shares import Share

__all__ = ["Access", "Turn"]


class Access(Protocol):
    """What a worker asks before it takes jobs; safe in any thread."""

    def ask(self, wanted: int, granted: Callable[[int], object]) -> bool:
        """Ask for slots; :meth:`fetched` gives back those that are not used.

        Args:
            wanted: At least 1.
            granted: Told once how many may be used, at most ``wanted``, in any thread; takes no lock. 0 where
                nothing is wanted any more.

        Returns:
            Whether it was told at once.
        """
        ...

    def fetched(self) -> None:
        """Give back the slots of a take that is answered, or not wanted any more; jobs it brought run by now."""
        ...

    def using(self, running: int, *, is_open: bool) -> None:
        """Tell how many jobs run now, and whether more are wanted."""
        ...

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        ...


@attrs.define(eq=False)
class Turn:
    """One queue's :class:`Access` to the pool of its group, which the threads of all its workers change.

    Attributes:
        share: What it may use.
        lock: Guards the pool.
        is_fetching: Slots were granted for a take that has not ended.
    """

    share: Share
    lock: threading.Lock
    is_fetching: bool = attrs.field(init=False, default=False)

    def ask(self, wanted: int, granted: Callable[[int], object]) -> bool:
        """See :meth:`Share.ask`; ``granted`` is called in any thread and takes no lock."""
        with self.lock:
            self.is_fetching = True
            return self.share.ask(wanted, granted)

    def fetched(self) -> None:
        """Give back the slots of a take that is answered, or not wanted any more; jobs it brought run by now."""
        with self.lock:
            if self.is_fetching:
                self.is_fetching = False
                self.share.fetched()

    def using(self, running: int, *, is_open: bool) -> None:
        """Tell how many jobs run now, and whether more are wanted."""
        with self.lock:
            self.share.using(running)
            if not is_open:
                self.share.stop()

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        with self.lock:
            return self.share.room_for(ending)
