"""Where our scripts do better than the recorded system, vector by vector.

A vector is played as recorded unless it stands here; then what is said here is
what we answer and leave instead, and everything else must still be as recorded.
``lua/README.md`` tells for each why no correct client is affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEVIATIONS", "Deviation"]

AS_RECORDED = object()
AS_BEFORE = object()
GONE = object()

Keyspace = dict[str, dict[str, Any]]


@attrs.frozen(kw_only=True)
class Deviation:
    """What we do instead.

    Attributes:
        reason: What ours does, and so what the original does wrong.
        reply: Our reply.
        untouched: True when ours writes nothing at all.
        keys: How keys end: ``AS_BEFORE`` the call, ``GONE``, or a value of the recorded type.
        no_fields: Fields that a recorded hash has at the end and ours has not.
        events: What the call adds to a stream.
    """

    reason: str
    reply: Any = AS_RECORDED
    untouched: bool = False
    keys: Mapping[str, Any] = attrs.field(factory=dict)
    no_fields: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    events: Mapping[str, list[list[str]]] = attrs.field(factory=dict)

    def expected(self, vector: Mapping[str, Any]) -> tuple[Any, Keyspace]:
        """Reply and keyspace after the call, in the form of a vector."""
        before: Keyspace = vector["state"]
        after: Keyspace = dict(before if self.untouched else vector["after"])
        for key, end in self.keys.items():
            entry = before.get(key) if end is AS_BEFORE else end
            if end is GONE or entry is None:
                after.pop(key, None)
            else:
                after[key] = entry
        for key, fields in self.no_fields.items():
            kept = {field: text for field, text in after[key]["value"].items() if field not in fields}
            after[key] = {**after[key], "value": kept}
        for key, added in self.events.items():
            entries = [*before.get(key, {"value": []})["value"], *added]
            after[key] = {"type": "stream", "value": entries}
        return (vector["reply"] if self.reply is AS_RECORDED else self.reply), after


def _list(*ids: str) -> dict[str, Any]:
    return {"type": "list", "value": list(ids)}


def _zset(**scores: str) -> dict[str, Any]:
    return {"type": "zset", "value": [list(pair) for pair in scores.items()]}


_REFUSED = Deviation(reason="A refused call writes nothing; the original had released the lock by then", untouched=True)

DEVIATIONS: dict[str, Deviation] = {
    # Management
    "clean-wait-string-comparison": Deviation(
        reason="Times are compared as numbers: a job of the year 1970 is older than one of today",
        reply=["a"],
        keys={"bull:q:a": GONE, "bull:q:wait": GONE},
        events={"bull:q:events": [["event", "cleaned", "count", "1"]]},
    ),
    "drain-scheduler-job-in-wait-not-last": Deviation(
        reason="The removed ids leave the list, not as many ids from its head: the scheduler's job keeps its place",
        keys={"bull:q:wait": _list("repeat:s1:1700000000000")},
    ),
    "remove-child-id-with-colons": Deviation(
        reason="A child whose id holds colons is found, and nothing is written for a queue that does not exist",
        keys={"bull:q2:a:b:events": GONE, "bull:q2:a:b:meta": GONE, "bull:q2:wait": GONE},
        events={"bull:q2:events": [["event", "removed", "jobId", "a:b:c", "prev", "wait"]]},
    ),
    # A refused call
    "moveToFinished-err-not-active": _REFUSED,
    "moveToDelayed-err-not-active": _REFUSED,
    "moveToWaitingChildren-err-not-active": _REFUSED,
    "retryJob-err-not-active": _REFUSED,
    "retryJob-err-missing": Deviation(
        reason="A refused call promotes no delayed jobs; the next fetch does", untouched=True
    ),
    # Arguments that no correct client sends
    "addLog-keep-zero": Deviation(
        reason="Keeping no rows is refused before the row is stored, on every server", untouched=True
    ),
    "moveToActive-queue-max-without-duration": Deviation(
        reason="A rate limit without a duration is refused before a job is taken", untouched=True
    ),
    "moveToFinished-attempts-absent": Deviation(
        reason="Missing options are refused before the job is moved", untouched=True
    ),
    # Ids without a hash
    "moveToActive-missing-hash": Deviation(
        reason="An id without a hash is dropped, not handed out as a job without name and data",
        reply=[0, 0, 0, 0],
        keys={
            "bull:q:active": GONE,
            "bull:q:events": GONE,
            "bull:q:ghost": GONE,
            "bull:q:ghost:lock": GONE,
            "bull:q:marker": GONE,
        },
    ),
    "moveStalledJobsToWait-missing-hash": Deviation(
        reason="An id without a hash is dropped, not put back into wait",
        reply=[],
        keys={"bull:q:events": GONE, "bull:q:ghost": GONE, "bull:q:marker": GONE, "bull:q:wait": GONE},
    ),
    "moveToFinished-fetch-legacy-prio-marker-empty": Deviation(
        reason="The marker of a very old client with nothing behind it is an empty queue, not an error",
        reply=0,
        events={
            "bull:q:events": [
                ["event", "completed", "jobId", "1", "returnvalue", '"ok"', "prev", "active"],
                ["event", "drained"],
            ]
        },
    ),
    # Decided failures
    "moveToFinished-completed-keeps-defa": Deviation(
        reason="A job that completes keeps no failure decided earlier, so a later run of it is free",
        no_fields={"bull:q:1": ("defa",)},
    ),
    "flow-fpof-parent-completed": Deviation(
        reason="A parent that has completed is not marked as failing", no_fields={"bull:other:p1": ("defa",)}
    ),
    # Flows
    "flow-fpof-parent-missing": Deviation(
        reason="Nothing is recorded at a parent that no longer exists", keys={"bull:other:p1:unsuccessful": GONE}
    ),
    "flow-parent-hash-missing": Deviation(
        reason="Nothing is recorded at a parent that no longer exists", keys={"bull:other:p1:processed": GONE}
    ),
    "flow-parent-id-with-colons": Deviation(
        reason="A parent whose id holds colons is found and released",
        keys={
            "bull:other:waiting-children": GONE,
            "bull:other:wait": _list("a:b:c"),
            "bull:other:marker": _zset(**{"0": "0"}),
        },
        events={"bull:other:events": [["event", "waiting", "jobId", "a:b:c", "prev", "waiting-children"]]},
    ),
    "removeUnprocessedChildren-id-with-colons": Deviation(
        reason="A child whose id holds colons is found, and nothing is written for a queue that does not exist",
        keys={"bull:other:a:b:events": GONE, "bull:other:a:b:meta": GONE, "bull:other:wait": GONE},
        events={"bull:other:events": [["event", "removed", "jobId", "a:b:c", "prev", "wait"]]},
    ),
    # Order and wake-up
    "moveJobFromActiveToWait-prioritized": Deviation(
        reason="A prioritized job that is given back wakes an idle worker",
        keys={"bull:q:marker": _zset(**{"0": "0"})},
    ),
    "moveToFinished-keep-age-limit": Deviation(
        reason="Of more expired jobs than the limit the oldest go first",
        keys={
            "bull:q:1": GONE,
            "bull:q:4": AS_BEFORE,
            "bull:q:completed": _zset(
                **{"2": "1700000002000", "3": "1700000003000", "4": "1700000004000", "5": "1700000060000"}
            ),
        },
    ),
}
