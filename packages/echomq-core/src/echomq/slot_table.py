"""Who owns which slot of a cluster, as far as is known. Pure."""

from collections.abc import Sequence

import attrs

from .call import Command, Reply
from .driver import Address
from .errors import ProtocolError, ServerNotReady
from .hash_slots import SLOT_COUNT

__all__ = ["ASK_SLOTS", "FRESH_S", "SlotTable", "host_told"]

FRESH_S = 0.1
"""A table this young is not asked for again, however many requests want it."""


def _same(reply: Reply) -> Reply:
    return reply


ASK_SLOTS: Command[Reply] = Command(parts=("CLUSTER", "SLOTS"), decode=_same, repeatable=True)
"""Asks a node who owns which slots; the reply goes to :meth:`SlotTable.learn`."""


@attrs.define(eq=False)
class SlotTable:
    """Who owns which slot, as far as is known; shared by all connections made from one source.

    Attributes:
        seeds: Nodes that the user named.
        nodes: All nodes that were heard of, replicas too.
        is_doubted: A node could not be reached: ask before the next request.
        learned_at_s: When it was last learned, on a monotonic clock.
        unanswered: How many nodes were asked for it since, and did not answer in time.
    """

    seeds: tuple[Address, ...]
    nodes: tuple[Address, ...] = ()
    is_doubted: bool = True
    learned_at_s: float = float("-inf")
    unanswered: int = 0
    _owners: list[Address | None] = attrs.field(factory=lambda: [None] * SLOT_COUNT)

    def owner(self, slot: int | None) -> Address:
        """Return who owns a slot; any master where no slot is given.

        Raises:
            ServerNotReady: Nobody does.
        """
        found = self._owners[slot] if slot is not None else next((one for one in self._owners if one), None)
        if found is None:
            where = "no slot" if slot is None else f"slot {slot}"
            raise ServerNotReady(f"CLUSTERDOWN {where} of the cluster is served by a node", prefix="CLUSTERDOWN")
        return found

    def candidates(self, dice: Sequence[float]) -> list[Address]:
        """Return whom to ask for the table, each once: known nodes in an order of chance, then the seeds.

        Args:
            dice: Random numbers from 0 to 1, at least one.
        """
        ranked = sorted(enumerate(self.nodes), key=lambda one: dice[one[0] % len(dice)])
        return list(dict.fromkeys([*(address for _, address in ranked), *self.seeds]))

    def learn(self, reply: Reply, asked: Address, now_s: float) -> bool:
        """Take over the answer to CLUSTER SLOTS; False if it names no owner.

        Args:
            reply: As it came.
            asked: Who answered: nodes without a host of their own are at this one's.
            now_s: On a monotonic clock.
        """
        owners: list[Address | None] = [None] * SLOT_COUNT
        nodes: dict[Address, None] = {}
        try:
            for first, last, *places in reply:
                found = [Address(host_told(place[0], asked), int(place[1])) for place in places]
                owners[first : last + 1] = [found[0]] * (last + 1 - first)
                nodes.update(dict.fromkeys(found))
        except (TypeError, ValueError, IndexError) as error:
            raise ProtocolError(f"{asked} answered CLUSTER SLOTS by {reply!r:.200}") from error
        if not nodes:
            return False
        self._owners, self.nodes = owners, tuple(nodes)
        self.is_doubted, self.learned_at_s, self.unanswered = False, now_s, 0
        return True

    def note_failure(self, took_s: float, limit_ms: int) -> None:
        """Note that a node did not tell the table; one that took nearly all its time may be slow, and not dead."""
        self.unanswered += took_s * 1000 >= 0.9 * limit_ms

    def is_fresh(self, now_s: float) -> bool:
        """Tell whether asking again would only burden the cluster."""
        return now_s - self.learned_at_s < FRESH_S

    def doubt(self, now_s: float) -> None:
        """Note that a node could not be reached: whoever sends next asks for the table first."""
        self.is_doubted = self.is_doubted or not self.is_fresh(now_s)

    def move(self, slot: int, owner: Address) -> None:
        """Note that a node said who else owns a slot."""
        self._owners[slot] = owner
        if owner not in self.nodes:
            self.nodes = (*self.nodes, owner)


def host_told(told: object, asked: Address) -> str:
    """Return a host as a node tells it; its own where it leaves that out."""
    host = told.decode() if isinstance(told, bytes) else str(told or "")
    return asked.host if host in {"", "?"} else host
