"""Connected sockets for the driver; pipelines, reconnects and deadlines are the core's.

It greets nobody: no password, no TLS, database 0.
"""

import asyncio
import socket
from typing import cast

from echomq import UsageError
from echomq.aio.flights import Line
from echomq.aio.lane import Lane
from echomq.driver import AsyncConnection, Connection, ConnectionOptions, ConnectionSource
from echomq.errors import ConnectionLost
from echomq.resp import PLAIN
from echomq.sync.link import Link


class _Dialler:
    """Makes connected sockets.

    Attributes:
        options: Where to, and all limits.
        where: Host and port, for messages.
        resp: How requests are packed and replies parsed; here in plain Python.
    """

    def __init__(self, options: ConnectionOptions) -> None:
        self.options = options
        self.where = f"{options.host}:{options.port}"
        self.resp = PLAIN

    def dial(self, name: str | None, limit_s: float) -> socket.socket:
        """Connect within so many seconds, and tell the server the connection's name."""
        try:
            connected = socket.create_connection((self.options.host, self.options.port), limit_s)
            if name is not None:
                connected.sendall(b"CLIENT SETNAME " + name.encode() + b"\r\n")
                connected.recv(64)
        except OSError as error:
            raise ConnectionLost(f"{self.where}: {error}") from error
        return connected


class _AsyncDialler(_Dialler):
    """The same for asyncio."""

    async def dial(self, name: str | None) -> Line:  # type: ignore[override]  # the other flavour of the same thing
        """Connect, and tell the server the connection's name."""
        try:
            reader, writer = await asyncio.open_connection(self.options.host, self.options.port)
            if name is not None:
                writer.write(b"CLIENT SETNAME " + name.encode() + b"\r\n")
                await reader.readline()
        except OSError as error:
            raise ConnectionLost(f"{self.where}: {error}") from error
        return Line(transport=cast("asyncio.Transport", writer.transport), keep=(reader, writer))

    def twin(self) -> Connection:
        """Return a blocking connection to the same server."""
        return Link(_Dialler(self.options))


def _options(source: ConnectionSource) -> ConnectionOptions:
    if not isinstance(source, ConnectionOptions) or source.password or source.tls or source.db:
        raise UsageError("tincan:// knows host and port only: no password, no TLS, no other database")
    return source


def connect(source: ConnectionSource) -> Connection:
    """Make a blocking connection."""
    return Link(_Dialler(_options(source)))


def connect_async(source: ConnectionSource) -> AsyncConnection:
    """Make a connection for asyncio."""
    return Lane(_AsyncDialler(_options(source)))
