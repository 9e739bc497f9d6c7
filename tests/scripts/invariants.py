"""What holds of sound queues besides :func:`differential.soundness.unsound`: locks, families, nothing left behind."""

from collections.abc import Iterator, Sequence

from differential.soundness import unsound
from differential.world import QUEUES
from vectors.keyspace import Keyspace

__all__ = ["CHILDLESS", "faults"]

CHILDLESS = "waits for no child"


def _locks(keyspace: Keyspace, queues: Sequence[str]) -> Iterator[tuple[str, str]]:
    for queue in queues:
        active = keyspace.get(f"{queue}:active", {"value": []})["value"]
        for key in keyspace:
            if key.startswith(f"{queue}:") and key.endswith(":lock"):
                job_id = key[len(queue) + 1 : -len(":lock")]
                if job_id not in active:
                    yield key, "locks a job that is not active"


def _families(keyspace: Keyspace, queues: Sequence[str]) -> Iterator[tuple[str, str]]:
    completed = _completed(keyspace, queues)
    for key, entry in keyspace.items():
        parent = key.removesuffix(":dependencies")
        if parent == key:
            continue
        if parent not in keyspace:
            yield key, "belongs to no parent"
        for child in entry["value"]:
            fields = keyspace.get(child, {"value": {}})["value"]
            if fields and fields.get("parentKey") != parent:
                yield f"{key} {child}", "is a child that does not know this parent"
            if fields and child in completed:
                yield f"{key} {child}", "is awaited though it has completed"
    for queue in queues:
        for job_id, _ in keyspace.get(f"{queue}:waiting-children", {"value": []})["value"]:
            if f"{queue}:{job_id}:dependencies" not in keyspace:
                yield f"{queue}:{job_id}", CHILDLESS


def _orphans(keyspace: Keyspace, queues: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key in keyspace:
        job, _, what = key.rpartition(":")
        # A family outlives the hash of a parent that others removed; see _families.
        if what in ("lock", "logs") and job.startswith(tuple(f"{queue}:" for queue in queues)) and job not in keyspace:
            yield key, "belongs to no job"


def _completed(keyspace: Keyspace, queues: Sequence[str]) -> set[str]:
    return {
        f"{queue}:{job_id}"
        for queue in queues
        for job_id, _ in keyspace.get(f"{queue}:completed", {"value": []})["value"]
    }


def faults(keyspace: Keyspace, queues: Sequence[str] = QUEUES) -> dict[str, str]:
    """What is wrong, by key; empty when all is well.

    Each id is in one state, each id has a hash and the reverse; only active jobs are
    locked; parents and children know of each other; locks and logs belong to a job.

    Args:
        keyspace: All keys.
        queues: Qualified names of the queues to look at, ``"bull:mail"``.
    """
    found = unsound(keyspace, queues)
    for look in (_locks, _families, _orphans):
        found.update(look(keyspace, queues))
    return found
