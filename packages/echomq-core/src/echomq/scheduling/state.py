"""What a worker knows while it works: counts, timers and flags, no job.

Jobs and their tasks belong to the shell. Times are milliseconds on a clock that
never jumps, except where a name says ``wall``; 0 means "not set".

Source: protocol spec 05 section 4.2.
"""

from enum import Enum
from typing import Any

import attrs

from echomq.options import WorkerOptions

__all__ = ["Pace", "Phase", "WorkerState", "opening_state"]


class Phase(Enum):
    """How far a worker is on its way to the end."""

    OPEN = "open"
    CLOSING = "closing"
    CUT = "cut"
    ENDED = "ended"


@attrs.frozen(kw_only=True)
class Pace:
    """The times that never change while a worker runs.

    Attributes:
        drain_ms: Longest wait for a job when none is known.
        limit_ms: Longest rest while rate limited.
        stalled_ms: Look for lost jobs this often; 0: never.
        until_drained: Close when there is nothing to do.
    """

    drain_ms: int
    limit_ms: int
    stalled_ms: int
    until_drained: bool = False


@attrs.frozen(kw_only=True, slots=False)
class WorkerState:
    """All that :func:`~echomq.scheduling.step.step` decides by.

    Attributes:
        pace: The times that never change.
        concurrency: Jobs at one time.
        phase: How far the worker is on its way to the end.
        running: Slots in use: by jobs that run, are being reported, or are being given back.
        fetching: How many slots wait for the take that is under way, or for a search for lost replies.
        waiting: A blocking read is under way.
        checking: A look for stalled jobs is under way.
        paused: Take nothing.
        empty: The last take found nothing, so wait before the next.
        drained: No take found a job since one found nothing.
        ready: The server has answered once.
        stray: A take's reply was lost: a job may be locked for us that we do not know.
        searching: A search for such jobs is under way. It may miss what is lost after it has begun.
        failures: Takes that failed since the last that did not.
        wait_failures: Waits that failed since the last that did not.
        next_delayed_at: When the earliest delayed job is due.
        limited_until: Take nothing before.
        retry_at: After a failure, try nothing before.
        check_at: When to look for stalled jobs.
        cut_at: When to stop waiting for running jobs.
        let_go_at: When to stop waiting for a take's reply.
    """

    pace: Pace
    concurrency: int
    phase: Phase = Phase.OPEN
    running: int = 0
    fetching: int = 0
    waiting: bool = False
    checking: bool = False
    paused: bool = False
    empty: bool = False
    drained: bool = False
    ready: bool = False
    stray: bool = False
    searching: bool = False
    failures: int = 0
    wait_failures: int = 0
    next_delayed_at: int = 0
    limited_until: int = 0
    retry_at: int = 0
    check_at: int = 0
    cut_at: int = 0
    let_go_at: int = 0

    def but(self, **changes: Any) -> "WorkerState":
        """Return this state with some fields changed; a quarter of the cost of ``attrs.evolve``, on a hot path."""
        state = object.__new__(WorkerState)
        fields = state.__dict__
        fields.update(self.__dict__)
        fields.update(changes)
        return state

    @property
    def free(self) -> int:
        """Slots that nothing uses."""
        return self.concurrency - self.running - self.fetching

    @property
    def may_take(self) -> bool:
        """Whether nothing forbids a take."""
        held_up = self.fetching or self.paused or self.retry_at or self.limited_until
        return self.phase is Phase.OPEN and self.free > 0 and not held_up

    def room_for(self, ending: int) -> int:
        """Return how many jobs may come along when so many end."""
        if self.phase is not Phase.OPEN or self.paused or self.limited_until:
            return 0
        return max(0, ending + min(self.free, 0))

    @property
    def takes_more(self) -> bool:
        """Whether a job that ends may bring the next one along."""
        return self.room_for(1) > 0


def opening_state(options: WorkerOptions, *, until_drained: bool, is_paused: bool) -> WorkerState:
    """Return what a worker knows when it begins.

    Args:
        options: The worker's.
        until_drained: Close when there is nothing to do.
        is_paused: Begin with taking nothing.
    """
    pace = Pace(
        drain_ms=options.drain_delay,
        limit_ms=options.maximum_rate_limit_delay,
        stalled_ms=0 if options.skip_stalled_check else options.stalled_interval,
        until_drained=until_drained,
    )
    return WorkerState(pace=pace, concurrency=options.concurrency, paused=is_paused)
