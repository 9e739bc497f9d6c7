"""What ``scripts.py`` measures: for each script a state of the server and calls that are played on it.

A case is played with the original scripts and with ours, so nothing in it depends on either.
"""

from __future__ import annotations

from typing import Any

import attrs

from differential.steps import Call, Pack, call

__all__ = ["CASES", "Case"]

Q, P, T = "bull:q", "bull:q:", 1_700_000_000_000
N = 100
"""Calls in a batch, unless one call is heavy."""

DATA = '{"to":"ada@example.org","template":"welcome","n":7}'
OPTS = '{"attempts":3,"backoff":{"type":"exponential","delay":1000}}'
OPTIONS = {"attempts": 3, "backoff": {"type": "exponential", "delay": 1000}}
TAKE = {"token": "tok", "lockDuration": 30_000, "name": "w1"}
FINISH = {**TAKE, "keepJobs": {"count": -1}, "attempts": 3, "maxMetricsSize": ""}
LOST = Pack(["stacktrace", '["Error: boom at line 1"]', "failedReason", "boom"])
SUB_KEYS = ("logs", "dependencies", "processed", "failed", "unsuccessful", "lock")

State = list[tuple[Any, ...]]


@attrs.frozen(kw_only=True)
class Case:
    """One row.

    Attributes:
        title: What is special about the calls.
        calls: All of one script.
        state: Commands that prepare the server.
        is_hot: Every job meets this script.
    """

    title: str
    calls: list[Call]
    state: State = attrs.field(factory=list)
    is_hot: bool = False

    @property
    def script(self) -> str:
        """Name of the script."""
        return self.calls[0].script


def _ids(count: int = N) -> list[str]:
    return [str(number) for number in range(1, count + 1)]


def _jobs(ids: list[str], queue: str = Q, **fields: Any) -> State:
    stored = {"name": "mail", "data": DATA, "opts": OPTS, "timestamp": T, "delay": 0, "priority": 0, **fields}
    flat = [part for pair in stored.items() for part in pair]
    return [("HSET", f"{queue}:meta", "opts.maxLenEvents", "10000")] + [("HSET", f"{queue}:{i}", *flat) for i in ids]


def _waiting(ids: list[str], queue: str = Q, **fields: Any) -> State:
    return [*_jobs(ids, queue, **fields), ("LPUSH", f"{queue}:wait", *ids)]


def _active(ids: list[str], queue: str = Q, **fields: Any) -> State:
    locks = [("SET", f"{queue}:{i}:lock", "tok", "PX", 600_000) for i in ids]
    return [*_jobs(ids, queue, ats=1, processedOn=T, **fields), ("LPUSH", f"{queue}:active", *ids), *locks]


def _scored(state: str, ids: list[str], queue: str = Q, first: int = T, step: int = 1, **fields: Any) -> State:
    scores = [part for at, job_id in enumerate(ids) for part in (first + at * step, job_id)]
    return [*_jobs(ids, queue, **fields), ("ZADD", f"{queue}:{state}", *scores)]


def _delayed(ids: list[str]) -> State:
    return _scored("delayed", ids, first=(T + 60_000) * 4096, step=4096, delay=60_000)


def _ended(state: str, ids: list[str], **fields: Any) -> State:
    outcome = {"completed": {"returnvalue": "7"}, "failed": {"failedReason": "boom", "stacktrace": "[]"}}[state]
    return _scored(state, ids, atm=1, ats=1, processedOn=T, finishedOn=T + 5, **outcome, **fields)


def _add(script: str, *, parent: str = "", count: int = N, **more: Any) -> list[Call]:
    key = f"{Q}:{parent}" if parent else None
    family = {"id": parent, "queueKey": Q} if parent else None
    options = {**OPTIONS, **more}
    dedup = f"{Q}:de:{options['de']['id']}" if "de" in options else None
    head = Pack([P, "", "mail", float(T), key, key and f"{key}:dependencies", family, None, dedup])
    return [call(Q, script, head, DATA, Pack(options))] * count


def _take(count: int = N, **more: Any) -> list[Call]:
    return [call(Q, "moveToActive", P, T + 10, Pack({**TAKE, **more}))] * count


def _finish(ids: list[str], state: str = "completed", *, fetch: bool = False, **more: Any) -> list[Call]:
    prop, value = {"completed": ("returnvalue", '{"ok":true}'), "failed": ("failedReason", "boom")}[state]
    tail = [LOST] if state == "failed" else [""]
    packed = Pack({**FINISH, **more})
    return [
        call(Q, "moveToFinished", i, T + 20, prop, value, state, int(fetch), P, packed, *tail, job=i, state=state)
        for i in ids
    ]


def _each(script: str, args: Any, ids: list[str] | None = None, state: str = "") -> list[Call]:
    """One call for each job; ``args`` makes its arguments from the id."""
    return [call(Q, script, *args(i), job=i, state=state) for i in ids or _ids()]


def _same(script: str, *args: Any, count: int = N, **which: Any) -> list[Call]:
    return [call(Q, script, *args, **which)] * count


def _family(**fields: Any) -> State:
    """A parent that waits for N children which run."""
    children = [f"{P}{i}" for i in _ids()]
    parent = {"parentKey": f"{P}p", "parent": '{"id":"p","queueKey":"bull:q"}'}
    return [
        *_scored("waiting-children", ["p"]),
        ("SADD", f"{P}p:dependencies", *children),
        *_active(_ids(), **parent, **fields),
    ]


def _queues(count: int, make: Any) -> State:
    return [command for number in range(count) for command in make(f"bull:q{number}")]


def _stalled(queue: str, *, known: bool, locked: bool) -> State:
    state = _active(_ids(1_000), queue)
    if not locked:
        state = [command for command in state if command[0] != "SET"]
    return [*state, ("SADD", f"{queue}:stalled", *_ids(1_000))] if known else state


def _stalled_calls(count: int) -> list[Call]:
    return [call(f"bull:q{n}", "moveStalledJobsToWait", 1, f"bull:q{n}:", T, 30_000) for n in range(count)]


def _scheduler(ids: list[str], **repeat: Any) -> State:
    state: State = [("HSET", f"{P}meta", "opts.maxLenEvents", "10000")]
    for i in ids:
        state.append(("HSET", f"{P}repeat:{i}", "name", "mail", "ic", 1, "data", DATA, "opts", OPTS, *_flat(repeat)))
        state.append(("ZADD", f"{P}repeat", T, i))
    return state


def _flat(values: dict[str, Any]) -> list[Any]:
    return [part for pair in values.items() for part in pair]


def _scheduler_options(name: str, **repeat: Any) -> Pack:
    job_id = f"repeat:{name}:undefined"
    return Pack({**OPTIONS, "repeat": {**repeat, "count": 1}, "jobId": job_id, "delay": 0, "repeatJobKey": name})


def _iterations() -> list[str]:
    return [f"repeat:{i}:{T}" for i in _ids()]


MANY = _ids(1_000)
_KEPT = [f"k{i}" for i in MANY]
_STATES = ("wait", "active", "delayed", "prioritized", "waiting-children", "completed", "failed", "paused")
_NAMES = ("active", "wait", "waiting-children", "paused", "delayed", "prioritized", "completed", "failed")
_ATTEMPT = (P, T + 20)
_FETCHING = [*_active(_ids(50)), *_waiting(_ids(N + 60)[50:])]


def _hot(title: str, calls: list[Call], state: State | None = None) -> Case:
    return Case(title=title, calls=calls, state=state or [], is_hot=True)


def _other(title: str, calls: list[Call], state: State | None = None) -> Case:
    return Case(title=title, calls=calls, state=state or [])


CASES = [
    _hot("", _add("addStandardJob")),
    _hot("bulk of 1,000 in a pipeline", _add("addStandardJob", count=1_000)),
    _hot("child", _add("addStandardJob", parent="p"), _scored("waiting-children", ["p"])),
    _hot("deduplicated", _add("addStandardJob", de={"id": "d", "ttl": 500_000})),
    _hot("", _add("addDelayedJob", delay=5_000)),
    _hot("", _add("addPrioritizedJob", priority=7)),
    _hot("", _add("addParentJob")),
    _hot("", _take(), _waiting(_ids(N + 1))),
    _hot("prioritized", _take(), _scored("prioritized", _ids(N + 1), first=7 * 2**32, priority=7)),
    _hot("rate limit", _take(limiter={"max": 1_000, "duration": 60_000}), _waiting(_ids(N + 1))),
    _hot("nothing there", _take()),
    _hot("completed, fetches none", _finish(_ids()), _active(_ids())),
    _hot("completed, fetches the next", _finish(_ids(), fetch=True), _FETCHING),
    _hot("failed, fetches the next", _finish(_ids(), "failed", fetch=True), _FETCHING),
    _hot("child of a parent, fetches none", _finish(_ids()), _family()),
    _hot("keeps 1,000", _finish(_ids(), keepJobs={"count": 1_000}), [*_ended("completed", _KEPT), *_active(_ids())]),
    _hot(
        "keeps an hour",
        _finish(_ids(), keepJobs={"age": 3_600}),
        [*_scored("completed", _KEPT, first=T - 3_600_000 - 500), *_active(_ids())],
    ),
    _hot("removes at once", _finish(_ids(), keepJobs={"count": 0}), _active(_ids())),
    _hot("metrics", _finish(_ids(), maxMetricsSize=100), _active(_ids())),
    _hot("", _each("retryJob", lambda i: (*_ATTEMPT, "LPUSH", i, "tok", LOST)), _active(_ids())),
    _hot(
        "",
        _each("moveToDelayed", lambda i: (*_ATTEMPT, i, "tok", 5_000, "0", LOST, "0", Pack(TAKE))),
        _active(_ids()),
    ),
    _hot(
        "100 jobs",
        _same("extendLocks", P, Pack(["tok"] * 100), Pack(_ids(100)), 30_000, count=20),
        _active(_ids(100)),
    ),
    _hot("1,000 active, none suspect", _stalled_calls(4), _queues(4, lambda q: _stalled(q, known=False, locked=True))),
    _hot("1,000 active, all suspect", _stalled_calls(4), _queues(4, lambda q: _stalled(q, known=True, locked=True))),
    _hot("1,000 active, all stalled", _stalled_calls(4), _queues(4, lambda q: _stalled(q, known=True, locked=False))),
    _hot("eight states", _same("getCounts", *_STATES), _waiting(_ids(50))),
    _hot("1,000 waiting", _same("getJobs", 0, 999, 1, 5, "wait", count=5), _waiting(MANY)),
    _hot("1,000 completed", _same("getJobs", 0, 999, 0, 5, "completed", count=5), _ended("completed", MANY)),
    _other("two fields kept", _each("addLog", lambda i: (i, "row", "10")), _active(_ids())),
    _other(
        "every minute",
        _each(
            "addJobScheduler",
            lambda i: (
                *("", Pack({"name": "mail", "every": 60_000}), i, DATA, Pack(OPTIONS)),
                *(_scheduler_options(i, every=60_000), T, P, ""),
            ),
        ),
    ),
    _other(
        "every minute",
        [
            call(Q, "updateJobScheduler", "", i, DATA, _scheduler_options(i, every=60_000), T, P, one, job=one)
            for i, one in zip(_ids(), _iterations(), strict=True)
        ],
        [*_scheduler(_ids(), every=60_000), *_active(_iterations())],
    ),
    _other("", _each("getJobScheduler", lambda i: (i,)), _scheduler(_ids(), every=60_000)),
    _other("", _each("removeJobScheduler", lambda i: (i, P)), _scheduler(_ids(), every=60_000)),
    _other("", _each("changeDelay", lambda i: (9_000, T, i, f"{P}{i}")), _delayed(_ids())),
    _other("", _each("changePriority", lambda i: (3, P, i, 0)), _waiting(_ids())),
    _other(
        "1,000 completed",
        _same("cleanJobsInSet", P, T * 2, 0, "completed", count=1, state="completed"),
        _ended("completed", MANY),
    ),
    _other("1,000 waiting", _same("drain", P, 0, count=1), _waiting(MANY)),
    _other("", _each("extendLock", lambda i: ("tok", 30_000, i)), _active(_ids())),
    _other("", _same("getCountsPerPriority", 0, 1, 2, 3), _waiting(_ids(50))),
    _other("", _same("getDependencyCounts", "processed", "unprocessed", "ignored", "failed", job="p"), _family()),
    _other(
        "",
        _same("getMetrics", 0, -1, state="completed"),
        [
            ("HSET", f"{P}metrics:completed", "count", 9, "prevTS", T, "prevCount", 8),
            ("RPUSH", f"{P}metrics:completed:data", *range(100)),
        ],
    ),
    _other("100 waiting", _same("getRanges", 0, 99, 1, "wait", count=50), _waiting(_ids(100))),
    _other("", _same("getRateLimitTtl", 10), [("SET", f"{P}limiter", 10, "PX", 60_000)]),
    _other("waiting", _each("getState", lambda i: (i,)), _waiting(_ids())),
    _other("waiting", _each("getStateV2", lambda i: (i,)), _waiting(_ids())),
    _other("completed", _each("isFinished", lambda i: (i, "1")), _ended("completed", _ids())),
    _other("last of 100", _same("isJobInList", "1", state="wait"), _waiting(_ids())),
    _other("", _same("isMaxed"), [*_active(_ids(10)), ("HSET", f"{P}meta", "concurrency", 50)]),
    _other("", _each("moveJobFromActiveToWait", lambda i: (i, "tok", f"{P}{i}")), _active(_ids())),
    _other(
        "1,000 failed", _same("moveJobsToWait", 1_001, T * 2, "failed", count=1, state="failed"), _ended("failed", MANY)
    ),
    _other(
        "1,000 delayed", _same("moveJobsToWait", 1_001, "1e300", "delayed", count=1, state="delayed"), _delayed(MANY)
    ),
    _other(
        "",
        _each("moveToWaitingChildren", lambda i: ("tok", "", T, i, P)),
        [*_active(_ids()), *[("SADD", f"{P}{i}:dependencies", f"{P}c") for i in _ids()]],
    ),
    _other("1,000 jobs", _same("obliterate", 1_000, "", count=1), [*_waiting(MANY), ("HSET", f"{P}meta", "paused", 1)]),
    _other(
        "100 members with their hashes",
        _same("paginate", 0, 99, 0, 0, 5, 1, count=20, job="p", state="dependencies"),
        [*_jobs(_ids(100)), ("SADD", f"{P}p:dependencies", *[f"{P}{i}" for i in _ids(100)])],
    ),
    _other("pause", _same("pause", "paused", state="wait paused"), _waiting(_ids(10))),
    _other("resume", _same("pause", "resumed", state="paused wait"), _waiting(_ids(10))),
    _other("", _each("promote", lambda i: (P, i)), _delayed(_ids())),
    _other("", _each("releaseLock", lambda _: ("tok",)), _active(_ids())),
    _other(
        "",
        [
            call(Q, "releaseParentIfNoPendingDependencies", Q, i, T, keys=(f"{P}{i}", f"{P}{i}:dependencies"))
            for i in _ids()
        ],
        _scored("waiting-children", _ids()),
    ),
    _other("", [call(Q, "removeChildDependency", f"{P}{i}", f"{P}p", keys=(P,)) for i in _ids()], _family()),
    _other(
        "",
        [call(Q, "removeDeduplicationKey", i, keys=(f"{P}de:{i}",)) for i in _ids()],
        [("SET", f"{P}de:{i}", i) for i in _ids()],
    ),
    _other("waiting", _each("removeJob", lambda i: (i, 0, P)), _waiting(_ids())),
    _other(
        "100 children",
        _same("removeJob", "p", 1, P, count=1, job="p"),
        [command for command in _family() if command[0] != "SET"],
    ),
    _other(
        "100 candidates",
        _same("removeOrphanedJobs", len(_NAMES), *_NAMES, len(SUB_KEYS), *SUB_KEYS, *_ids(100), count=1),
        _waiting(_ids(100)),
    ),
    _other(
        "100 children",
        _same("removeUnprocessedChildren", P, "p", count=1, job="p"),
        [command for command in _family() if command[0] != "SET"],
    ),
    _other(
        "failed",
        _each("reprocessJob", lambda i: (i, "LPUSH", "failedReason", "failed", 0, 0), state="failed"),
        _ended("failed", _ids()),
    ),
    _other("", _each("saveStacktrace", lambda _: ('["Error: boom"]', "boom")), _active(_ids())),
    _other("", _each("updateData", lambda _: (DATA,)), _active(_ids())),
    _other("", _each("updateProgress", lambda i: (i, "50")), _active(_ids())),
]
