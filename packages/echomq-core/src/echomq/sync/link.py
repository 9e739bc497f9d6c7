"""The blocking connection: one socket that threads share, one request at a time.

The rules are those of :mod:`echomq.aio.lane`. A thread that waits for its turn
waits within its own deadline. :meth:`Link.close` does not wait for a turn: it
ends a blocking read at once.

Source: design.md section 4.
"""

import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import attrs

from echomq.call import Batch, Command, Reply, Request, ScriptCall
from echomq.chance import dice
from echomq.driver import ConnectionOptions, ServerInfo
from echomq.errors import ConnectionLost, DriverError, ProtocolError, ReplyTimeout, ServerRefused
from echomq.exchange import Parts, decoded, exchange_batch, is_unknown_script, parse_info, parts, refused, text_parts
from echomq.links import Reconnecting, broken, closed, is_demoted, is_final, no_reply
from echomq.resp import INCOMPLETE, Parser, Resp, canonical, packed

from .exclusive import Exclusive

__all__ = ["Dialler", "Link"]

T = TypeVar("T")

_READ_BYTES = 64 * 1024

_POST_S = 1.0
"""How long the system may take to accept what nobody waits for."""


class Dialler(Protocol):
    """What a driver gives to make a link.

    Attributes:
        where: Host and port, or path, for messages; no password.
        options: Deadlines and limits.
        resp: How to pack and parse.
    """

    @property
    def where(self) -> str: ...  # noqa: D102

    @property
    def options(self) -> ConnectionOptions: ...  # noqa: D102

    @property
    def resp(self) -> Resp: ...  # noqa: D102

    def dial(self, name: str | None, limit_s: float) -> socket.socket:
        """Connect, greet, authenticate, select the database, set the client name.

        Args:
            name: For CLIENT LIST, or None.
            limit_s: Longest wait for the network at each step.

        Raises:
            ServerRefused: The server is there and does not want us.
            ConnectionLost: It cannot be reached.
        """
        ...


@attrs.define(eq=False)
class _Open:
    """A connected socket and what came through it."""

    sock: socket.socket
    parser: Parser
    known: set[str] = attrs.field(factory=set)
    heard: bool = False
    waits: threading.Lock = attrs.field(factory=threading.Lock)
    """Guards what follows."""
    is_waiting: bool = False
    """A request was written, and its reply is waited for."""
    is_posted: bool = False
    """More was written behind it, whose replies nobody wants."""


@attrs.frozen
class _Deadline:
    """When a request must be done.

    Attributes:
        at: In monotonic seconds.
        limit_ms: As the caller gave it, for messages.
    """

    at: float
    limit_ms: int

    def left_s(self) -> float:
        return self.at - time.monotonic()


@attrs.define(eq=False)
class Link:
    """A :class:`~echomq.driver.Connection` on one socket.

    Attributes:
        dialler: Makes the sockets.
        name: For CLIENT LIST, or None.
        gives_up: One failed attempt to connect fails the request: whoever made the link looks for another server.
    """

    dialler: Dialler
    name: str | None = None
    gives_up: bool = False
    _turn: Exclusive = attrs.field(init=False, factory=Exclusive)
    _pid: int = attrs.field(init=False, factory=os.getpid)
    _open: _Open | None = attrs.field(init=False, default=None)
    _closed: threading.Event = attrs.field(init=False, factory=threading.Event)
    _server: ServerInfo | None = attrs.field(init=False, default=None)
    _orphan: object = attrs.field(init=False, default=None)
    _attempts: Reconnecting = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._attempts = Reconnecting(self.dialler.where, self.dialler.options)

    def __del__(self) -> None:
        # A queue may be thrown away at any moment; its socket goes with it, without a warning.
        if self._pid == os.getpid():
            self._drop()

    @property
    def is_cluster(self) -> bool:
        """See :attr:`echomq.driver.Connection.is_cluster`."""
        return False

    def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.Connection.send`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        deadline = self._deadline(deadline_ms, block_ms)
        reply = self._in_turn(lambda: self._ask(request, deadline), deadline)
        if isinstance(reply, ServerRefused):
            raise refused(request, reply)
        return decoded(request, reply)

    def _ask(self, request: Request[Any], deadline: _Deadline) -> Reply:
        (reply,) = self._round_trip([parts(request)], request.repeatable, deadline)
        if is_unknown_script(request, reply) and isinstance(request, ScriptCall):
            (reply,) = self._round_trip([text_parts(request)], request.repeatable, deadline)
        return reply

    def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.Connection.send_batch`."""
        deadline = self._deadline(deadline_ms, 0)
        return self._in_turn(lambda: self._ask_all(batch, deadline), deadline)

    def _ask_all(self, batch: Batch, deadline: _Deadline) -> list[Any]:
        repeatable = all(request.repeatable for request in batch.requests)
        exchange = exchange_batch(batch, self._open.known if self._open else set())
        try:
            lines = next(exchange)
            while True:
                lines = exchange.send(self._round_trip(lines, repeatable, deadline))
        except StopIteration as done:
            return list(done.value)

    def post(self, batch: Batch) -> bool:
        """Write requests behind one whose reply is waited for in vain, and want no reply; then the link has served.

        For last words to a server that does not answer, from a process that cannot wait. They are
        carried out whenever the server goes on reading.

        Returns:
            False if nothing was written: no reply is waited for, or this link cannot be written to meanwhile.
        """
        opened = self._open
        if opened is None or self._pid != os.getpid() or isinstance(opened.sock, ssl.SSLSocket):
            return False
        lines, taught = [], set[str]()
        for request in batch.requests:
            # The server need not know the script, and cannot say so.
            is_new = isinstance(request, ScriptCall) and request.script not in taught
            lines.append(text_parts(request) if is_new and isinstance(request, ScriptCall) else parts(request))
            taught.update({request.script} if isinstance(request, ScriptCall) else ())
        data = b"".join([packed(self.dialler.resp, line) for line in lines])
        with opened.waits:
            if not opened.is_waiting:
                return False
            opened.is_posted = True
            with suppress(OSError):  # the link is as good as lost, and so is what was to be said
                opened.sock.settimeout(_POST_S)
                opened.sock.sendall(data)
        return True

    def server(self) -> ServerInfo:
        """See :meth:`echomq.driver.Connection.server`."""
        if self._server is None:
            self._server = self.send(Command(parts=("INFO",), decode=parse_info, repeatable=True))
        return self._server

    def dedicated(self, *, name: str | None = None) -> "Link":
        """See :meth:`echomq.driver.Connection.dedicated`."""
        return Link(self.dialler, name)

    def close(self) -> None:
        """See :meth:`echomq.driver.Connection.close`."""
        self._closed.set()
        if self._pid != os.getpid():
            return
        opened = self._open
        if opened is not None:
            _shut(opened.sock)
        # Whoever has the turn notices, and closes the socket when he lets go of it.
        self._turn.do_if_free(self._drop)

    # -- turns and deadlines --------------------------------------------------------------------

    def _deadline(self, deadline_ms: int | None, block_ms: int) -> _Deadline:
        limit_ms = (self.dialler.options.deadline_ms if deadline_ms is None else deadline_ms) + block_ms
        return _Deadline(time.monotonic() + limit_ms / 1000, limit_ms)

    def _in_turn(self, exchange: Callable[[], T], deadline: _Deadline) -> T:
        if self._pid != os.getpid():
            self._start_anew()

        def late() -> Exception:
            return self._attempts.out_of_time(deadline.limit_ms, connected=self._open is not None)

        return self._turn.do(lambda: self._unless_closed(exchange), wait_s=deadline.left_s(), late=late)

    def _unless_closed(self, exchange: Callable[[], T]) -> T:
        try:
            return exchange()
        finally:
            if self._closed.is_set():
                self._drop()

    def _start_anew(self) -> None:
        """In a forked process, leave the parent's socket and lock alone."""
        self._orphan, self._open = self._open, None
        self._turn, self._pid = Exclusive(), os.getpid()

    # -- round trips ----------------------------------------------------------------------------

    def _round_trip(self, lines: list[Parts], repeatable: bool, deadline: _Deadline) -> list[Reply]:
        data = b"".join([packed(self.dialler.resp, line) for line in lines])
        while True:
            opened = self._connected(deadline)
            try:
                return self._write_and_read(opened, data, len(lines), deadline)
            except ReplyTimeout:
                raise
            except ConnectionLost:
                if not repeatable or self._closed.is_set():
                    raise

    def _connected(self, deadline: _Deadline) -> _Open:
        if self._open is not None and _is_dead(self._open.sock):
            self._drop()
        while self._open is None:
            if self._closed.is_set():
                raise closed(self.dialler.where)
            pause_s = self._attempts.pause_s(time.monotonic(), dice())
            if deadline.left_s() <= pause_s:
                self._closed.wait(max(0.0, deadline.left_s()))
                raise self._attempts.out_of_time(deadline.limit_ms, connected=False)
            if not self._closed.wait(pause_s):
                self._dial(deadline)
        if self._closed.is_set():
            raise closed(self.dialler.where)
        return self._open

    def _dial(self, deadline: _Deadline) -> None:
        limit_s = min(self.dialler.options.connect_timeout_ms / 1000, max(0.001, deadline.left_s()))
        try:
            sock = self.dialler.dial(self.name, limit_s)
        except DriverError as error:
            self._attempts.failed(error, time.monotonic())
            if self.gives_up or is_final(error):
                raise
        else:
            self._open = _Open(sock, self.dialler.resp.new_parser())

    def _write_and_read(self, opened: _Open, data: bytes, count: int, deadline: _Deadline) -> list[Reply]:
        """Write one request; whatever goes wrong ends the link, so that no reply is left for the next one."""
        replies: list[Reply] = []
        try:
            opened.sock.settimeout(max(0.001, deadline.left_s()))
            opened.sock.sendall(data)
            opened.is_waiting = True
            while len(replies) < count:
                replies += self._read(opened, deadline)
            with opened.waits:
                opened.is_waiting = False
        except BaseException as error:
            self._drop()
            if isinstance(error, TimeoutError):
                raise no_reply(self.dialler.where, deadline.limit_ms) from error
            if isinstance(error, OSError | EOFError | ValueError | ProtocolError):
                raise self._broken(opened, error) from error
            raise
        self._attempts.succeeded()
        if opened.is_posted:
            self._drop()
            del replies[count:]
        # The outcomes of MULTI/EXEC are in the last of several replies.
        if is_demoted(*replies, *(replies[-1] if count > 1 and isinstance(replies[-1], list) else ())):
            self._drop()
        return replies

    def _read(self, opened: _Open, deadline: _Deadline) -> list[Reply]:
        opened.sock.settimeout(max(0.001, deadline.left_s()))
        data = opened.sock.recv(_READ_BYTES)
        if not data:
            raise EOFError("the server closed it")
        opened.heard = True
        opened.parser.feed(data)
        replies = []
        while (reply := opened.parser.gets()) is not INCOMPLETE:
            if type(reply) is not self.dialler.resp.push_type:
                replies.append(canonical(reply) if self.dialler.options.protocol == 3 else reply)
        return replies

    def _broken(self, opened: _Open, error: BaseException) -> ConnectionLost:
        if self._closed.is_set():
            return closed(self.dialler.where, may_have_run=True)
        lost = broken(self.dialler.where, error)
        if not opened.heard:
            self._attempts.failed(lost, time.monotonic())
        return lost

    def _drop(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.sock.close()


def _is_dead(sock: socket.socket) -> bool:
    """Tell whether the server closed an idle link, so that nothing is written where it can only be lost."""
    sock.settimeout(0)
    try:
        # The plain method also on a TLS socket, which refuses to peek: only the end of the stream matters.
        return not socket.socket.recv(sock, 1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _shut(sock: socket.socket) -> None:
    """End both directions, so that a read in another thread returns; TLS's own way would wait for the peer."""
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
