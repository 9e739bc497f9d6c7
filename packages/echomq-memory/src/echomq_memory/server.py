"""Servers that live in this process.

A server is its data and one thread. The thread works only while somebody is connected;
the data stays until :meth:`MemoryServer.flush` or the end of the process. Clients
connect by a pair of sockets, so everything above is what runs on a real server.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections import deque

import attrs

from echomq import clock
from echomq.errors import ProtocolError, ServerRefused
from echomq.resp import INCOMPLETE, Parser, new_parser

from .client import Client, Engine, encoded

__all__ = ["MemoryServer", "memory_server", "wake_all"]

_READ_BYTES = 256 * 1024


@attrs.define(eq=False)
class _Peer:
    """One connection."""

    sock: socket.socket
    client: Client
    parser: Parser = attrs.field(factory=new_parser)
    unsent: bytearray = attrs.field(factory=bytearray)
    is_stuck: bool = False


@attrs.define(eq=False)
class MemoryServer:
    """Data, and a thread that serves it while somebody is connected.

    Attributes:
        name: Of its URL; see :attr:`url`.
    """

    name: str
    _engine: Engine = attrs.field(init=False, factory=lambda: Engine(lambda: clock.wall_ms()))
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _pid: int = attrs.field(init=False, factory=os.getpid)
    _new: deque[socket.socket] = attrs.field(init=False, factory=deque)
    _serving: _Serving | None = attrs.field(init=False, default=None)

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"memory://{self.name}"

    @property
    def is_here(self) -> bool:
        """Whether it lives in this process, and not in one that this was forked from."""
        return self._pid == os.getpid()

    def dial(self) -> socket.socket:
        """Return the client's end of a new connection.

        Raises:
            ServerRefused: This is a process forked from the one that has the server.
        """
        if not self.is_here:
            raise ServerRefused(
                f"{self.url} belongs to process {self._pid}, from which this one was forked; for several processes "
                "use embedded: or the URL of a server",
                prefix="ERR",
            )
        ours, theirs = socket.socketpair()
        self.attach(ours)
        return theirs

    def attach(self, sock: socket.socket) -> None:
        """Serve a connected socket; it is closed when its peer has gone."""
        sock.setblocking(False)
        self._admit(sock)

    def _admit(self, sock: socket.socket | None) -> None:
        with self._lock:
            if self._serving is None:
                if sock is None:
                    return
                self._serving = _Serving(self)
                threading.Thread(target=self._serve, args=(self._serving,), name=self.url, daemon=True).start()
            if sock is not None:
                self._new.append(sock)
            self._serving.ring()

    def _serve(self, serving: _Serving) -> None:
        try:
            serving.run()
        finally:
            with self._lock:
                if self._serving is serving:  # it did not end as it should; who comes next gets another
                    self._serving = None
            serving.close()

    def wake(self) -> None:
        """Let blocked clients look at the clock: it was set."""
        self._admit(None)

    def flush(self) -> None:
        """Throw all data away."""
        with self._engine.data.lock:
            for database in self._engine.data.dbs.values():
                database.clear()
        self.wake()


@attrs.define(eq=False)
class _Serving:
    """The work of the thread, from the first connection to the last."""

    server: MemoryServer
    _selector: selectors.BaseSelector = attrs.field(init=False, factory=selectors.DefaultSelector)
    _peers: dict[socket.socket, _Peer] = attrs.field(init=False, factory=dict)
    _bell: tuple[socket.socket, socket.socket] = attrs.field(init=False, factory=socket.socketpair)

    def __attrs_post_init__(self) -> None:
        for end in self._bell:
            end.setblocking(False)
        self._selector.register(self._bell[0], selectors.EVENT_READ)

    def ring(self) -> None:
        """Wake the thread."""
        with contextlib.suppress(BlockingIOError):  # it was rung often enough
            self._bell[1].send(b"!")

    def run(self) -> None:
        """Serve until nobody is connected."""
        while not self._is_over():
            for key, _ in self._selector.select(self._patience_s()):
                if key.fileobj is self._bell[0]:
                    self._answer_bell()
                else:
                    self._attend(self._peers[key.fileobj])  # type: ignore[index]  # sockets only are registered
            self._serve_waiting()

    def close(self) -> None:
        """Close all sockets."""
        for peer in tuple(self._peers.values()):
            self._drop(peer)
        self._selector.close()
        for end in self._bell:
            end.close()

    def _is_over(self) -> bool:
        with self.server._lock:
            if self._peers or self.server._new:
                return False
            self.server._serving = None
            return True

    def _answer_bell(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell[0].recv(4096)
        while self.server._new:
            sock = self.server._new.popleft()
            self._peers[sock] = _Peer(sock, Client(self.server._engine))
            self._selector.register(sock, selectors.EVENT_READ)

    def _patience_s(self) -> float | None:
        ends = [
            peer.client.waiting.ends_at_s
            for peer in self._peers.values()
            if peer.client.waiting is not None and peer.client.waiting.ends_at_s is not None
        ]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _attend(self, peer: _Peer) -> None:
        try:
            data = peer.sock.recv(_READ_BYTES)
        except BlockingIOError:
            data = None  # it may be written to again
        except OSError:
            data = b""
        if data == b"":
            self._drop(peer)
            return
        if data:
            peer.parser.feed(data)
            try:
                while (request := peer.parser.gets()) is not INCOMPLETE:
                    if not request or not isinstance(request, list):
                        raise ProtocolError(f"expected a request, seen {request!r}")
                    peer.client.request(request)
            except ProtocolError:
                self._drop(peer)
                return
        self._send(peer)

    def _serve_waiting(self) -> None:
        """Give those who wait what has come meanwhile, in the order in which they began to wait."""
        engine = self.server._engine
        while True:
            changed, engine.changed = engine.changed, False
            now_ms = engine.clock()
            blocked = [(peer.client.waiting, peer) for peer in self._peers.values() if peer.client.waiting is not None]
            for waiting, peer in sorted(blocked, key=lambda pair: pair[0].turn):
                if changed or waiting.is_over(now_ms):
                    peer.client.retry()
                    self._send(peer)
            for peer in tuple(self._peers.values()):
                if peer.client.is_killed:
                    self._drop(peer)
            if not engine.changed:
                return

    def _send(self, peer: _Peer) -> None:
        replies = peer.client.replies
        while replies:
            peer.unsent += encoded(replies.popleft())
        if not peer.unsent:
            return
        try:
            sent = peer.sock.send(peer.unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._drop(peer)
            return
        del peer.unsent[:sent]
        if bool(peer.unsent) != peer.is_stuck:
            peer.is_stuck = bool(peer.unsent)
            events = selectors.EVENT_READ | selectors.EVENT_WRITE if peer.is_stuck else selectors.EVENT_READ
            self._selector.modify(peer.sock, events)

    def _drop(self, peer: _Peer) -> None:
        if self._peers.pop(peer.sock, None) is not None:
            self._selector.unregister(peer.sock)
            peer.client.close()
            peer.sock.close()


_servers: dict[str, MemoryServer] = {}
_servers_lock = threading.Lock()


def memory_server(name: str = "") -> MemoryServer:
    """Return the server of that name; always the same object."""
    with _servers_lock:
        if name not in _servers:
            _servers[name] = MemoryServer(name)
        return _servers[name]


def wake_all() -> list[str]:
    """Let whoever waits on any of these servers look at the clock; return the URLs of those that live here."""
    servers = [server for server in tuple(_servers.values()) if server.is_here]
    for server in servers:
        server.wake()
    return [server.url for server in servers]
