"""Which masters a cluster has, and by what key each of them is asked.

A request without a key reaches any node of a cluster, so that each is asked
near a key of its own.

Source: https://redis.io/docs/latest/commands/cluster-slots/
"""

from collections.abc import Sequence
from itertools import count

import attrs

from echomq.call import Batch, Reply
from echomq.errors import EchoMQError
from echomq.hash_slots import SLOT_COUNT, key_slot
from echomq.plans import Plan

from .asking import as_text, raw, read_info

__all__ = ["APART", "Layout", "Master", "find_masters"]

APART = ("{0}", "{1}", "{2}", "{3}")
"""Keys a quarter of all slots apart: where one master hangs, another one tells."""


@attrs.frozen(kw_only=True)
class Master:
    """A node that serves slots.

    Attributes:
        where: Its address, as the cluster announces it: ``"10.0.0.7:6379"``.
        near: A key on one of its slots: a hash tag alone.
        slots: First and last slot of each range that it serves.
        replica_count: Replicas that the cluster counts on.
    """

    where: str
    near: str
    slots: tuple[tuple[int, int], ...]
    replica_count: int

    def owns(self, key: str) -> bool:
        """Tell whether a key lives there."""
        slot = key_slot(key)
        return any(first <= slot <= last for first, last in self.slots)


@attrs.frozen(kw_only=True)
class Layout:
    """A cluster.

    Attributes:
        masters: By their first slots.
        unserved_count: Slots that nobody serves.
    """

    masters: tuple[Master, ...]
    unserved_count: int


def find_masters(near: str | None = None) -> Plan[Layout | None]:
    """Ask who serves a cluster.

    Args:
        near: The key whose master is asked; None asks any. See :data:`APART`.

    Returns:
        None on a server that is no cluster, or does not tell.
    """
    (told,) = yield Batch(requests=(raw("INFO", "cluster", near=near),))
    if isinstance(told, EchoMQError) or read_info(told).get("cluster_enabled", "").strip() != "1":
        return None
    (places,) = yield Batch(requests=(raw("CLUSTER", "SLOTS", near=near),))
    return None if isinstance(places, EchoMQError) else _layout(places)


def _layout(reply: Reply) -> Layout | None:
    # By address and id: nodes that announce no host may share a port.
    slots: dict[tuple[str, str], list[tuple[int, int]]] = {}
    replicas: dict[tuple[str, str], int] = {}
    try:
        for first, last, (host, port, *rest), *others in reply:
            node = f"{as_text(host) or '?'}:{int(port)}", as_text(rest[0]) if rest else ""
            slots.setdefault(node, []).append((int(first), int(last)))
            replicas[node] = min(replicas.get(node, len(others)), len(others))
    except (TypeError, ValueError):
        return None
    keys = _keys(list(slots.values()))
    masters = (
        Master(where=node[0], near=key, slots=tuple(ranges), replica_count=replicas[node])
        for (node, ranges), key in zip(slots.items(), keys, strict=True)
    )
    served = sum(last - first + 1 for ranges in slots.values() for first, last in ranges)
    return Layout(masters=tuple(masters), unserved_count=SLOT_COUNT - served) if slots else None


def _keys(wanted: Sequence[Sequence[tuple[int, int]]]) -> list[str]:
    """Return a hash tag for each set of slots, by trying: each slot is hit sooner or later."""
    owners = {slot: at for at, ranges in enumerate(wanted) for first, last in ranges for slot in range(first, last + 1)}
    found: dict[int, str] = {}
    for number in count():
        if len(found) == len(wanted):
            break
        key = f"{{{number}}}"
        at = owners.get(key_slot(key))
        if at is not None:
            found.setdefault(at, key)
    return [found[at] for at in range(len(wanted))]
