"""How a worker of a group waits for its turn, for asyncio; see :mod:`echomq.shares`."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import attrs

from echomq import shares

__all__ = ["Access", "Share"]


class Access(Protocol):
    """What a worker asks before it takes jobs."""

    async def acquire(self, wanted: int, must_wait: Callable[[], object]) -> int:
        """Return how many of the wanted slots may be used; waits for the first one."""
        ...

    def stop(self) -> None:
        """Wait for slots no more."""
        ...

    def fetched(self) -> None:
        """Give back the slots of a take that is answered; jobs it brought run by now."""
        ...

    def using(self, running: int) -> None:
        """Tell how many jobs run now."""
        ...

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        ...


@attrs.frozen(eq=False)
class Share:
    """One queue's :class:`Access` to the pool of its group.

    Attributes:
        share: What it may use.
    """

    share: shares.Share

    async def acquire(self, wanted: int, must_wait: Callable[[], object]) -> int:
        """Return how many of the wanted slots may be used; waits for the first one.

        Args:
            wanted: At least 1.
            must_wait: Called if none is free.

        Returns:
            At most ``wanted``; 0 after :meth:`stop`.
        """
        granted: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        # Whoever waited may be cancelled when it is told; it then gives the slots back as fetched.
        if not self.share.ask(wanted, lambda count: None if granted.done() else granted.set_result(count)):
            must_wait()
        return await granted

    def stop(self) -> None:
        """Wait for slots no more."""
        self.share.stop()

    def fetched(self) -> None:
        """Give back the slots of a take that is answered; jobs it brought run by now."""
        self.share.fetched()

    def using(self, running: int) -> None:
        """Tell how many jobs run now."""
        self.share.using(running)

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        return self.share.room_for(ending)
