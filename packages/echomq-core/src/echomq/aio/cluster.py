"""The connection to a cluster, for asyncio: a lane to each node that is used.

Where a request goes and what to do when it is not served there is decided in
:mod:`echomq.cluster`; here is only sending, resting and asking.

Source: design.md section 4.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs

from echomq.call import Batch, Command, Request
from echomq.chance import dice
from echomq.cluster import (
    ASK_SLOTS,
    ASKING,
    FIRST,
    Journey,
    SlotTable,
    ask_ms,
    can_ask,
    guarded,
    nobody_answered,
    redirected,
    slot_of,
    slots_of,
)
from echomq.driver import Address, Connection, ConnectionOptions, ServerInfo
from echomq.errors import DriverError, EchoMQError, ServerRefused
from echomq.exchange import parse_info
from echomq.links import closed

from .lane import Dialler, Lane

__all__ = ["ClusterDialler", "ClusterLane"]

T = TypeVar("T")

_Carry: TypeAlias = Callable[[Lane, bool, int], Awaitable[T]]
"""Sends something by a lane, after ASKING or not, within some milliseconds."""


class ClusterDialler(Protocol):
    """What a driver gives to make lanes to the nodes of a cluster.

    Attributes:
        where: The cluster, for messages; no password.
        options: Deadlines and limits.
        table: Who owns which slot; shared by all connections from one source.
    """

    @property
    def where(self) -> str: ...  # noqa: D102

    @property
    def options(self) -> ConnectionOptions: ...  # noqa: D102

    @property
    def table(self) -> SlotTable: ...  # noqa: D102

    def at(self, address: Address) -> Dialler:
        """Return what connects to one node."""
        ...

    def twin(self) -> Connection:
        """Return a blocking connection to the same cluster."""
        ...


@attrs.define(eq=False)
class ClusterLane:
    """An :class:`~echomq.driver.AsyncConnection` to the nodes of a cluster.

    Attributes:
        dialler: Makes the transports.
        name: For CLIENT LIST, or None.
        is_single: Only one node is used at a time: a link to another one ends the last.
    """

    dialler: ClusterDialler
    name: str | None = None
    is_single: bool = False
    _lanes: dict[Address, Lane] = attrs.field(init=False, factory=dict)
    _learning: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)
    _closed: bool = attrs.field(init=False, default=False)
    _server: ServerInfo | None = attrs.field(init=False, default=None)

    @property
    def is_cluster(self) -> bool:
        """See :attr:`echomq.driver.Connection.is_cluster`."""
        return True

    async def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.AsyncConnection.send`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        safe = guarded(request)

        async def carry(lane: Lane, asking: bool, left_ms: int) -> T:
            if not asking:
                return await lane.send(safe, deadline_ms=max(1, left_ms - block_ms))
            _, outcome = await lane.send_batch(Batch(requests=(ASKING, request)), deadline_ms=left_ms)
            if isinstance(outcome, EchoMQError):
                raise outcome
            return outcome  # type: ignore[no-any-return]  # a batch does not know what its items decode to

        return await self._carried(
            self._journey(slot_of(request), deadline_ms, block_ms, can_ask=can_ask(request)), carry
        )

    async def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.AsyncConnection.send_batch`; what is not atomic is split by slot."""
        outcomes: list[Any] = [None] * len(batch.requests)
        groups = slots_of(batch).items()
        sent = [self._send_group(batch, slot, places, outcomes, deadline_ms) for slot, places in groups]
        for error in await asyncio.gather(*sent, return_exceptions=True):
            if error is not None:
                raise error
        return outcomes

    async def _send_group(
        self, batch: Batch, slot: int | None, places: list[int], outcomes: list[Any], deadline_ms: int | None
    ) -> None:
        """Send those requests of a batch that share a slot, until none of them is turned away."""

        async def carry(lane: Lane, _: bool, left_ms: int) -> None:
            requests = tuple(guarded(batch.requests[place]) for place in places)
            found = await lane.send_batch(Batch(requests=requests, atomic=batch.atomic), deadline_ms=left_ms)
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
            places[:] = [place for place in places if redirected(outcomes[place])]
            if places:
                raise outcomes[places[0]]

        try:
            await self._carried(self._journey(slot, deadline_ms, 0, can_ask=False), carry)
        except ServerRefused as error:
            if batch.atomic or any(outcomes[place] is None for place in places):
                raise
            for place in places:
                outcomes[place] = error

    async def server(self) -> ServerInfo:
        """See :meth:`echomq.driver.AsyncConnection.server`; any node answers."""
        if self._server is None:
            self._server = await self.send(Command(parts=("INFO",), decode=parse_info, repeatable=True))
        return self._server

    def dedicated(self, *, name: str | None = None) -> "ClusterLane":
        """See :meth:`echomq.driver.AsyncConnection.dedicated`."""
        return ClusterLane(self.dialler, name, is_single=True)

    def blocking_twin(self) -> Connection:
        """See :meth:`echomq.driver.AsyncConnection.blocking_twin`."""
        return self.dialler.twin()

    async def close(self) -> None:
        """See :meth:`echomq.driver.AsyncConnection.close`."""
        self._closed = True
        learning = self._learning
        if learning is not None and learning.get_loop() is asyncio.get_running_loop() and not learning.done():
            learning.cancel()
            await asyncio.wait([learning])
        for lane in list(self._lanes.values()):
            await lane.close()

    # -- the way of one request ----------------------------------------------------------------

    def _journey(self, slot: int | None, deadline_ms: int | None, block_ms: int, *, can_ask: bool) -> Journey:
        limit_ms = (self.dialler.options.deadline_ms if deadline_ms is None else deadline_ms) + block_ms
        return Journey(
            table=self.dialler.table,
            slot=slot,
            where=self.dialler.where,
            due_s=time.monotonic() + limit_ms / 1000,
            limit_ms=limit_ms,
            can_ask=can_ask,
        )

    async def _carried(self, journey: Journey, carry: _Carry[T]) -> T:
        step, table = FIRST, self.dialler.table
        while True:
            node: Address | None = None
            try:
                if step.rest_s:
                    await asyncio.sleep(step.rest_s)
                if step.learn or table.is_doubted:
                    await self._learn(journey)
                node = step.node or table.owner(journey.slot)
                return await carry(self._lane(node), step.asking, journey.left_ms(time.monotonic()))
            except DriverError as error:
                step = journey.after(error, node, time.monotonic(), dice())

    def _lane(self, node: Address) -> Lane:
        if self._closed:
            raise closed(self.dialler.where)
        lane = self._lanes.get(node)
        if lane is None:
            if self.is_single:
                self._lanes.clear()  # a lane that nobody has drops its link
            lane = self._lanes[node] = Lane(self.dialler.at(node), self.name, gives_up=True)
        return lane

    # -- who owns what -------------------------------------------------------------------------

    async def _learn(self, journey: Journey) -> None:
        """Ask for the table; all requests that want it at once wait for one answer."""
        if self._closed:
            raise closed(self.dialler.where)
        loop = asyncio.get_running_loop()
        learning = self._learning
        if learning is None or learning.done() or learning.get_loop() is not loop:
            if self.dialler.table.is_fresh(time.monotonic()) and not self.dialler.table.is_doubted:
                return
            learning = self._learning = loop.create_task(self._ask_nodes())
            # Whoever wanted it may not wait for it any more.
            learning.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([learning], timeout=journey.left_ms(time.monotonic()) / 1000)
        if not learning.done():
            raise nobody_answered(self.dialler.where, ())
        if learning.cancelled():
            raise closed(self.dialler.where)
        learning.result()

    async def _ask_nodes(self) -> None:
        table, errors = self.dialler.table, list[DriverError]()
        for address in table.candidates([dice() for _ in range(16)]):
            limit_ms, begun_s = ask_ms(self.dialler.options, table), time.monotonic()
            try:
                reply = await self._ask(address, limit_ms)
            except DriverError as error:
                errors.append(error)
                table.note_failure(time.monotonic() - begun_s, limit_ms)
            else:
                if table.learn(reply, address, time.monotonic()):
                    self._forget_gone()
                    return
        raise nobody_answered(self.dialler.where, errors)

    async def _ask(self, address: Address, limit_ms: int) -> Any:
        lane = Lane(self.dialler.at(address), gives_up=True)
        try:
            return await lane.send(ASK_SLOTS, deadline_ms=limit_ms)
        finally:
            await lane.close()

    def _forget_gone(self) -> None:
        """Let go of nodes that left the cluster; what is under way to them keeps its lane until it is done."""
        for address in set(self._lanes) - set(self.dialler.table.nodes):
            del self._lanes[address]
