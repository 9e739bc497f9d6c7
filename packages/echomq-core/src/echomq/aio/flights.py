"""Requests on their way: waiting to be written, written, and answered.

A flight is one write and the replies that belong to it. It waits in a
:class:`Backlog` until there is a link, then in the :class:`Link`'s own queue
until its replies come. Replies come in the order of the writes.

Source: design.md section 4.
"""

import asyncio
import contextlib
import copy
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import chain
from typing import Any

import attrs

from echomq.errors import DriverError, EchoMQError
from echomq.exchange import Parts
from echomq.resp import INCOMPLETE, Resp, packed

__all__ = ["Backlog", "Flight", "Line", "Link"]

_WRITE_BYTES = 256 * 1024
"""Most that is handed to a transport at once; more waits in the backlog, where it can still be withdrawn."""


@attrs.define(eq=False)
class Flight:
    """One write and the replies it waits for.

    Attributes:
        future: Whoever sent it waits here.
        lines: What to write; one reply belongs to each.
        repeatable: May be written again after a broken link.
        limit_ms: How long it may take, for messages.
        due: When that time is over, on the loop's clock.
        got: Replies of a batch so far; None if it is no batch.
        block_ms: How long the server may hold the reply back.
        data: The packed lines; made when there is room for them.
    """

    future: "asyncio.Future[Any]"
    lines: list[Parts]
    repeatable: bool
    limit_ms: int
    due: float
    got: list[Any] | None = None
    block_ms: int = 0
    data: bytes = b""

    @property
    def is_open(self) -> bool:
        """True while somebody waits for it."""
        return not self.future.done()

    def fail(self, error: EchoMQError) -> None:
        """Give an error to whoever waits; a copy, since each caller adds to its traceback."""
        if self.is_open:
            own = copy.copy(error)
            own.__cause__ = error.__cause__
            self.future.set_exception(own)


@attrs.define(eq=False)
class Backlog:
    """What is not written yet: packed up to a limit, the rest waits unpacked with its callers.

    Attributes:
        resp: How to pack.
        limit_bytes: No more is packed while this much waits.
    """

    resp: Resp
    limit_bytes: int
    _packed: deque[Flight] = attrs.field(init=False, factory=deque)
    _packed_bytes: int = attrs.field(init=False, default=0)
    _crowd: deque[Flight] = attrs.field(init=False, factory=deque)

    def __iter__(self) -> Iterator[Flight]:
        return chain(self._packed, self._crowd)

    @property
    def is_wanted(self) -> bool:
        """True while somebody waits for any of it."""
        return any(flight.is_open for flight in self)

    @property
    def packed_bytes(self) -> int:
        """How much is packed."""
        return self._packed_bytes

    @property
    def packed_count(self) -> int:
        """How many are packed."""
        return len(self._packed)

    def add(self, flight: Flight) -> None:
        """Take a new flight.

        Raises:
            NotEncodable: It cannot be packed.
        """
        if self._crowd or self._packed_bytes >= self.limit_bytes:
            self._crowd.append(flight)
        else:
            self._pack(flight)

    def _pack(self, flight: Flight) -> None:
        flight.data = b"".join([packed(self.resp, line) for line in flight.lines])
        self._packed_bytes += len(flight.data)
        self._packed.append(flight)

    def take(self) -> list[Flight]:
        """Take out the next flights, about one write's worth; empty if there are none."""
        taken: list[Flight] = []
        room = _WRITE_BYTES
        while room > 0:
            self._admit()
            if not self._packed:
                break
            flight = self._packed.popleft()
            self._packed_bytes -= len(flight.data)
            if not flight.future.done():
                taken.append(flight)
                room -= len(flight.data)
        return taken

    def _admit(self) -> None:
        """Let flights in that waited for room."""
        while self._crowd and self._packed_bytes < self.limit_bytes:
            flight = self._crowd.popleft()
            try:
                if flight.is_open:
                    self._pack(flight)
            except EchoMQError as error:
                flight.fail(error)

    def put_back(self, flights: list[Flight]) -> None:
        """Put flights that must be written again before all others."""
        self._packed.extendleft(reversed(flights))
        self._packed_bytes += sum(len(flight.data) for flight in flights)

    def forget_done(self) -> None:
        """Free the room of flights nobody waits for."""
        self._packed = deque(flight for flight in self._packed if flight.is_open)
        self._packed_bytes = sum(len(flight.data) for flight in self._packed)
        self._crowd = deque(flight for flight in self._crowd if flight.is_open)
        self._admit()

    def fail(self, error: DriverError) -> None:
        """Give up all."""
        for flight in self:
            flight.fail(error)
        self.clear()

    def clear(self) -> None:
        """Forget all, whoever waits."""
        self._packed.clear()
        self._crowd.clear()
        self._packed_bytes = 0


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


class Link(asyncio.Protocol):
    """One connected transport: bytes to replies, replies to their flights.

    Attributes:
        flights: Written and not answered, in order.
        heard: True once the server has sent something.
        known: Scripts this link has taught the server.
        reason: Why it was dropped.
        gone: Set when it is lost.
    """

    def __init__(
        self, line: Line, resp: Resp, lost: "Callable[[Link, object], None]", resumed: Callable[[], None]
    ) -> None:
        self.flights: deque[Flight] = deque()
        self.heard = False
        self.known: set[str] = set()
        self.reason: object = None
        self.gone = asyncio.Event()
        self._line = line
        self._paused = False
        self._retired = False
        self._time = asyncio.get_running_loop().time
        self._heard_at = self._time()
        self._lost, self._resumed = lost, resumed
        self._push = resp.push_type
        parser = resp.new_parser()
        self._feed, self._gets = parser.feed, parser.gets
        self._guard = _until_loop_ends(self)

    async def take_over(self) -> None:
        """Become the protocol of the transport."""
        self._line.transport.set_protocol(self)
        if self._line.leftover:
            self.data_received(self._line.leftover)
        # An event loop closes its asynchronous generators before it ends, and so this link with them.
        await anext(self._guard)

    @property
    def is_writable(self) -> bool:
        """False while the transport wants nothing more, and from the moment it is on its way to be lost."""
        return not self._paused and not self._retired and not self._line.transport.is_closing()

    def write(self, flights: list[Flight]) -> None:
        """Write flights in one go."""
        self.flights.extend(flights)
        self._line.transport.write(b"".join([flight.data for flight in flights]))

    def drop(self, reason: object) -> None:
        """Break this link at once."""
        self.reason = self.reason or reason
        self._line.transport.abort()

    def retire(self, reason: object) -> None:
        """Take nothing more, and break once what was written is answered."""
        self._retired = True
        self.reason = self.reason or reason
        if not self.flights:
            self.drop(reason)

    def deaf_at(self, patience_ms: int) -> float | None:
        """Return when this link must be given up unless something comes before; None if nothing is awaited.

        Args:
            patience_ms: How long the server may be silent while a reply is overdue.
        """
        if not self.flights:
            return None
        head = self.flights[0]
        return max(head.due, self._heard_at + (patience_ms + head.block_ms) / 1000)

    def data_received(self, data: bytes) -> None:
        """Resolve the flights whose replies are whole."""
        self._heard_at = self._time()
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
            if self._retired and not flights:
                self.drop(self.reason)
        except IndexError:
            self.drop("the server sent a reply that nobody asked for")
        except Exception as error:  # noqa: BLE001  # of the parser's own type; the stream is unusable after it
            self.drop(error)

    def pause_writing(self) -> None:
        """Note that the transport wants nothing more."""
        self._paused = True

    def resume_writing(self) -> None:
        """Note that the transport can take more."""
        self._paused = False
        self._resumed()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Tell the lane."""
        self.gone.set()
        self._lost(self, self.reason or exc or "the server closed it")
        # If the loop is ending, it is closing the guard right now.
        with contextlib.suppress(StopIteration, RuntimeError):
            self._guard.aclose().send(None)


async def _until_loop_ends(link: Link) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        if not link.gone.is_set():
            link.drop("the event loop ends")
            await link.gone.wait()
