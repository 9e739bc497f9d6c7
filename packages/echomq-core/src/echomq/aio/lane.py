"""The hot lane: one connection that many tasks share.

Requests made in one pass of the event loop leave in few writes; the server
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
import os
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import attrs

from echomq.call import Batch, Command, Request, ScriptCall
from echomq.chance import dice
from echomq.driver import Connection, ConnectionOptions, ServerInfo
from echomq.errors import DriverError, ServerRefused, UsageError
from echomq.exchange import Parts, decoded, exchange_batch, is_unknown_script, parse_info, parts, refused, text_parts
from echomq.links import Reconnecting, broken, closed, is_demoted, is_final, no_reply
from echomq.resp import canonical

from .dialler import Dialler, cancelled_after
from .flights import Backlog, Flight, Line, Link

__all__ = ["Dialler", "Lane"]

T = TypeVar("T")


_WAVE = 24
"""So many requests are written at once, even if this pass of the loop makes more.

Where one pass made all of them, client and server would wait for each other in
turn: measured with 50 in flight, the client was busy 55-75 % of the time with
one write per pass and 85-95 % with waves of 8 to 25, at the same cost per call.
"""


@attrs.define(eq=False)
class Lane:
    """An :class:`~echomq.driver.AsyncConnection` on one transport.

    Attributes:
        dialler: Makes the transports.
        name: For CLIENT LIST, or None.
        gives_up: One failed attempt to connect fails all that waits: whoever made the lane looks for another server.
        backlog: Requests not yet written.
    """

    dialler: Dialler
    name: str | None = None
    gives_up: bool = False
    backlog: Backlog = attrs.field(init=False)
    _options: ConnectionOptions = attrs.field(init=False)
    _attempts: Reconnecting = attrs.field(init=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(init=False, default=None)
    _pid: int = attrs.field(init=False, default=0)
    _link: Link | None = attrs.field(init=False, default=None)
    _dialling: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)
    _flush_due: bool = attrs.field(init=False, default=False)
    _timer: asyncio.TimerHandle | None = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)
    _server: ServerInfo | None = attrs.field(init=False, default=None)
    _parents_link: Link | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._options = self.dialler.options
        self._attempts = Reconnecting(self.dialler.where, self._options)
        self.backlog = Backlog(self.dialler.resp, self._options.max_pending_bytes)

    def __del__(self) -> None:
        # A queue may be thrown away at any moment; its link must not live on in the loop until that ends.
        if self._link is not None and self._loop is not None and self._pid == os.getpid():
            with suppress(RuntimeError):  # the loop is closed, and has closed the link
                self._loop.call_soon_threadsafe(self._link.drop, "nobody has the connection any more")

    @property
    def is_cluster(self) -> bool:
        """See :attr:`echomq.driver.Connection.is_cluster`."""
        return False

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.AsyncConnection.send`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        return await self._answered(
            request, self._start([parts(request)], request.repeatable, deadline_ms, None, block_ms)
        )

    def begin(self, request: ScriptCall[T], *, at_once: bool = True) -> Coroutine[Any, Any, T]:
        """Write a request at once, before this pass of the loop goes on; await what this returns for the reply.

        For calls that give the server work for as long as this pass still takes: else
        client and server would wait for each other in turn.

        Args:
            request: What to write.
            at_once: False lets it leave with what else this pass makes; its place among that is taken now.

        Raises:
            ConnectionClosed: This connection was closed.
            NotEncodable: The request cannot be packed.
        """
        flight = self._start([parts(request)], request.repeatable, None, None, 0)
        if at_once:
            self._write()
        return self._answered(request, flight)

    async def _answered(self, request: Request[T], flight: Flight) -> T:
        reply = await self._landed(flight)
        if isinstance(reply, ServerRefused):
            if is_unknown_script(request, reply) and isinstance(request, ScriptCall):
                reply = await self._landed(self._start_again(flight, [text_parts(request)]))
            if isinstance(reply, ServerRefused):
                self._heed(reply)
                raise refused(request, reply)
        if self._options.protocol == 3:
            reply = canonical(reply)
        return decoded(request, reply)

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.AsyncConnection.send_batch`."""
        repeatable = all(request.repeatable for request in batch.requests)
        exchange = exchange_batch(batch, self._link.known if self._link else set())
        flight: Flight | None = None
        try:
            lines = next(exchange)
            while True:
                if flight is None:
                    flight = self._start(lines, repeatable, deadline_ms, [], 0)
                else:
                    flight = self._start_again(flight, lines)
                replies = await self._landed(flight)
                lines = exchange.send(canonical(replies) if self._options.protocol == 3 else replies)
        except StopIteration as done:
            self._heed(*done.value)
            return list(done.value)
        except ServerRefused as error:
            self._heed(error)
            raise

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
        if self._loop is None or self._pid != os.getpid():
            return
        if self._loop is not asyncio.get_running_loop():
            with suppress(RuntimeError):  # the loop is closed, and has closed the link
                self._loop.call_soon_threadsafe(self._end)
            return
        dialling, link = self._dialling, self._link
        if dialling is not None:
            dialling.cancel()
            await asyncio.wait([dialling])
        if link is not None:
            link.drop("closed")
            await link.gone.wait()
        self.backlog.fail(closed(self.dialler.where))

    def _end(self) -> None:
        """End what goes on in the lane's own loop, as far as can be done in one step of it."""
        if self._dialling is not None:
            self._dialling.cancel()
        if self._link is not None:
            self._link.drop("closed")
        self.backlog.fail(closed(self.dialler.where))

    # One request: start, flush, land.

    def _start(
        self, lines: list[Parts], repeatable: bool, deadline_ms: int | None, got: list[Any] | None, block_ms: int
    ) -> Flight:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        limit_ms = (self._options.deadline_ms if deadline_ms is None else deadline_ms) + block_ms
        flight = Flight(loop.create_future(), lines, repeatable, limit_ms, loop.time() + limit_ms / 1000, got, block_ms)
        self._enqueue(loop, flight)
        return flight

    def _start_again(self, last: Flight, lines: list[Parts]) -> Flight:
        """Send another write within the time of the last one."""
        loop = asyncio.get_running_loop()
        got: list[Any] | None = None if last.got is None else []
        flight = attrs.evolve(last, future=loop.create_future(), lines=lines, got=got)
        self._enqueue(loop, flight)
        return flight

    def _enqueue(self, loop: asyncio.AbstractEventLoop, flight: Flight) -> None:
        if self._closed:
            raise closed(self.dialler.where)
        self.backlog.add(flight)
        if self._timer is None or flight.due < self._timer.when():
            self._set_timer(flight.due)
        if self._link is None:
            self._dial_if_wanted()
        elif self.backlog.packed_count >= _WAVE:
            self._write()
        elif not self._flush_due:
            self._flush_due = True
            loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        self._write()

    def _write(self) -> None:
        link = self._link
        while link is not None and link.is_writable and (flights := self.backlog.take()):
            link.write(flights)

    def _heed(self, *replies: object) -> None:
        if self._link is not None and is_demoted(*replies):
            self._link.retire("its server became a replica")

    async def _landed(self, flight: Flight) -> Any:
        try:
            return await flight.future
        except asyncio.CancelledError:
            link = self._link
            # It would hold up what comes after it, and could take an item that nobody receives.
            if flight.block_ms and link is not None and [flight] == list(link.flights):
                link.drop("a blocking read was cancelled")
            raise

    # Links: made when needed, settled when lost.

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start anew in another loop, or in a forked process; the old one's link and requests are gone with it."""
        forked = self._pid not in (0, os.getpid())
        if self._loop is not None and self._loop.is_running() and not forked:
            raise UsageError(
                f"this connection to {self.dialler.where} belongs to an event loop that still runs in another thread; "
                "open one connection for each loop"
            )
        # A forked child must not close what its parent still uses, so it keeps it, unused.
        self._parents_link = self._link if forked else None
        self._loop, self._pid = loop, os.getpid()
        self._link = self._dialling = self._timer = None
        self._flush_due = False
        self.backlog.clear()
        self._attempts.succeeded()

    def _dial_if_wanted(self) -> None:
        if self._dialling is None and not self._closed and self.backlog.is_wanted:
            self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        try:
            # Closing also cancels this task, but a cancellation that meets a failure can be lost on the way.
            while self._link is None and not self._closed and self.backlog.is_wanted:
                await asyncio.sleep(self._attempts.pause_s(_now(), dice()))
                if not self._closed and self.backlog.is_wanted:
                    await self._dial_once()
        finally:
            self._dialling = None
        self._flush()

    async def _dial_once(self) -> None:
        try:
            with cancelled_after(self._options.connect_timeout_ms, self.dialler.where):
                # Taken over in the same step of the loop: what happens to it in a step between would go unnoticed.
                # A client that connects in spite of a cancellation gives a link that is dropped there.
                await self._take_over(await self.dialler.dial(self.name))
        except DriverError as error:
            self._attempts.failed(error, _now())
            if self.gives_up or is_final(error):
                self.backlog.fail(error)
        except Exception as error:  # noqa: BLE001  # a driver must raise ours; nobody must wait for one that does not
            problem = DriverError(f"the driver failed to connect to {self.dialler.where}: {error!r}")
            problem.__cause__ = error
            self.backlog.fail(problem)

    async def _take_over(self, line: Line) -> None:
        self._link = link = Link(line, self.dialler.resp, _weakly(self._settle), _weakly(self._flush))
        await link.take_over()
        if self._closed:
            link.drop("closed")

    def _settle(self, link: Link, reason: object) -> None:
        """Settle what a lost link still owes."""
        if link is not self._link:
            return
        self._link = None
        where = self.dialler.where
        if link.heard:
            self._attempts.succeeded()
        else:
            self._attempts.failed(broken(where, reason), _now())
        error = closed(where, may_have_run=True) if self._closed else broken(where, reason)
        again: list[Flight] = []
        for flight in link.flights:
            if flight.repeatable and flight.is_open and not self._closed:
                flight.got = None if flight.got is None else []
                again.append(flight)
            else:
                flight.fail(error)
        self.backlog.put_back(again)
        self._dial_if_wanted()

    # Deadlines: one timer, for whatever is due first.

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, _weakly(self._check_deadlines))

    def _check_deadlines(self) -> None:
        self._timer = None
        now = _now()
        link = self._link
        flying = list(link.flights) if link is not None else []
        for flight in flying:
            if flight.due <= now:
                flight.fail(no_reply(self.dialler.where, flight.limit_ms))
        for flight in self.backlog:
            if flight.due <= now:
                flight.fail(self._attempts.out_of_time(flight.limit_ms, connected=link is not None))
        self.backlog.forget_done()
        due = [flight.due for flight in (*flying, *self.backlog) if flight.is_open]
        deaf_at = link.deaf_at(self._options.deadline_ms) if link is not None else None
        if link is not None and deaf_at is not None:
            if deaf_at <= now:
                link.drop(f"nothing came for {self._options.deadline_ms} ms")
            else:
                due.append(deaf_at)
        if due:
            self._set_timer(min(due))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _weakly(method: Callable[..., object]) -> Callable[..., None]:
    """Call a lane's method as long as the lane lives: neither its link nor its timer keeps it."""
    weak = weakref.WeakMethod(method)

    def call(*args: object) -> None:
        if (alive := weak()) is not None:
            alive(*args)

    return call
