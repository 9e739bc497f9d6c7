"""Connects to servers of this process: a pair of sockets, and the core's own parser.

The connections are the core's (:class:`echomq.aio.lane.Lane`, :class:`echomq.sync.link.Link`),
which keep all rules of :mod:`echomq.driver`.
"""

from __future__ import annotations

import asyncio
import socket

import attrs

from echomq.aio.flights import Line
from echomq.aio.lane import Lane
from echomq.driver import Connection, ConnectionOptions, ConnectionSource
from echomq.errors import UsageError
from echomq.resp import INCOMPLETE, PLAIN, Resp, new_parser, pack
from echomq.sync.link import Link

from .server import MemoryServer, memory_server

__all__ = ["connect", "connect_async"]


@attrs.frozen(kw_only=True)
class _Blocking:
    """See :class:`echomq.sync.link.Dialler`."""

    options: ConnectionOptions
    server: MemoryServer
    resp: Resp = PLAIN

    @property
    def where(self) -> str:
        return self.server.url

    def dial(self, name: str | None, _limit_s: float) -> socket.socket:
        return greeted(self.server, self.options, name)


@attrs.frozen(kw_only=True)
class _Asyncio:
    """See :class:`echomq.aio.lane.Dialler`."""

    options: ConnectionOptions
    server: MemoryServer
    resp: Resp = PLAIN

    @property
    def where(self) -> str:
        return self.server.url

    async def dial(self, name: str | None) -> Line:
        sock = greeted(self.server, self.options, name)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        if sock.family == socket.AF_INET:  # where a system has no other pairs of sockets
            transport, _ = await loop.create_connection(asyncio.Protocol, sock=sock)
        else:
            transport, _ = await loop.create_unix_connection(asyncio.Protocol, sock=sock)
        return Line(transport=transport)

    def twin(self) -> Connection:
        return Link(_Blocking(options=self.options, server=self.server))


def greeted(server: MemoryServer, options: ConnectionOptions, name: str | None) -> socket.socket:
    """Return a connected socket on which database and client name are set."""
    commands: list[tuple[str | int, ...]] = [("SELECT", options.db)] if options.db else []
    commands += [("CLIENT", "SETNAME", name)] if name else []
    sock = server.dial()
    if commands:
        sock.sendall(b"".join(map(pack, commands)))
        parser, answered = new_parser(), 0
        while answered < len(commands):
            parser.feed(sock.recv(4096))
            while (reply := parser.gets()) is not INCOMPLETE:
                if isinstance(reply, Exception):
                    sock.close()
                    raise reply
                answered += 1
    return sock


def _place(source: ConnectionSource) -> tuple[ConnectionOptions, MemoryServer]:
    if not isinstance(source, ConnectionOptions) or source.scheme != "memory":
        raise UsageError('the driver "memory" serves memory://NAME only')
    if source.username is not None or source.password is not None:
        raise UsageError("memory:// knows no users; leave user and password out")
    name = "" if source.host == ConnectionOptions().host else source.host
    return source, memory_server(name)


def connect(source: ConnectionSource) -> Connection:
    """Make a blocking connection."""
    options, server = _place(source)
    return Link(_Blocking(options=options, server=server))


def connect_async(source: ConnectionSource) -> Lane:
    """Make an asyncio connection; touches no loop and no socket."""
    options, server = _place(source)
    return Lane(_Asyncio(options=options, server=server))
