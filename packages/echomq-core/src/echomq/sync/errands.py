"""What the thread that runs a worker has to do: at once, in order, or at a time."""

import heapq
import itertools
import os
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import TypeAlias

import attrs

__all__ = ["Errand", "Errands", "Later"]

Errand: TypeAlias = Callable[[], object]

_LONGEST_SLEEP_S = 0.5 if os.name == "nt" else None
"""Windows hears no Ctrl-C while a thread waits for a lock."""

_FEW = 64
"""So many errands for later are kept without looking which of them are still wanted."""


@attrs.define(eq=False)
class Later:
    """An errand for later.

    Attributes:
        errand: What to do; None if it is not wanted any more.
    """

    errand: Errand | None

    def cancel(self) -> None:
        """Do it no more, and keep nothing of it; safe in any thread."""
        self.errand = None


@attrs.define(eq=False)
class Errands:
    """Errands of one thread; any thread may give it more."""

    _queue: "SimpleQueue[Errand]" = attrs.field(init=False, factory=SimpleQueue)
    _timed: list[tuple[float, int, Later]] = attrs.field(init=False, factory=list)
    _many: int = attrs.field(init=False, default=_FEW)
    _numbers: "Iterator[int]" = attrs.field(init=False, factory=itertools.count)

    def add(self, errand: Errand) -> None:
        """Do this after what was added before; safe in signal handlers too."""
        self._queue.put(errand)

    def add_later(self, after_s: float, errand: Errand) -> Later:
        """Do this after a while, unless what is returned is cancelled."""
        later = Later(errand)
        item = (time.monotonic() + after_s, next(self._numbers), later)
        self.add(lambda: self._keep(item))
        return later

    def _keep(self, item: tuple[float, int, Later]) -> None:
        heapq.heappush(self._timed, item)
        # Nearly all limits of time are cancelled long before they are due.
        if len(self._timed) > self._many:
            self._timed = [item for item in self._timed if item[2].errand is not None]
            heapq.heapify(self._timed)
            self._many = max(_FEW, 2 * len(self._timed))

    def next(self, until_s: float | None) -> Errand | None:
        """Wait for the next errand; only the thread whose they are may.

        Args:
            until_s: Moment on the monotonic clock at which to return without one; None: wait for one.
        """
        while self._timed and self._timed[0][2].errand is None:
            heapq.heappop(self._timed)
        due_s = self._timed[0][0] if self._timed else None
        if due_s is not None and due_s <= time.monotonic():
            return heapq.heappop(self._timed)[2].errand
        ends = [at for at in (until_s, due_s) if at is not None]
        wait_s = max(0.0, min(ends) - time.monotonic()) if ends else _LONGEST_SLEEP_S
        if wait_s is not None and _LONGEST_SLEEP_S is not None:
            wait_s = min(wait_s, _LONGEST_SLEEP_S)
        try:
            return self._queue.get(timeout=wait_s)
        except Empty:
            return None
