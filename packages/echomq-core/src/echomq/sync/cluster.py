"""The blocking connection to a cluster: a link to each node that is used, shared by threads.

The blocking twin of :mod:`echomq.aio.cluster`.

Source: design.md section 4.
"""

import os
import threading
import time
from collections.abc import Callable
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
from echomq.driver import Address, ConnectionOptions, ServerInfo
from echomq.errors import DriverError, EchoMQError, ServerNotReady, ServerRefused
from echomq.exchange import parse_info
from echomq.links import closed

from .exclusive import Exclusive
from .link import Dialler, Link

__all__ = ["ClusterDialler", "ClusterLink"]

T = TypeVar("T")

_Carry: TypeAlias = Callable[[Link, bool, int], T]
"""Sends something by a link, after ASKING or not, within some milliseconds."""


class ClusterDialler(Protocol):
    """What a driver gives to make links to the nodes of a cluster.

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


@attrs.define(eq=False)
class ClusterLink:
    """A :class:`~echomq.driver.Connection` to the nodes of a cluster.

    Attributes:
        dialler: Makes the sockets.
        name: For CLIENT LIST, or None.
        is_single: Only one node is used at a time: a link to another one ends the last.
    """

    dialler: ClusterDialler
    name: str | None = None
    is_single: bool = False
    _links: dict[Address, Link] = attrs.field(init=False, factory=dict)
    _learning: Exclusive = attrs.field(init=False, factory=Exclusive)
    _pid: int = attrs.field(init=False, factory=os.getpid)
    _closed: threading.Event = attrs.field(init=False, factory=threading.Event)
    _server: ServerInfo | None = attrs.field(init=False, default=None)

    @property
    def is_cluster(self) -> bool:
        """See :attr:`echomq.driver.Connection.is_cluster`."""
        return True

    def send(self, request: Request[T], *, deadline_ms: int | None = None) -> T:
        """See :meth:`echomq.driver.Connection.send`."""
        block_ms = request.block_ms if isinstance(request, Command) else 0
        safe = guarded(request)

        def carry(link: Link, asking: bool, left_ms: int) -> T:
            if not asking:
                return link.send(safe, deadline_ms=max(1, left_ms - block_ms))
            _, outcome = link.send_batch(Batch(requests=(ASKING, request)), deadline_ms=left_ms)
            if isinstance(outcome, EchoMQError):
                raise outcome
            return outcome  # type: ignore[no-any-return]  # a batch does not know what its items decode to

        return self._carried(self._journey(slot_of(request), deadline_ms, block_ms, can_ask=can_ask(request)), carry)

    def send_batch(self, batch: Batch, *, deadline_ms: int | None = None) -> list[Any]:
        """See :meth:`echomq.driver.Connection.send_batch`; what is not atomic is split by slot."""
        outcomes: list[Any] = [None] * len(batch.requests)
        problem: DriverError | None = None
        for slot, places in slots_of(batch).items():
            try:
                self._send_group(batch, slot, places, outcomes, deadline_ms)
            except DriverError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return outcomes

    def _send_group(
        self, batch: Batch, slot: int | None, places: list[int], outcomes: list[Any], deadline_ms: int | None
    ) -> None:
        """Send those requests of a batch that share a slot, until none of them is turned away."""

        def carry(link: Link, _: bool, left_ms: int) -> None:
            requests = tuple(guarded(batch.requests[place]) for place in places)
            found = link.send_batch(Batch(requests=requests, atomic=batch.atomic), deadline_ms=left_ms)
            for place, outcome in zip(places, found, strict=True):
                outcomes[place] = outcome
            places[:] = [place for place in places if redirected(outcomes[place])]
            if places:
                raise outcomes[places[0]]

        try:
            self._carried(self._journey(slot, deadline_ms, 0, can_ask=False), carry)
        except ServerRefused as error:
            if batch.atomic or any(outcomes[place] is None for place in places):
                raise
            for place in places:
                outcomes[place] = error

    def post(self, batch: Batch) -> bool:
        """See :meth:`Link.post`; for requests to one slot, whose owner does not answer."""
        slots = list(slots_of(batch))
        try:
            link = self._links.get(self.dialler.table.owner(slots[0])) if len(slots) == 1 else None
        except ServerNotReady:  # nobody owns it
            link = None
        return link is not None and link.post(batch)

    def server(self) -> ServerInfo:
        """See :meth:`echomq.driver.Connection.server`; any node answers."""
        if self._server is None:
            self._server = self.send(Command(parts=("INFO",), decode=parse_info, repeatable=True))
        return self._server

    def dedicated(self, *, name: str | None = None) -> "ClusterLink":
        """See :meth:`echomq.driver.Connection.dedicated`."""
        return ClusterLink(self.dialler, name, is_single=True)

    def close(self) -> None:
        """See :meth:`echomq.driver.Connection.close`."""
        self._closed.set()
        for link in list(self._links.values()):
            link.close()

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

    def _carried(self, journey: Journey, carry: _Carry[T]) -> T:
        step, table = FIRST, self.dialler.table
        while True:
            node: Address | None = None
            try:
                if step.rest_s:
                    self._closed.wait(step.rest_s)
                if step.learn or table.is_doubted:
                    self._learn(journey)
                node = step.node or table.owner(journey.slot)
                return carry(self._link(node), step.asking, journey.left_ms(time.monotonic()))
            except DriverError as error:
                step = journey.after(error, node, time.monotonic(), dice())

    def _link(self, node: Address) -> Link:
        if self._closed.is_set():
            raise closed(self.dialler.where)
        link = self._links.get(node)
        if link is None:
            if self.is_single:
                self._links.clear()  # a link that nobody has closes its socket
            # Two threads may make one each; one of them is taken, the other was never opened.
            link = self._links.setdefault(node, Link(self.dialler.at(node), self.name, gives_up=True))
            if self._closed.is_set():
                link.close()
        return link

    # -- who owns what -------------------------------------------------------------------------

    def _learn(self, journey: Journey) -> None:
        """Ask for the table; threads that want it at once wait for one answer."""
        if self._pid != os.getpid():  # whoever held the lock in the parent is not here
            self._learning, self._pid = Exclusive(), os.getpid()
        wait_s = journey.left_ms(time.monotonic()) / 1000
        self._learning.do(self._ask_nodes, wait_s=wait_s, late=lambda: nobody_answered(self.dialler.where, ()))

    def _ask_nodes(self) -> None:
        table, errors = self.dialler.table, list[DriverError]()
        if not table.is_doubted and table.is_fresh(time.monotonic()):
            return  # somebody has asked meanwhile
        for address in table.candidates([dice() for _ in range(16)]):
            if self._closed.is_set():
                raise closed(self.dialler.where)
            limit_ms, begun_s = ask_ms(self.dialler.options, table), time.monotonic()
            try:
                reply = self._ask(address, limit_ms)
            except DriverError as error:
                errors.append(error)
                table.note_failure(time.monotonic() - begun_s, limit_ms)
            else:
                if table.learn(reply, address, time.monotonic()):
                    self._forget_gone()
                    return
        raise nobody_answered(self.dialler.where, errors)

    def _ask(self, address: Address, limit_ms: int) -> Any:
        link = Link(self.dialler.at(address), gives_up=True)
        try:
            return link.send(ASK_SLOTS, deadline_ms=limit_ms)
        finally:
            link.close()

    def _forget_gone(self) -> None:
        """Let go of nodes that left the cluster; what is under way to them keeps its link until it is done."""
        for address in set(self._links) - set(self.dialler.table.nodes):
            self._links.pop(address, None)
