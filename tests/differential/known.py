"""Where our scripts differ from the original on purpose: one table, with reasons.

A difference that no entry covers fails the differential test. An entry looks at
the whole outcome and says yes only to the difference it is about, so that it
asserts what we do instead. ``lua/README.md`` tells of each why no correct client
is affected.
"""

from collections.abc import Callable
from typing import Any

import attrs

from differential.steps import Call
from differential.world import QUEUES
from vectors.keyspace import Keyspace

__all__ = ["KNOWN", "Outcome", "is_known"]

ERROR = {"$error": True}


@attrs.frozen(kw_only=True)
class Outcome:
    """A call whose replies or keyspaces may differ.

    Attributes:
        step: The call.
        before: The keyspace both had.
        reply_original: What the original replied.
        reply_ours: What ours replied.
        error: Texts of error replies.
        original: Keyspace after the original.
        ours: Keyspace after ours.
        keys: Keys that differ.
        same_reply: False when the replies differ.
    """

    step: Call
    before: Keyspace
    reply_original: Any
    reply_ours: Any
    error: str
    original: Keyspace
    ours: Keyspace
    keys: tuple[str, ...]
    same_reply: bool

    @property
    def untouched(self) -> bool:
        """Ours wrote nothing."""
        return _values(self.ours) == _values(self.before)

    def told(self) -> str:
        """What differs, as text."""
        lines = [f"{self.step!r}", f"  {self.error}"]
        if not self.same_reply:
            lines.append(f"  reply: original {self.reply_original!r}, ours {self.reply_ours!r}")
        for key in self.keys:
            lines.append(f"  {key}:")
            for name, side in (("before", self.before), ("original", self.original), ("ours", self.ours)):
                lines.append(f"    {name:9}{side.get(key)}")
        return "\n".join(lines)


def _values(keyspace: Keyspace) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in keyspace.items()}


def _as_before(outcome: Outcome, key: str) -> bool:
    return outcome.ours.get(key, {}).get("value") == outcome.before.get(key, {}).get("value")


def _without(entry: dict[str, Any], *fields: str) -> dict[str, str]:
    value = entry.get("value", {})
    return {name: text for name, text in value.items() if name not in fields} if isinstance(value, dict) else {}


def _queue(outcome: Outcome) -> str:
    """Prefix of the queue whose call it is."""
    return outcome.step.keys[0].rpartition(":")[0] if outcome.step.keys[0][-1] != ":" else outcome.step.keys[0][:-1]


def _refused(outcome: Outcome) -> bool:
    """Keys that differ are as before; retryJob has promoted delayed jobs all the same, its own among them."""
    if outcome.step.script not in {"moveToFinished", "retryJob", "moveToDelayed", "moveToWaitingChildren"}:
        return False
    if outcome.reply_ours not in (-1, -3) or not outcome.same_reply:
        return False
    job = outcome.step.keys[3]
    promoted = (
        outcome.step.script == "retryJob"
        and job in outcome.ours
        and _without(outcome.ours[job], "delay") == _without(outcome.before.get(job, {}), "delay")
    )
    return all(_as_before(outcome, key) or (promoted and key == job) for key in outcome.keys)


def _refused_arguments(outcome: Outcome) -> bool:
    return outcome.reply_ours == ERROR and outcome.untouched and outcome.reply_original == ERROR


def _drained_by_value(outcome: Outcome) -> bool:
    if outcome.step.script != "drain" or not set(outcome.keys) <= set(outcome.step.keys[:2]):
        return False
    slots = outcome.before.get(outcome.step.keys[4], {}).get("value", [])
    spared = {f"repeat:{name}:{slot}" for name, slot in slots}
    return all(
        outcome.ours.get(key, {}).get("value", []) == [item for item in outcome.before[key]["value"] if item in spared]
        for key in outcome.keys
    )


def _woken(outcome: Outcome) -> bool:
    if outcome.step.script != "moveJobFromActiveToWait" or outcome.keys != (outcome.step.keys[7],):
        return False
    marker = outcome.keys[0]
    return ["0", "0"] in outcome.ours[marker]["value"] and outcome.same_reply


def _failure_forgotten(outcome: Outcome) -> bool:
    """The hashes that differ do so in a failure decided elsewhere, of a job that has completed or starts afresh."""
    return (
        outcome.step.script in {"moveToFinished", "reprocessJob"}
        and outcome.same_reply
        and all(
            "defa" in outcome.original.get(key, {}).get("value", ())
            and _without(outcome.original[key], "defa") == outcome.ours.get(key, {}).get("value")
            for key in outcome.keys
        )
    )


def _no_lost_parent(outcome: Outcome) -> bool:
    """Only records below a job that no longer exists differ, and ours are as before."""
    return outcome.same_reply and all(
        key.endswith((":processed", ":unsuccessful", ":failed"))
        and key.rpartition(":")[0] not in outcome.before
        and _as_before(outcome, key)
        for key in outcome.keys
    )


def _oldest_first(outcome: Outcome) -> bool:
    """Both removed as many, ours the older ones."""
    if outcome.step.script != "moveToFinished" or "limit" not in outcome.step.args[7].value["keepJobs"]:
        return False
    kept = outcome.step.keys[10]
    original, ours = (side.get(kept, {}).get("value", []) for side in (outcome.original, outcome.ours))
    return len(original) == len(ours) and [float(score) for _, score in ours] >= [float(score) for _, score in original]


def _orphans_dropped(outcome: Outcome) -> bool:
    """An id without a hash stood in the queue; ours neither hands it out nor makes a hash of it."""
    queue = _queue(outcome)
    ids = {
        item if isinstance(item, str) else item[0]
        for state in ("wait", "active", "delayed", "prioritized")
        for item in outcome.before.get(f"{queue}:{state}", {}).get("value", [])
    }
    orphans = {f"{queue}:{job_id}" for job_id in ids} - outcome.before.keys()
    return bool(orphans) and not orphans & outcome.ours.keys()


def _colons_found(outcome: Outcome) -> bool:
    """An id of a family holds colons; ours writes nothing for a queue that does not exist."""
    relatives = {
        key
        for entry in outcome.before.values()
        if entry["type"] in {"hash", "set"}
        for key in ([entry["value"].get("parentKey", "")] if entry["type"] == "hash" else entry["value"])
    }
    with_colons = any(
        key.startswith(f"{queue}:") and ":" in key[len(queue) + 1 :] for key in relatives for queue in QUEUES
    )
    logs = {f"{queue}:{name}" for queue in QUEUES for name in ("events", "meta")}
    return with_colons and all(key in logs for key in outcome.ours if key.endswith((":events", ":meta")))


def _running_slot(outcome: Outcome) -> bool:
    """A worker holds the job of the slot that an upsert asks for; ours leaves it alone."""
    if outcome.step.script != "addJobScheduler" or outcome.reply_ours != -10 or not outcome.untouched:
        return False
    slot, scheduler = outcome.step.args[0], outcome.step.args[2]
    return f"{_queue(outcome)}:repeat:{scheduler}:{slot}:lock" in outcome.before


KNOWN: dict[str, Callable[[Outcome], bool]] = {
    "a refused call keeps lock and fields": _refused,
    "arguments are checked before the first write": _refused_arguments,
    "drain removes by value": _drained_by_value,
    "a prioritized job given back wakes a worker": _woken,
    "completion and a new run forget a failure decided elsewhere": _failure_forgotten,
    "nothing is recorded at a parent that is gone": _no_lost_parent,
    "of expired jobs the oldest go first": _oldest_first,
    "ids without a hash are dropped": _orphans_dropped,
    "ids with colons are found in flows": _colons_found,
    "a running job is not added again by its scheduler": _running_slot,
}


def is_known(outcome: Outcome) -> str:
    """Reason of the declared deviation that covers the outcome, or nothing."""
    return next((reason for reason, covers in KNOWN.items() if covers(outcome)), "")
