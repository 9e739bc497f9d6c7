"""Waits for jobs: the blocking read of a worker, on a connection of its own, by which others list workers."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from echomq import replies
from echomq.call import Command
from echomq.calls.fetch import has_unstarted, set_marker, wait_marker
from echomq.chance import dice
from echomq.clock import wall_ms
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.exchange import ask_server
from echomq.keys import Keys
from echomq.scheduling.messages import Happened, Marked, WaitFailed

__all__ = ["Waiting"]

_log = logging.getLogger("echomq.worker")

_WAKE_MS = 150
"""How long an ended wait is made up for; an idle worker closes within 200 ms."""


@attrs.define(eq=False, kw_only=True)
class Waiting:
    """The waits of one run of a worker.

    Attributes:
        keys: The queue.
        name: The worker's, or None.
        connection: For all calls but the blocking ones.
        start: Runs a coroutine in a task of the worker's.
        happened: Told how a wait ended.
        answered: Told before that when the server has answered.
        complain: Told when the connection cannot be opened.
    """

    keys: Keys
    name: str | None
    connection: AsyncConnection
    start: "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"
    happened: Callable[[Happened], None]
    answered: Callable[[], None]
    complain: Callable[[BaseException], None]
    _blocking: AsyncConnection = attrs.field(init=False)
    _wait: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)
    _wake: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Make the connection; nothing is sent yet."""
        self._blocking = self.connection.dedicated(name=self.keys.client_name(self.name))

    async def appear(self) -> None:
        """Open the blocking connection at once: others list workers by it, and a busy one may never wait."""
        try:
            look = Command(parts=("EXISTS", self.keys.marker), decode=replies.nothing, repeatable=True)
            await self._blocking.send(look)
        except EchoMQError as error:
            self.complain(error)
        else:
            await self._warn_of_eviction()

    async def _warn_of_eviction(self) -> None:
        """Warn once of a server that may throw away jobs; one that does not tell is no reason for a word."""
        try:
            ask = (
                self.connection.send(ask_server(self.keys)) if self.connection.is_cluster else self.connection.server()
            )
            risk = (await ask).eviction_risk
        except EchoMQError as error:
            _log.debug("worker of queue %s: the server does not tell how it evicts: %s", self.keys.queue, error)
            return
        if risk is not None:
            _log.warning("worker of queue %s: %s", self.keys.queue, risk)

    def wait(self, timeout_ms: int) -> None:
        """Block until there may be a job."""
        self._wait = self.start(self._wait_for_marker(timeout_ms))

    async def _wait_for_marker(self, timeout_ms: int) -> None:
        ended: Happened
        try:
            score = await self._blocking.send(wait_marker(self.keys, timeout_ms))
        except EchoMQError as error:
            ended = WaitFailed(error, dice())
        else:
            self.answered()
            ended = Marked(score, wall_ms())
        if self._wait is asyncio.current_task():
            self._wait = None
            self.happened(ended)

    def stop(self) -> None:
        """End the wait; its outcome is not wanted."""
        if self._wait is not None:
            self._wait.cancel()
            self._wake = self.start(self.wake_others())
        self._wait = None

    async def wake_others(self) -> None:
        """Make up for a marker that the wait may have popped in the moment it was cut off."""
        try:
            if await self.connection.send(has_unstarted(self.keys), deadline_ms=_WAKE_MS):
                await self.connection.send(set_marker(self.keys), deadline_ms=_WAKE_MS)
        except EchoMQError:
            return  # nobody can be woken then, and waits are bounded

    async def settle(self) -> None:
        """Let the last wake-up get through."""
        if self._wake is not None:
            await asyncio.wait([self._wake], timeout=_WAKE_MS / 1000)

    async def close(self) -> None:
        """Let go of the connection."""
        await self._blocking.close()
