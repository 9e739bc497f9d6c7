"""Where keys live in a cluster, and which queues one can hold. Pure.

A cluster spreads keys over 16384 slots, and serves a script or a transaction
only if all its keys share one. Hence all keys of a queue need the same hash tag,
the part between the first braces: of ``{bull}:mail:wait`` only ``bull`` counts.
Queues that meet in a flow need the same tag as well.

Source: protocol spec 05 section 1, cluster; 01 section 2.
"""

import binascii
from collections.abc import Iterable
from functools import lru_cache

from .errors import UsageError
from .job import Job
from .keys import Keys

__all__ = ["SLOT_COUNT", "check_queue", "check_together", "hash_tag", "key_slot"]

SLOT_COUNT = 16384


def hash_tag(key: str) -> str | None:
    """Return the part of a key between its first braces; None if there is none, or nothing in them."""
    _, opened, rest = key.partition("{")
    tag, closed, _ = rest.partition("}")
    return tag if opened and closed and tag else None


def key_slot(key: str) -> int:
    """Return the slot of a key: of its hash tag, if it has one."""
    return _slot(hash_tag(key) or key)


@lru_cache(maxsize=4096)
def _slot(tag: str) -> int:
    return binascii.crc_hqx(tag.encode("utf-8", "surrogatepass"), 0) % SLOT_COUNT


def check_queue(keys: Keys) -> None:
    """Refuse a queue whose keys a cluster would spread.

    Raises:
        UsageError: It has no hash tag; says where to put one.
    """
    if hash_tag(keys.base) is None:
        raise UsageError(
            f"queue {keys.qualified_name!r} has no hash tag, and a cluster would spread its keys over many nodes; put "
            f"braces around the prefix, '{{{keys.prefix}}}' (all queues on one node, where flows can join them), or "
            f"around the name, '{{{keys.queue}}}' (each queue on a node of its own)"
        )


def check_together(jobs: Iterable[Job]) -> None:
    """Refuse jobs that a cluster cannot hold: a child lives on the slot of its parent.

    Raises:
        UsageError: A job's queue has no hash tag, or another one than that of its parent; names both queues.
    """
    for job in jobs:
        check_queue(job.keys)
        parent = job.options.parent
        if parent is not None and key_slot(parent.queue) != key_slot(job.keys.base):
            raise UsageError(
                f"queues {parent.queue!r} (of the parent) and {job.keys.qualified_name!r} (of the child) live on "
                "different slots of the cluster; give both the same hash tag, such as the prefix '{bull}'"
            )
