"""What a blocking worker knows: any thread may tell it what happened, one at a time.

What follows from that is decided by :func:`~echomq.scheduling.step.step`.
"""

import threading
from collections.abc import Callable

import attrs

from echomq.clock import mono_ms
from echomq.scheduling import messages
from echomq.scheduling.state import Phase, WorkerState
from echomq.scheduling.step import step
from echomq.scheduling.timing import alarm_at

from .turns import Access

__all__ = ["Mind"]


@attrs.define(eq=False, kw_only=True)
class Mind:
    """The state of one run, and the one way to change it.

    Attributes:
        state: What the worker knows.
        turn: Who says when slots may be used; None: always.
        want: Notes what is to be done, in the order in which it was decided; called by who has the lock.
        keep_time: Lets the thread that keeps time look at the clock again.
        lock: Whoever has it may call :meth:`step`.
    """

    state: WorkerState
    turn: Access | None
    want: Callable[[tuple[messages.Action, ...]], None]
    keep_time: Callable[[], object]
    lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _alarm_at: int = attrs.field(init=False, default=0)

    def happened(self, event: messages.Happened, is_wanted: Callable[[], bool] | None = None) -> None:
        """Tell what happened, and note what follows.

        Args:
            event: What.
            is_wanted: Asked first whether that still matters.
        """
        with self.lock:
            if is_wanted is None or is_wanted():
                self.want(self.step(event))

    def step(self, event: messages.Happened) -> tuple[messages.Action, ...]:
        """Decide what follows, while this thread has the lock."""
        before = self.state
        self.state, actions = step(before, event, mono_ms())
        if self.state is not before:
            at = alarm_at(self.state)
            if at and not 0 < self._alarm_at <= at:
                self.keep_time()
            if self.turn is not None:
                self.turn.using(self.state.running, is_open=self.state.phase is Phase.OPEN)
        return actions

    def alarm_s(self) -> float | None:
        """Return when to look at the clock if nothing happens before, on the monotonic clock."""
        with self.lock:
            self._alarm_at = at = alarm_at(self.state)
        return at / 1000 if at else None

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        room = self.state.room_for(ending)
        return room if self.turn is None or not room else min(room, self.turn.room_for(ending))

    def left_ms(self) -> int | None:
        """Return how long running jobs may go on; None: to their end."""
        return max(0, self.state.cut_at - mono_ms()) if self.state.cut_at else None
