"""A driver of somebody else's, made as ``docs/driver-guide.md`` says: no client library, the core's own parser."""

import asyncio
import socket
from typing import Any

import pytest

from echomq.aio.flights import Line
from echomq.aio.lane import Lane
from echomq.call import Batch
from echomq.driver import Connection, ConnectionOptions
from echomq.errors import ConnectionLost, DriverError
from echomq.resp import PLAIN, Resp
from echomq.sync.link import Link
from support.requests import command, run
from support.servers import Server


class Blocking:
    """Makes connected sockets."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.where = f"{options.host}:{options.port}"
        self.resp: Resp = PLAIN

    def dial(self, name: str | None, limit_s: float) -> socket.socket:
        """Connect; this driver greets nobody."""
        assert name is None
        return socket.create_connection((self.options.host, self.options.port), limit_s)


class Asynchronous(Blocking):
    """Makes connected transports."""

    def __init__(self, options: ConnectionOptions, problem: Exception | None = None) -> None:
        super().__init__(options)
        self.problem = problem

    async def dial(self, name: str | None) -> Line:  # type: ignore[override]  # the other flavour of the same thing
        """Connect, or raise what the test wants."""
        assert name is None
        if self.problem is not None:
            raise self.problem
        reader, writer = await asyncio.open_connection(self.options.host, self.options.port)
        transport: Any = writer.transport
        return Line(transport=transport, keep=(reader, writer))

    def twin(self) -> Connection:
        """Return the blocking connection."""
        return Link(Blocking(self.options))


async def test_lane_and_link(server: Server, counting: str, prefix: str) -> None:
    """Given connected sockets, the core does all else."""
    lane = Lane(Asynchronous(ConnectionOptions(host=server.host, port=server.port)))
    twin = lane.blocking_twin()
    counts = await asyncio.gather(*(lane.send(run(counting, prefix, args=(1,))) for _ in range(50)))
    batch = Batch(requests=(command("GET", prefix), run(counting, prefix, args=(1,))), atomic=True)

    assert set(counts) == set(range(1, 51))
    assert await asyncio.to_thread(twin.send_batch, batch) == [b"50", 51]
    await asyncio.to_thread(twin.close)
    await lane.close()


async def test_foreign_error() -> None:
    """A driver that raises an error of its library instead of ours lets nobody wait for the deadline."""
    lane = Lane(Asynchronous(ConnectionOptions(deadline_ms=60_000), ZeroDivisionError("oops")))
    with pytest.raises(DriverError, match="ZeroDivisionError") as caught:
        await asyncio.wait_for(lane.send(command("PING")), 5)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    await lane.close()


async def test_errors_are_not_shared() -> None:
    """Callers who fail together each get an error of their own, so that tracebacks do not mix."""
    lane = Lane(Asynchronous(ConnectionOptions(deadline_ms=100), ConnectionLost("nobody there")))
    errors = await asyncio.gather(*(lane.send(command("PING")) for _ in range(5)), return_exceptions=True)

    assert len({id(error) for error in errors}) == 5
    assert all("nobody there" in str(error) for error in errors)
    await lane.close()
