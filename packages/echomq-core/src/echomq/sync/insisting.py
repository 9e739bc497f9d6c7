"""Runs plans whose calls are repeated through outages: a report, and what a job sends.

The blocking twin of :mod:`echomq.aio.insisting`.
"""

import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

import attrs

from echomq.call import Command, ScriptCall
from echomq.chance import dice
from echomq.driver import Connection
from echomq.errors import ConnectionClosed
from echomq.scheduling.settling import SitOut
from echomq.scheduling.timing import pause_ms

from .held import Held
from .run import drive

__all__ = ["Insisting"]

T = TypeVar("T")

_Plan = Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, T]


@attrs.frozen(eq=False)
class Insisting:
    """Sends what plans want, and rests when they want that.

    Attributes:
        connection: For the calls.
        complain: Told about outages.
        changed: Guards what is known of jobs.
        turn: Whoever has it may send a report, so that of all reports but one it is certain that nothing was sent.
    """

    connection: Connection
    complain: Callable[[BaseException], None]
    changed: threading.Condition
    turn: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def run(self, plan: "_Plan[T]", given_up: threading.Event | None = None) -> T:
        """Run a plan to its end.

        Args:
            plan: What to send, and when to rest.
            given_up: Ends a rest early, and the plan with it.
        """
        return drive(plan, partial(self._do, given_up=given_up))

    def report(self, plan: "_Plan[T]", held: Held) -> T:
        """Run the plan that reports a job, or asks for its lock, to its end."""
        return drive(plan, partial(self._do, held=held))

    def begins(self, held: Held) -> bool:
        """Leave the lock of a job to its report; False if the job is not ours any more."""
        with self.changed:
            if held.given_up.is_set() or held.lost:
                return False
            held.reporting = True
            return True

    def _do(self, request: Any, *, held: Held | None = None, given_up: threading.Event | None = None) -> Any:
        if isinstance(request, SitOut):
            self._sit_out(request, held, held.given_up if held is not None else given_up)
            return None
        if held is None:
            return self.connection.send(request)
        with self.turn:
            self._begin(held)
            return self.connection.send(request)

    def _begin(self, held: Held) -> None:
        with self.changed:
            if held.given_up.is_set():
                raise ConnectionClosed(f"job {held.job.id} was given back already")
            held.reporting = True

    def _sit_out(self, rest: SitOut, held: Held | None, given_up: threading.Event | None) -> None:
        if held is not None:
            held.reporting = False  # the lock is still ours, and has to be renewed
        self.complain(rest.error)
        pause_s = pause_ms(rest.failures, dice()) / 1000
        if given_up is None:
            time.sleep(pause_s)
        elif given_up.wait(pause_s):
            raise rest.error
