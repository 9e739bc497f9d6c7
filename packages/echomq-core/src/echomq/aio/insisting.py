"""Runs plans whose calls are repeated through outages: a report, and what a job sends."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

import attrs

from echomq.call import Command, ScriptCall
from echomq.chance import dice
from echomq.driver import AsyncConnection
from echomq.errors import ConnectionLost, EchoMQError
from echomq.scheduling.settling import SitOut
from echomq.scheduling.timing import pause_ms

from .held import Held

__all__ = ["Insisting"]

T = TypeVar("T")


@attrs.frozen(eq=False)
class Insisting:
    """Sends what plans want, and rests when they want that.

    Attributes:
        connection: For the calls.
        complain: Told about outages.
    """

    connection: AsyncConnection
    complain: Callable[[BaseException], None]

    async def run(
        self, plan: Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, T], held: Held | None = None
    ) -> T:
        """Run a plan to its end.

        Args:
            plan: What to send, and when to rest.
            held: The job whose report this is; what cancels the report then is only heard
                if we did it ourselves, since a job may leave a cancellation behind.
        """
        reply: Any = None
        error: EchoMQError | None = None
        while True:
            try:
                request = plan.send(reply) if error is None else plan.throw(error)
            except StopIteration as end:
                return cast("T", end.value)
            reply, error = None, None
            try:
                if isinstance(request, SitOut):
                    await self._sit_out(request, held)
                elif held is None:
                    reply = await self.connection.send(request)
                else:
                    held.reporting = True
                    reply = await self.connection.send(request)
            except EchoMQError as failure:
                error = failure
            except asyncio.CancelledError:
                if held is None or held.lost or held.given_up:
                    raise
                error = _Interrupted("the wait for the reply was cancelled", may_have_run=True)

    async def _sit_out(self, rest: SitOut, held: Held | None) -> None:
        if held is not None:
            held.reporting = False  # the lock is still ours, and has to be renewed
        if not isinstance(rest.error, _Interrupted):
            self.complain(rest.error)
        await asyncio.sleep(pause_ms(rest.failures, dice()) / 1000)


class _Interrupted(ConnectionLost):
    """A job left a cancellation behind that met its report: nothing is wrong with the link."""
