"""What lies between a simulated process and the server: connections on which anything may happen.

A :class:`Link` keeps the rules of :mod:`echomq.driver` as the real ones do:
replies in order, deadlines, repeats of what may be repeated. What may go wrong
on it, goes wrong: a request or its reply may be lost, arrive late, or arrive
after its sender has given up.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import attrs

from echomq.call import Batch, Command, Request, ScriptCall
from echomq.driver import ServerInfo
from echomq.errors import ConnectionClosed, ConnectionLost, ReplyTimeout, ServerRefused
from echomq.exchange import refused

from .server import Store, Waiter
from .universe import Process, Universe

__all__ = ["Link", "Road", "Twin"]

T = TypeVar("T")

_DEADLINE_MS = 10_000


@attrs.define(eq=False)
class Road:
    """The way from one process to the server, which all its links share.

    Attributes:
        closed_until: Nothing gets through, and new links are refused.
        latency_ms: Longest way of a request or a reply.
        lose_next: The next request is lost: ``"request"`` before it runs, ``"reply"`` after it ran.
        links: Its open links.
    """

    universe: Universe
    store: Store
    process: Process
    dice: random.Random
    closed_until: float = 0
    latency_ms: float = 2
    lose_next: str | None = None
    links: "list[Link]" = attrs.field(factory=list)

    @property
    def open_at(self) -> float:
        """When a request can be written; the past: now."""
        return max(self.closed_until, self.store.down_until)

    def travel_ms(self) -> float:
        """How long this request or reply takes."""
        return round(self.dice.uniform(0.1, self.latency_ms), 3)

    def cut(self, *, all_lost: bool = False) -> None:
        """Break all links; with ``all_lost`` no request that is on its way arrives."""
        for link in self.links:
            link.cut(all_lost=all_lost)


@attrs.define(eq=False)
class _Flight:
    request: Request[Any] | Batch
    future: "asyncio.Future[Any]"
    due: float
    repeatable: bool
    written: bool = False
    lost: bool = False
    given_up: bool = False
    waiter: Waiter | None = None

    @property
    def name(self) -> str:
        if isinstance(self.request, Batch):
            return f"batch of {len(self.request.requests)}"
        if isinstance(self.request, ScriptCall):
            subject = [str(arg) for arg in self.request.args if isinstance(arg, str) and len(arg) < 8]
            return " ".join([self.request.script, *subject[:1]])
        return str(self.request.parts[0])


@attrs.define(eq=False)
class Link:
    """An :class:`~echomq.driver.AsyncConnection` in virtual time."""

    road: Road
    name: str = "lane"
    is_cluster: bool = False
    is_closed: bool = False
    _flights: list[_Flight] = attrs.field(factory=list)
    _up_at: float = 0
    _down_at: float = 0
    _heard_at: float = 0

    def __attrs_post_init__(self) -> None:
        self.road.links.append(self)

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :class:`~echomq.driver.AsyncConnection`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        reply = await self._reply(request, request.repeatable, (deadline_ms or _DEADLINE_MS) + block_ms)
        if isinstance(reply, ServerRefused):
            raise refused(request, reply)
        return request.decode(reply)

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :class:`~echomq.driver.AsyncConnection`."""
        repeatable = all(request.repeatable for request in batch.requests)
        outcomes = await self._reply(batch, repeatable, deadline_ms or _DEADLINE_MS)
        if isinstance(outcomes, ServerRefused):
            raise outcomes
        return cast("list[Any]", outcomes)

    async def server(self) -> ServerInfo:
        """See :class:`~echomq.driver.AsyncConnection`."""
        return ServerInfo(name="redis", version=(7, 0, 0))

    def dedicated(self, *, name: str | None = None) -> "Link":
        """See :class:`~echomq.driver.AsyncConnection`."""
        return Link(self.road, "reader" if name else "other")

    def blocking_twin(self) -> "Twin":
        """See :class:`~echomq.driver.AsyncConnection`."""
        return Twin(self.road)

    async def close(self) -> None:
        """See :class:`~echomq.driver.AsyncConnection`."""
        self.is_closed = True
        for flight in tuple(self._flights):
            self._fail(flight, ConnectionClosed("closed", may_have_run=flight.written))
            self._forget_waiter(flight)

    # -- one request ----------------------------------------------------------------------------

    async def _reply(self, request: Any, repeatable: bool, limit_ms: int) -> Any:
        if self.is_closed or self.road.universe.is_over:
            raise ConnectionClosed("closed")
        due = self.road.universe.now_ms + limit_ms
        flight = _Flight(request, asyncio.get_running_loop().create_future(), due, repeatable)
        self._flights.append(flight)
        self._at(due, lambda: self._late(flight))
        self._depart(flight)
        try:
            return await flight.future
        except asyncio.CancelledError:
            flight.given_up = True
            if isinstance(request, Command) and request.block_ms:
                self._nature(self.road.travel_ms(), lambda: self._forget_waiter(flight))
            raise
        finally:
            if flight in self._flights:
                self._flights.remove(flight)

    def _at(self, when: float, event: Callable[[], object]) -> None:
        self.road.universe.at(when, event, self.road.process, in_loop=True)

    def _nature(self, after_ms: float, event: Callable[[], object]) -> None:
        self.road.universe.at(self.road.universe.now_ms + after_ms, event)

    def _depart(self, flight: _Flight) -> None:
        """Write a request, or wait until it can be written."""
        universe, road = self.road.universe, self.road
        if flight.future.done() or flight.given_up:
            return
        if road.open_at > universe.now_ms:
            self._at(road.open_at + road.travel_ms(), lambda: self._depart(flight))
            return
        flight.written = True
        self._up_at = max(self._up_at, universe.now_ms + road.travel_ms())
        if road.lose_next is not None and self.name == "lane":
            self._lose(flight, road.lose_next)
            return
        self.road.store.on_their_way += 1
        universe.at(self._up_at, lambda: self._arrive(flight))

    def _lose(self, flight: _Flight, what: str) -> None:
        """Lose a request before it runs, or its reply; the link breaks then."""
        self.road.lose_next = None
        if what == "request":
            self.road.universe.at(self._up_at, lambda: self.cut(all_lost=True))
        else:
            self.road.universe.at(self._up_at, lambda: self._run_and_cut(flight))

    def _arrive(self, flight: _Flight) -> None:
        """Let the server have a request."""
        store, universe = self.road.store, self.road.universe
        store.on_their_way -= 1
        if universe.is_over or flight.lost:
            return
        if store.frozen_until > universe.now_ms:
            store.on_their_way += 1
            universe.at(store.frozen_until, lambda: self._arrive(flight))
        elif store.down_until <= universe.now_ms:  # else it died with the server
            request = flight.request
            if isinstance(request, Command) and request.block_ms and store.refusal is None:
                flight.waiter = Waiter(lambda reply: self._answer(flight, reply))
                store.wait(request, flight.waiter)
            else:
                self._answer(flight, self._run(flight))

    def _run_and_cut(self, flight: _Flight) -> None:
        if max(self.road.open_at, self.road.store.frozen_until) <= self.road.universe.now_ms:
            self._run(flight)
        self.cut(all_lost=True)

    def _run(self, flight: _Flight) -> Any:
        reply = self.road.store.run(flight.request)
        late = "  (its sender has given up)" if flight.future.done() or flight.given_up else ""
        self.road.universe.tell(self.road.process.name, f"{flight.name} -> {_shown(reply)}{late}")
        return reply

    def _answer(self, flight: _Flight, reply: Any) -> None:
        self._down_at = max(self._down_at, self.road.universe.now_ms + self.road.travel_ms())
        if flight.waiter is not None and reply is not None:
            self.road.universe.tell(self.road.process.name, f"{flight.name} -> {_shown(reply)}")
        self._at(self._down_at, lambda: self._land(flight, reply))

    def _land(self, flight: _Flight, reply: Any) -> None:
        if flight in self._flights:
            self._flights.remove(flight)
            self._heard_at = self.road.universe.now_ms
            if not flight.future.done():
                flight.future.set_result(reply)

    def _late(self, flight: _Flight) -> None:
        if flight.future.done() or flight.given_up:
            return
        if flight.written:
            self._fail(flight, ReplyTimeout("no reply in time"))
            if self._heard_at <= self.road.universe.now_ms - _DEADLINE_MS:
                self.cut()
        else:
            self._fail(flight, ConnectionLost("the server cannot be reached"))

    def _fail(self, flight: _Flight, error: ConnectionLost) -> None:
        if not flight.future.done():
            flight.future.set_exception(error)

    def _forget_waiter(self, flight: _Flight) -> None:
        if flight.waiter is not None:
            self.road.store.forget(flight.waiter)

    # -- breaking -------------------------------------------------------------------------------

    def cut(self, *, all_lost: bool = False) -> None:
        """Break: replies on their way are lost; a request on its way is lost, or arrives after what follows it."""
        broken, self._flights = [flight for flight in self._flights if flight.written], self._waiting()
        self._up_at = self._down_at = 0
        for flight in broken:
            flight.lost = all_lost or self.road.dice.random() < 0.5
            if flight.lost:
                self._forget_waiter(flight)
            self._at(self.road.universe.now_ms, partial(self._settle, flight))

    def _waiting(self) -> list[_Flight]:
        return [flight for flight in self._flights if not flight.written]

    def _settle(self, flight: _Flight) -> None:
        """Tell a caller that its link broke, or write its request again."""
        if flight.future.done() or flight.given_up:
            return
        if flight.repeatable:
            again = attrs.evolve(flight, written=False, lost=False, waiter=None)
            self._flights.append(again)
            self._at(again.due, lambda: self._late(again))
            self._depart(again)
        else:
            self._fail(flight, ConnectionLost("the link broke", may_have_run=True))


@attrs.define(eq=False)
class Twin:
    """A blocking :class:`~echomq.driver.Connection`: for the thread that renews locks; its requests take no time."""

    road: Road
    is_cluster: bool = False

    def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :class:`~echomq.driver.Connection`."""
        store, universe = self.road.store, self.road.universe
        if max(self.road.open_at, store.frozen_until) > universe.now_ms:
            raise ConnectionLost(f"the server did not answer within {deadline_ms} ms")
        reply = store.run(request)
        universe.tell(self.road.process.name, f"{getattr(request, 'script', '')} -> {_shown(reply)}")
        if isinstance(reply, ServerRefused):
            raise refused(request, reply)
        return request.decode(reply)

    def close(self) -> None:
        """See :class:`~echomq.driver.Connection`."""


def _shown(reply: Any) -> str:
    """The part of a reply that a reader of the trace wants."""
    if not isinstance(reply, list):
        return str(reply)[:60]
    if len(reply) > 1 and isinstance(reply[0], list) and isinstance(reply[1], bytes):
        return f"job {reply[1].decode()}"
    # A server keeps the fields of a large hash in an order of its own, another one each time.
    is_hash = len(reply) > 8 and all(isinstance(item, bytes) for item in reply)
    return f"{len(reply) // 2} fields" if is_hash else f"[{', '.join(map(_shown, reply[:8]))}]"
