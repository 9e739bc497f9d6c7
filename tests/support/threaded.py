"""Gives a blocking connection the shape of an asyncio one, so that one suite tests both."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import attrs

from echomq.call import Batch, Request
from echomq.driver import AsyncConnection, Connection, ServerInfo

__all__ = ["Threaded"]

T = TypeVar("T")


@attrs.define(eq=False)
class Threaded:
    """An :class:`~echomq.driver.AsyncConnection` that runs each call of a blocking one in a thread."""

    connection: Connection
    _threads: ThreadPoolExecutor = attrs.field(factory=lambda: ThreadPoolExecutor(32))

    @property
    def is_cluster(self) -> bool:
        """See :attr:`echomq.driver.Connection.is_cluster`."""
        return self.connection.is_cluster

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.Connection.send`."""
        return await self._run(partial(self.connection.send, request, deadline_ms=deadline_ms))

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.Connection.send_batch`."""
        return await self._run(partial(self.connection.send_batch, batch, deadline_ms=deadline_ms))

    async def server(self) -> ServerInfo:
        """See :meth:`echomq.driver.Connection.server`."""
        return await self._run(self.connection.server)

    def dedicated(self, *, name: str | None = None) -> AsyncConnection:
        """See :meth:`echomq.driver.Connection.dedicated`."""
        return Threaded(self.connection.dedicated(name=name))

    def blocking_twin(self) -> Connection:
        """Return another blocking connection."""
        return self.connection.dedicated()

    async def close(self) -> None:
        """See :meth:`echomq.driver.Connection.close`."""
        await self._run(self.connection.close)
        self._threads.shutdown(wait=True)
        # A second close, or a call after it, needs a thread again.
        self._threads = ThreadPoolExecutor(32)
