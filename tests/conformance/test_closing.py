"""What a closing connection leaves behind: nothing."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from echomq.aio.flights import Line
from echomq.driver import AsyncConnection
from echomq.errors import ConnectionClosed
from support.requests import command
from support.servers import Server


class StubbornDialler:
    """Connects in spite of a cancellation, as clients do that swallow one on the way."""

    def __init__(self, dialler: Any) -> None:
        self._dialler = dialler
        self.begun = asyncio.Event()
        self.lines: list[Line] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialler, name)

    async def dial(self, name: str | None) -> Line:
        """Connect, whatever happens."""
        dialled = asyncio.ensure_future(self._dialler.dial(name))
        self.begun.set()
        while not dialled.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(dialled)
        self.lines.append(dialled.result())
        return self.lines[-1]


@pytest.fixture
def shell() -> str:
    """The asyncio connection only."""
    return "asyncio"


async def test_closed_while_connecting(open_connection: Callable[[str], AsyncConnection], redis_server: Server) -> None:
    """A connection that is closed while its client connects, and cannot be stopped, leaves no link open."""
    connection: Any = open_connection(redis_server.url)
    dialler = connection.dialler = StubbornDialler(connection.dialler)
    asked = asyncio.ensure_future(connection.send(command("PING")))
    await dialler.begun.wait()

    await connection.close()

    with pytest.raises(ConnectionClosed):
        await asked
    assert [line.transport.is_closing() for line in dialler.lines] == [True]
