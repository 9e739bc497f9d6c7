"""What several commands see of a queue at a moment."""

from collections.abc import Sequence

import attrs

from echomq import watching
from echomq.calls import query
from echomq.calls import queue as queue_calls
from echomq.calls.queue import QueueMeta
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import ServerRefused
from echomq.keys import Keys
from echomq.plans import ask_all
from echomq.states import JobState
from echomq.sync.run import perform

from .tables import COLOURS

__all__ = ["Look", "counted", "look"]


@attrs.frozen(kw_only=True)
class Look:
    """A queue at a moment.

    Attributes:
        keys: The queue.
        counts: State -> jobs in it.
        meta: Its settings.
        latency_ms: For how long the first in line has waited; 0 if none waits.
        workers: How many are connected; None if the server does not list its clients.
    """

    keys: Keys
    counts: dict[JobState, int]
    meta: QueueMeta
    latency_ms: int
    workers: int | None


def counted(connection: Connection, queues: Sequence[Keys]) -> list[tuple[dict[JobState, int], QueueMeta]]:
    """Count the jobs of queues and read their settings, in one round trip."""
    requests = [request for keys in queues for request in (query.get_counts(keys, COLOURS), queue_calls.get_meta(keys))]
    outcomes = perform(connection, ask_all(requests))
    return list(zip(outcomes[::2], outcomes[1::2], strict=True))


def look(connection: Connection, queues: Sequence[Keys]) -> list[Look]:
    """Look at queues."""
    found = zip(queues, counted(connection, queues), strict=True)
    return [
        Look(
            keys=keys,
            counts=counts,
            meta=meta,
            latency_ms=perform(connection, watching.latency(keys, wall_ms())),
            workers=_count_workers(connection, keys),
        )
        for keys, (counts, meta) in found
    ]


def _count_workers(connection: Connection, keys: Keys) -> int | None:
    try:
        return len(perform(connection, watching.workers(keys)))
    except ServerRefused:
        return None
