"""What was seen of a server and of a queue: values, without any judgement.

Source: issue "Operations", ``doctor``.
"""

from collections.abc import Mapping

import attrs

from echomq.keys import Keys

__all__ = ["PLACES", "Parent", "QueueFacts", "ServerFacts", "Standing"]

LISTS = ("active", "wait", "paused")
SETS = ("waiting-children", "prioritized", "delayed", "failed", "completed")
PLACES = (*LISTS, *SETS)
"""Keys that hold ids of jobs, by their names on the wire; the lists first."""


@attrs.frozen(kw_only=True)
class ServerFacts:
    """What a server tells of itself.

    Attributes:
        info: Fields of INFO.
        settings: Of CONFIG GET; empty where that is forbidden.
        refused: Commands that EchoMQ needs and this user may not run, each with the server's words.
        node: Its address, if it is a master of a cluster.
        silence: Why it could not be asked; None: it was.
    """

    info: Mapping[str, str]
    settings: Mapping[str, str]
    refused: Mapping[str, str]
    node: str | None = None
    silence: str | None = None


@attrs.frozen(kw_only=True)
class Standing:
    """Where one id stands, seen in a single moment.

    Attributes:
        job_id: The id.
        places: Lists and sets that hold it.
        is_job: Its key is a hash.
        lock_ms: Time left to its lock; -1: it never ends, -2: there is none.
    """

    job_id: str
    places: tuple[str, ...]
    is_job: bool
    lock_ms: int


@attrs.frozen(kw_only=True)
class Parent:
    """A job that waits for its children.

    Attributes:
        job_id: The id.
        waits_ms: For how long.
        pending_count: Children it waits for.
        lost: Keys of those that do not exist any more.
        failed: Keys of those that have failed.
    """

    job_id: str
    waits_ms: int
    pending_count: int
    lost: tuple[str, ...]
    failed: tuple[str, ...]


@attrs.frozen(kw_only=True)
class QueueFacts:
    """What was seen of a queue.

    Attributes:
        keys: The queue.
        now_ms: When.
        meta: Its settings, as stored.
        counts: Place -> ids in it.
        looked_at: Place -> ids that were looked at.
        unreadable: Key of the queue -> the server's words.
        event_count: Entries of its event log.
        worker_names: Of its workers, ``""`` for one without; None where the server does not tell.
        overdue_count: Delayed jobs whose time has come.
        oldest_due_ms: When the first of them was due; None for none.
        standings: Ids that looked odd.
        legacy_markers: Place -> entries that a very old client left there.
        parents: Parents that looked odd.
        stopped_schedulers: Job schedulers without a pending job.
        deduplication: Deduplication id -> job that holds it for ever, though it is gone or has finished.
        scanned_all: All keys of the server were gone through.
    """

    keys: Keys
    now_ms: int
    meta: Mapping[str, str] = attrs.field(factory=dict)
    counts: Mapping[str, int] = attrs.field(factory=dict)
    looked_at: Mapping[str, int] = attrs.field(factory=dict)
    unreadable: Mapping[str, str] = attrs.field(factory=dict)
    event_count: int = 0
    worker_names: tuple[str, ...] | None = ()
    overdue_count: int = 0
    oldest_due_ms: int | None = None
    standings: tuple[Standing, ...] = ()
    legacy_markers: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    parents: tuple[Parent, ...] = ()
    stopped_schedulers: tuple[str, ...] = ()
    deduplication: Mapping[str, str] = attrs.field(factory=dict)
    scanned_all: bool = False

    def count(self, *places: str) -> int:
        """Ids in some places."""
        return sum(self.counts.get(place, 0) for place in places)
