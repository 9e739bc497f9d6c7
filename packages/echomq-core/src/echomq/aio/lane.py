"""The hot lane: one connection that many tasks share.

Requests made in one pass of the event loop leave in one write; the server
answers in order, so a queue of futures says whose reply it is. A caller that is
cancelled leaves its place in that queue behind, hence never shifts the others.

What a link still owes when it breaks is settled one request at a time: not yet
written, it waits for the next link; written and repeatable, it is written
again; written and not repeatable, its caller is told that it may have run.

One timer serves all deadlines. A driver gives a :class:`Dialler`, which makes
connected transports with its client library; all else is here, once.

Source: design.md section 4; measured in performance.md 6.
"""

import asyncio
import contextlib
import os
import random
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol, TypeVar

import attrs

from echomq.call import Batch, Command, Request, ScriptCall
from echomq.driver import Connection, ConnectionOptions, ServerInfo
from echomq.errors import ConnectionLost, DriverError, EchoMQError, PluginError, ServerRefused, UsageError
from echomq.exchange import Parts, exchange_batch, is_unknown_script, parse_info, parts, refused, text_parts
from echomq.links import Reconnecting, broken, closed, is_final, no_reply
from echomq.resp import INCOMPLETE, Resp, canonical, packed

__all__ = ["Dialler", "Lane", "Line"]

T = TypeVar("T")

_WRITE_BYTES = 256 * 1024
"""Most that is handed to the transport at once; more waits here, where it can still be withdrawn."""


@attrs.frozen(kw_only=True)
class Line:
    """A connected transport on which the server has been greeted, ready to be taken over.

    Attributes:
        transport: Its protocol will be replaced.
        leftover: What was read and not used.
        keep: Objects that would close the transport if they were collected.
    """

    transport: asyncio.Transport
    leftover: bytes = b""
    keep: tuple[object, ...] = ()


class Dialler(Protocol):
    """What a driver gives to make a lane.

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

    async def dial(self, name: str | None) -> Line:
        """Connect, greet, authenticate, select the database, set the client name.

        Raises:
            ServerRefused: The server is there and does not want us.
            ConnectionLost: It cannot be reached.
        """
        ...

    def twin(self) -> Connection:
        """Return a blocking connection to the same server."""
        ...


@attrs.define(eq=False)
class _Flight:
    """One write and the replies it waits for.

    Attributes:
        future: Whoever sent it waits here.
        lines: What to write; one reply belongs to each.
        repeatable: May be written again after a broken link.
        deadline_ms: As the caller gave it, for messages.
        due: When the deadline passes, in loop time.
        block_ms: How long the server may hold the reply back.
        data: The packed lines; made when there is room for them.
        got: Replies of a batch so far; None if it is no batch.
    """

    future: "asyncio.Future[Any]"
    lines: list[Parts]
    repeatable: bool
    deadline_ms: int
    due: float
    got: list[Any] | None = None
    block_ms: int = 0
    data: bytes = b""


class _Link(asyncio.Protocol):
    """One connected transport of a lane: bytes to replies, replies to their flights."""

    def __init__(
        self, line: Line, resp: Resp, now: float, lost: "Callable[[_Link, BaseException | None], None]"
    ) -> None:
        self.line = line
        self.transport = line.transport
        self.flights: deque[_Flight] = deque()
        self.paused = False
        self.heard_at = now
        self.heard = False
        self.known: set[str] = set()
        self.reason: BaseException | str | None = None
        self.gone = asyncio.Event()
        self._time = asyncio.get_running_loop().time
        self._lost = lost
        self._push = resp.push_type
        parser = resp.new_parser()
        self._feed, self._gets = parser.feed, parser.gets
        self.resumed: Callable[[], None] = lambda: None
        self.guard = _until_loop_ends(self)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._time()
        self.heard = True
        gets, flights = self._gets, self.flights
        try:
            self._feed(data)
            while (reply := gets()) is not INCOMPLETE:
                if type(reply) is self._push:
                    continue
                flight = flights[0]
                if flight.got is not None:
                    flight.got.append(reply)
                    if len(flight.got) < len(flight.lines):
                        continue
                    reply = flight.got
                flights.popleft()
                if not flight.future.done():
                    flight.future.set_result(reply)
        except IndexError:
            self.drop("the server sent a reply that nobody asked for")
        except Exception as error:  # noqa: BLE001  # the parser's own error type; the stream is unusable after it
            self.drop(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.resumed()

    def drop(self, reason: BaseException | str) -> None:
        """Break this link at once."""
        self.reason = self.reason or reason
        self.transport.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.gone.set()
        self._lost(self, exc)
        # If the loop is ending, it is closing the guard right now.
        with contextlib.suppress(StopIteration, RuntimeError):
            self.guard.aclose().send(None)


@attrs.define(eq=False)
class Lane:
    """An :class:`~echomq.driver.AsyncConnection` on one transport.

    Attributes:
        dialler: Makes the transports.
        name: For CLIENT LIST, or None.
    """

    dialler: Dialler
    name: str | None = None
    _loop: asyncio.AbstractEventLoop | None = attrs.field(init=False, default=None)
    _pid: int = attrs.field(init=False, default=0)
    _link: _Link | None = attrs.field(init=False, default=None)
    _dialling: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)
    _waiting: "deque[_Flight]" = attrs.field(init=False, factory=deque)
    _waiting_bytes: int = attrs.field(init=False, default=0)
    _crowd: "deque[_Flight]" = attrs.field(init=False, factory=deque)
    _flush_due: bool = attrs.field(init=False, default=False)
    _timer: asyncio.TimerHandle | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)
    _server: ServerInfo | None = attrs.field(init=False, default=None)
    _orphan: object = attrs.field(init=False, default=None)
    _options: ConnectionOptions = attrs.field(init=False)
    _resp: Resp = attrs.field(init=False)
    _attempts: Reconnecting = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # Read for every call, so looked up once.
        self._options, self._resp = self.dialler.options, self.dialler.resp
        self._attempts = Reconnecting(self.dialler.where, self._options)

    # -- the contract ---------------------------------------------------------------------------

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.AsyncConnection.send`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        flight = self._depart([parts(request)], request.repeatable, deadline_ms, block_ms=block_ms)
        reply = await self._landed(flight)
        if isinstance(reply, ServerRefused):
            if is_unknown_script(request, reply) and isinstance(request, ScriptCall):
                reply = await self._landed(self._depart_again(flight, [text_parts(request)]))
            if isinstance(reply, ServerRefused):
                raise refused(request, reply)
        if self._options.protocol == 3:
            reply = canonical(reply)
        return request.decode(reply)

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.AsyncConnection.send_batch`."""
        repeatable = all(request.repeatable for request in batch.requests)
        exchange = exchange_batch(batch, self._link.known if self._link else set())
        flight: _Flight | None = None
        try:
            lines = next(exchange)
            while True:
                if flight is None:
                    flight = self._depart(lines, repeatable, deadline_ms, batch=True)
                else:
                    flight = self._depart_again(flight, lines)
                replies = await self._landed(flight)
                lines = exchange.send(canonical(replies) if self._options.protocol == 3 else replies)
        except StopIteration as done:
            return list(done.value)

    async def server(self) -> ServerInfo:
        """See :meth:`echomq.driver.AsyncConnection.server`."""
        if self._server is None:
            self._server = await self.send(Command(parts=("INFO",), decode=parse_info, repeatable=True))
        return self._server

    def dedicated(self, *, name: str | None = None) -> "Lane":
        """See :meth:`echomq.driver.AsyncConnection.dedicated`."""
        return Lane(self.dialler, name)

    def blocking_twin(self) -> Connection:
        """See :meth:`echomq.driver.AsyncConnection.blocking_twin`."""
        return self.dialler.twin()

    async def close(self) -> None:
        """See :meth:`echomq.driver.AsyncConnection.close`."""
        self._closed = True
        if self._loop is not asyncio.get_running_loop() or self._pid != os.getpid():
            return
        dialling, link = self._dialling, self._link
        if dialling is not None:
            dialling.cancel()
            await asyncio.wait([dialling])
        if link is not None:
            link.drop("closed")
            await link.gone.wait()
        self._fail_waiting(closed(self.dialler.where))

    # -- departure ------------------------------------------------------------------------------

    def _depart(
        self, lines: list[Parts], repeatable: bool, deadline_ms: int | None, *, batch: bool = False, block_ms: int = 0
    ) -> _Flight:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        limit_ms = self._options.deadline_ms if deadline_ms is None else deadline_ms
        due = loop.time() + (limit_ms + block_ms) / 1000
        got: list[Any] | None = [] if batch else None
        flight = _Flight(loop.create_future(), lines, repeatable, limit_ms + block_ms, due, got, block_ms)
        self._queue(flight)
        return flight

    def _depart_again(self, last: _Flight, lines: list[Parts]) -> _Flight:
        """Send another write within the deadline of the last one."""
        future = asyncio.get_running_loop().create_future()
        flight = attrs.evolve(last, future=future, lines=lines, got=None if last.got is None else [])
        self._queue(flight)
        return flight

    def _queue(self, flight: _Flight) -> None:
        if self._closed:
            raise closed(self.dialler.where)
        if self._crowd or self._waiting_bytes >= self._options.max_pending_bytes:
            self._crowd.append(flight)
        else:
            self._pack(flight)
        if self._timer is None or flight.due < self._timer.when():
            self._set_timer(flight.due)
        if self._link is not None:
            self._flush_soon()
        elif self._dialling is None:
            self._start_dialling()

    def _pack(self, flight: _Flight) -> None:
        flight.data = b"".join([packed(self._resp, line) for line in flight.lines])
        self._waiting_bytes += len(flight.data)
        self._waiting.append(flight)

    async def _landed(self, flight: _Flight) -> Any:
        try:
            return await flight.future
        except asyncio.CancelledError:
            self._withdraw(flight)
            raise

    def _withdraw(self, flight: _Flight) -> None:
        """Give up a flight whose caller was cancelled.

        A blocking read would hold up what comes after it, and could take an item nobody receives: its link goes.
        """
        link = self._link
        if flight.block_ms and link is not None and flight in link.flights and len(link.flights) == 1:
            link.drop("a blocking read was cancelled")

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        link = self._link
        while link is not None and not link.paused and self._waiting:
            chunk: list[bytes] = []
            size = 0
            while self._waiting and size < _WRITE_BYTES:
                flight = self._waiting.popleft()
                size += len(flight.data)
                self._waiting_bytes -= len(flight.data)
                if not flight.future.done():
                    chunk.append(flight.data)
                    link.flights.append(flight)
            link.transport.write(b"".join(chunk))
            self._admit()

    def _admit(self) -> None:
        """Let senders in that waited for room."""
        while self._crowd and self._waiting_bytes < self._options.max_pending_bytes:
            flight = self._crowd.popleft()
            if flight.future.done():
                continue
            try:
                self._pack(flight)
            except EchoMQError as error:
                flight.future.set_exception(error)

    # -- links ----------------------------------------------------------------------------------

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start anew in another loop, or in a forked process; the old one's link and requests are gone with it."""
        forked = self._pid not in (0, os.getpid())
        if self._loop is not None and not forked and self._loop.is_running():
            raise UsageError(
                f"this connection to {self.dialler.where} belongs to an event loop that still runs in another thread; "
                "open one connection for each loop"
            )
        # A forked child must not close what the parent still uses, so it keeps it, unused.
        self._orphan = self._link if forked else None
        self._loop, self._pid = loop, os.getpid()
        self._link = self._dialling = self._timer = None
        self._waiting.clear()
        self._crowd.clear()
        self._waiting_bytes, self._flush_due = 0, False
        self._attempts.succeeded()

    def _start_dialling(self) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        try:
            # Closing also cancels this task, but a cancellation that meets a failure can be lost on the way.
            while self._link is None and not self._closed and self._anybody_waits():
                await asyncio.sleep(self._attempts.pause_s(_now(), random.random()))  # noqa: S311  # jitter
                if not self._closed and self._anybody_waits():
                    await self._dial_once()
        finally:
            self._dialling = None
        self._flush()

    async def _dial_once(self) -> None:
        limit_s = self._options.connect_timeout_ms / 1000
        try:
            line = await asyncio.wait_for(self.dialler.dial(self.name), limit_s)
        except asyncio.TimeoutError:
            late = ConnectionLost(f"connecting to {self.dialler.where} took longer than {limit_s} s")
            self._attempts.failed(late, _now())
        except DriverError as error:
            self._attempts.failed(error, _now())
            if is_final(error):
                self._fail_waiting(error)
        except Exception as error:  # noqa: BLE001  # a driver must raise ours; callers must not wait for one that does not
            problem = PluginError(f"the driver failed to connect to {self.dialler.where}: {error!r}")
            problem.__cause__ = error
            self._fail_waiting(problem)
        else:
            await self._take_over(line)

    async def _take_over(self, line: Line) -> None:
        loop = asyncio.get_running_loop()
        link = _Link(line, self._resp, loop.time(), self._lost)
        link.resumed = self._flush
        line.transport.set_protocol(link)
        self._link = link
        if line.leftover:
            link.data_received(line.leftover)
        # An event loop closes its asynchronous generators before it ends, and so this link with it.
        await anext(link.guard)
        if self._closed:
            link.drop("closed")

    def _lost(self, link: _Link, exc: BaseException | None) -> None:
        """Settle what a broken link still owes."""
        if link is not self._link:
            return
        self._link = None
        reason = link.reason or exc or "the server closed it"
        if link.heard:
            self._attempts.succeeded()
        else:
            self._attempts.failed(broken(self.dialler.where, reason), _now())
        again = [
            flight for flight in link.flights if not flight.future.done() and flight.repeatable and not self._closed
        ]
        for flight in link.flights:
            if not flight.future.done() and flight not in again:
                where = self.dialler.where
                error = closed(where, may_have_run=True) if self._closed else broken(where, reason)
                flight.future.set_exception(error)
        for flight in reversed(again):
            flight.got = None if flight.got is None else []
            self._waiting.appendleft(flight)
            self._waiting_bytes += len(flight.data)
        if not self._closed and self._anybody_waits() and self._dialling is None:
            self._start_dialling()

    def _anybody_waits(self) -> bool:
        return any(not flight.future.done() for queue in (self._waiting, self._crowd) for flight in queue)

    def _fail_waiting(self, error: EchoMQError) -> None:
        for queue in (self._waiting, self._crowd):
            for flight in queue:
                if not flight.future.done():
                    flight.future.set_exception(error)
            queue.clear()
        self._waiting_bytes = 0

    # -- deadlines ------------------------------------------------------------------------------

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        link = self._link
        flying = link.flights if link is not None else ()
        for flight in flying:
            if flight.due <= now and not flight.future.done():
                flight.future.set_exception(no_reply(self.dialler.where, flight.deadline_ms))
        for flight in (*self._waiting, *self._crowd):
            if flight.due <= now and not flight.future.done():
                flight.future.set_exception(self._attempts.out_of_time(flight.deadline_ms, connected=link is not None))
        if link is not None and self._is_deaf(link, now):
            link.drop(f"nothing came for {self._options.deadline_ms} ms")
        self._forget_done()
        open_flights = (flight.due for flight in (*flying, *self._waiting, *self._crowd) if not flight.future.done())
        nearest = min(open_flights, default=None)
        if nearest is not None:
            self._set_timer(nearest)

    def _forget_done(self) -> None:
        """Free the room of requests whose callers no longer wait."""
        self._waiting = deque(flight for flight in self._waiting if not flight.future.done())
        self._crowd = deque(flight for flight in self._crowd if not flight.future.done())
        self._waiting_bytes = sum(len(flight.data) for flight in self._waiting)
        self._admit()

    def _is_deaf(self, link: _Link, now: float) -> bool:
        """Tell whether a reply is overdue on a link that brought nothing for a whole deadline."""
        if not link.flights or link.flights[0].due > now:
            return False
        return now - link.heard_at >= (self._options.deadline_ms + link.flights[0].block_ms) / 1000


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _until_loop_ends(link: _Link) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if not link.gone.is_set():
            link.drop("the event loop ends")
            await link.gone.wait()
