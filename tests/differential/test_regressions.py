"""Sequences worth keeping: one for each declared deviation, and those that once showed a difference.

What the search prints can be pasted here as it is.
"""

from typing import Any

import pytest

from differential.known import KNOWN
from differential.search import failure_of
from differential.steps import Call, Command, Pack, Step, call
from differential.twin import Twin

T = 1_700_000_000_000
Q = "bull:q"


def _add(job_id: str, script: str = "addStandardJob", parent: str = "", **options: Any) -> Step:
    parent_key = f"{Q}:{parent}" if parent else None
    parent_map = {"id": parent, "queueKey": Q} if parent else None
    head = [f"{Q}:", job_id, "n", T, parent_key, parent_key and f"{parent_key}:dependencies", parent_map]
    return call(Q, script, Pack(head), "{}", Pack({"attempts": 1, **options}))


def _take(now_ms: int = T) -> Step:
    return call(Q, "moveToActive", f"{Q}:", now_ms, Pack({"token": "tok", "lockDuration": 600_000}))


def _complete(job_id: str, now_ms: int = T, **keep: int) -> Step:
    options = {"token": "tok", "lockDuration": 600_000, "keepJobs": keep, "attempts": 1, "maxMetricsSize": ""}
    return call(
        Q, "moveToFinished", job_id, now_ms, "returnvalue", "1", "completed", "0", f"{Q}:", Pack(options),
        job=job_id, state="completed",
    )  # fmt: skip


def _scheduler() -> Step:
    every = {"every": 60_000}
    options = {"repeat": {**every, "count": 1}, "jobId": "repeat:s:undefined", "delay": 0, "repeatJobKey": "s"}
    return call(
        Q, "addJobScheduler", "", Pack({"name": "n", **every}), "s", "{}", Pack({}), Pack(options), T, f"{Q}:", ""
    )


def _pattern(slot_ms: int, now_ms: int) -> Step:
    options = {"repeat": {"pattern": "* * * * *"}, "repeatJobKey": "s"}
    record = Pack({"name": "n", "pattern": "* * * * *"})
    return call(
        Q, "addJobScheduler", str(slot_ms), record, "s", "{}", Pack({}), Pack(options), now_ms, f"{Q}:", ""
    )  # fmt: skip


DEVIATIONS: dict[str, list[Step]] = {
    "a refused call keeps lock and fields": [
        _add("a"),
        Command("SET", f"{Q}:a:lock", "tok", "PX", "600000"),
        _complete("a"),
    ],
    "arguments are checked before the first write": [_add("a"), Command("HSET", f"{Q}:meta", "max", "2"), _take()],
    "drain removes by value": [_add("a"), _scheduler(), call(Q, "drain", f"{Q}:", 0)],
    "a prioritized job given back wakes a worker": [
        _add("a", "addPrioritizedJob", priority=3),
        _take(),
        Command("ZREM", f"{Q}:marker", "0"),
        call(Q, "moveJobFromActiveToWait", "a", "tok", f"{Q}:a"),
    ],
    "completion and a new run forget a failure decided elsewhere": [
        _add("a"),
        _take(),
        Command("HSET", f"{Q}:a", "defa", "decided elsewhere"),
        _complete("a"),
    ],
    "nothing is recorded at a parent that is gone": [
        _add("p", "addParentJob"),
        _add("c", parent="p"),
        _take(),
        Command("DEL", f"{Q}:p"),
        _complete("c"),
    ],
    "of expired jobs the oldest go first": [
        *(step for at in range(4) for step in (_add(f"j{at}"), _take(T + at), _complete(f"j{at}", T + at))),
        _add("last"),
        _take(T + 60_000),
        _complete("last", T + 60_000, age=5, limit=2),
    ],
    "ids without a hash are dropped": [_add("a"), Command("DEL", f"{Q}:a"), _take()],
    "ids with colons are found in flows": [
        _add("a:b:c", "addParentJob"),
        _add("child", parent="a:b:c"),
        call(Q, "removeJob", "child", 0, f"{Q}:", job="child"),
    ],
    "a running job is not added again by its scheduler": [
        _pattern(T, T),
        _take(),
        _pattern(T + 60_000, T + 1),
        _pattern(T, T + 2),
    ],
}

FOUND: dict[str, list[Step]] = {
    "a flow released without a time": [
        _add("p", "addParentJob"),
        Call("releaseParentIfNoPendingDependencies", (f"{Q}:p", f"{Q}:p:dependencies"), (Q, "p"), faulty=True),
    ],
    "a removal whose key is another job": [
        _add("p", "addParentJob"),
        _add("c", parent="p"),
        Call("removeJob", (f"{Q}:c", f"{Q}:repeat"), ("x", "1", f"{Q}:"), faulty=True),
    ],
}


def test_each_deviation_has_a_sequence() -> None:
    """Every declared deviation is shown by a sequence of its own."""
    assert DEVIATIONS.keys() == KNOWN.keys()


@pytest.mark.parametrize("reason", DEVIATIONS)
def test_deviation(twin: Twin, reason: str) -> None:
    """Ours differs from the original as declared, and in nothing else."""
    assert failure_of(twin, DEVIATIONS[reason]) == ""
    assert list(twin.known_count) == [reason]


@pytest.mark.parametrize("name", FOUND)
def test_found_sequence(twin: Twin, name: str) -> None:
    """A sequence that once showed a difference shows none any more."""
    assert failure_of(twin, FOUND[name]) == ""
