"""What holds of every queue that nobody has damaged, whatever was called."""

from collections.abc import Iterable, Iterator

from differential.world import QUEUES
from vectors.keyspace import Keyspace

__all__ = ["unsound"]

_STATES = ("wait", "paused", "active", "delayed", "prioritized", "waiting-children", "completed", "failed")
_OTHER_HASHES = ("meta", "metrics:", "dn:")
_SUB_KEYS = (":processed", ":failed")


def _ids(keyspace: Keyspace, key: str) -> list[str]:
    if key not in keyspace:
        return []
    return [item if isinstance(item, str) else item[0] for item in keyspace[key]["value"]]


def _of_places(keyspace: Keyspace, queue: str, places: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Fill ``places`` with the state of each id, and tell what is wrong with them."""
    for state in _STATES:
        for job_id in _ids(keyspace, f"{queue}:{state}"):
            if job_id.startswith("0:"):
                continue
            if job_id in places:
                yield f"{queue}:{job_id}", f"is in {places[job_id]} and in {state}"
            places[job_id] = state
            if f"{queue}:{job_id}" not in keyspace:
                yield f"{queue}:{job_id}", "has no hash"


def _of_hashes(keyspace: Keyspace, queue: str, places: dict[str, str]) -> Iterator[tuple[str, str]]:
    head = f"{queue}:"
    for key, entry in keyspace.items():
        name = key[len(head) :] if key.startswith(head) else ""
        if entry["type"] != "hash" or not name or name.startswith(_OTHER_HASHES) or name.endswith(_SUB_KEYS):
            continue
        if "ic" in entry["value"]:  # a scheduler
            continue
        if "name" not in entry["value"]:
            yield key, "is half a job"
        if name not in places:
            yield key, "is a job in no state"


def unsound(keyspace: Keyspace, queues: Iterable[str] = QUEUES) -> dict[str, str]:
    """Job keys with which something is wrong, and what; empty when all is well.

    Each id is in one state, each id has a hash with a name, and the reverse.
    """
    found: dict[str, str] = {}
    for queue in queues:
        places: dict[str, str] = {}
        found.update(_of_places(keyspace, queue, places))
        found.update(_of_hashes(keyspace, queue, places))
    return found
