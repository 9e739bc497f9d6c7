"""What the scripts that take and finish jobs do where no recorded call tells.

Each stands for a deviation from the pinned version; ``lua/README.md`` lists them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import redis

from echomq.scripts import get_script
from vectors.keyspace import RawClient, dump

P = "bull:q:"
NOW_MS = 1_700_000_000_000
TAKE = {"token": "tok", "lockDuration": 30_000, "name": "w1"}
FINISH = {**TAKE, "keepJobs": {"count": -1}, "attempts": 1, "maxMetricsSize": ""}
TAKE_KEYS = "wait active prioritized events stalled limiter delayed paused meta pc marker"
FINISH_KEYS = "wait active prioritized events stalled limiter delayed paused meta pc {0} 1 metrics:{0} marker"
DELAY_KEYS = "marker active prioritized delayed 1 events meta stalled wait limiter pc"
RETRY_KEYS = "active wait paused 1 meta events delayed prioritized pc marker stalled"


def _pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


def _run(client: RawClient, script: str, keys: str, *args: Any) -> Any:
    keys_sent = [P + key for key in keys.split()]
    return client.run(get_script(script).text, keys_sent, [a if isinstance(a, bytes) else str(a) for a in args])


def _take(client: RawClient, **options: Any) -> Any:
    return _run(client, "moveToActive", TAKE_KEYS, P, NOW_MS, _pack({**TAKE, **options}))


def _finish(client: RawClient, *, fetch: bool = False, **options: Any) -> Any:
    packed = _pack({**FINISH, **options})
    args = ("1", NOW_MS, "returnvalue", '"ok"', "completed", int(fetch), P, packed, "")
    return _run(client, "moveToFinished", FINISH_KEYS.format("completed"), *args)


def _job(client: RawClient, job_id: str, **fields: Any) -> None:
    stored = {"name": "n", "data": "{}", "opts": "{}", "timestamp": NOW_MS, "delay": 0, "priority": 0, **fields}
    client.send("HSET", P + job_id, *(part for pair in stored.items() for part in pair))


def _waiting(client: RawClient, *ids: str) -> None:
    client.send("LPUSH", P + "wait", *ids)


@pytest.fixture
def active_job(raw_client: RawClient) -> RawClient:
    """A queue where job 1 is active and locked with the token ``tok``."""
    _job(raw_client, "1", ats=1)
    raw_client.send("LPUSH", P + "active", "1")
    raw_client.send("SET", P + "1:lock", "tok")
    return raw_client


def test_take_skips_ids_without_a_job(raw_client: RawClient) -> None:
    """An id whose hash is gone is dropped, and the job behind it is handed out."""
    _job(raw_client, "5")
    _waiting(raw_client, "ghost", "5")

    assert _take(raw_client)[1] == b"5"
    after = dump(raw_client)
    assert after[P + "active"]["value"] == ["5"]
    assert P + "ghost" not in after
    assert P + "wait" not in after


def test_take_is_bounded_and_asks_to_be_called_again(raw_client: RawClient) -> None:
    """A queue full of ids without jobs is cleared a thousand at a time, and workers are woken for the rest."""
    _job(raw_client, "5")
    _waiting(raw_client, *(f"ghost{n}" for n in range(1500)), "5")

    assert _take(raw_client) == [0, 0, 0, 0]
    assert dump(raw_client)[P + "marker"]["value"] == [["0", "0"]]
    assert _take(raw_client)[1] == b"5"


def test_promotion_drops_ids_without_a_job(raw_client: RawClient) -> None:
    """A due delayed id whose hash is gone becomes neither a job nor an event."""
    raw_client.send("ZADD", P + "delayed", NOW_MS * 4096, "ghost")

    assert _take(raw_client) == [0, 0, 0, 0]
    assert dump(raw_client).keys() == {P + "marker"}


def test_finish_event_survives_an_event_limit_of_zero(active_job: RawClient) -> None:
    """With no events to be kept, who listens still learns that a job ended."""
    active_job.send("HSET", P + "meta", "opts.maxLenEvents", "0")

    assert _finish(active_job) == 0
    events = [entry[1] for entry in dump(active_job)[P + "events"]["value"]]
    assert events == ["completed", "drained"]


def test_max_without_duration_refuses_the_take(raw_client: RawClient) -> None:
    """A rate limit that lacks its duration is an error, and the job stays where it was."""
    _job(raw_client, "5")
    _waiting(raw_client, "5")
    raw_client.send("HSET", P + "meta", "max", "1")
    before = dump(raw_client)

    assert isinstance(_take(raw_client), redis.ResponseError)
    assert dump(raw_client) == before


def test_max_without_duration_does_not_stop_a_finish(active_job: RawClient) -> None:
    """A rate limit that lacks its duration only keeps a finish from fetching."""
    _job(active_job, "5")
    _waiting(active_job, "5")
    active_job.send("HSET", P + "meta", "max", "1")

    assert _finish(active_job, fetch=True) == 0
    after = dump(active_job)
    assert after[P + "completed"]["value"] == [["1", str(NOW_MS)]]
    assert after[P + "wait"]["value"] == ["5"]


def test_stale_legacy_marker_does_not_hide_waiting_jobs(active_job: RawClient) -> None:
    """A 0:0 of an old version with no prioritized job behind it is dropped, and the fetch goes on."""
    _job(active_job, "5")
    _waiting(active_job, "0:0", "5")

    assert _finish(active_job, fetch=True)[1] == b"5"


def _finish_args(**changed: Any) -> tuple[Any, ...]:
    options = {name: value for name, value in {**FINISH, **changed}.items() if value is not ...}
    return ("1", NOW_MS, "failedReason", "boom", "failed", "1", P, _pack(options), "")


MALFORMED = [
    *(
        pytest.param(
            "moveToFinished", FINISH_KEYS.format("failed"), _finish_args(**{name: value}), id=f"{name}={value}"
        )
        for name, value in [
            ("token", ...),
            ("token", 5),
            ("keepJobs", ...),
            ("keepJobs", {"count": "x"}),
            ("keepJobs", {"count": 1.5}),
            ("keepJobs", {"age": []}),
            ("attempts", ...),
            ("maxMetricsSize", ...),
            ("maxMetricsSize", 1.5),
            ("lockDuration", ...),
            ("lockDuration", 0),
            ("lockDuration", 1.5),
            ("limiter", "x"),
            ("name", True),
            ("name", b"bytes"),
        ]
    ),
    pytest.param(
        "moveToFinished", FINISH_KEYS.format("failed"), (*_finish_args()[:8], _pack([])), id="finish-no-fields"
    ),
    pytest.param(
        "moveToFinished",
        FINISH_KEYS.format("failed"),
        (*_finish_args()[:8], _pack(["a", True])),
        id="finish-field-kind",
    ),
    pytest.param("retryJob", RETRY_KEYS, (P, NOW_MS, "LPUSH", "1", "tok", _pack(["a"])), id="retry-odd-fields"),
    pytest.param("retryJob", RETRY_KEYS, (P, NOW_MS, "DEL", "1", "tok", ""), id="retry-command"),
    pytest.param("retryJob", RETRY_KEYS, (P, "soon", "LPUSH", "1", "tok", ""), id="retry-now"),
    pytest.param("moveToDelayed", DELAY_KEYS, (P, NOW_MS, "1", "tok", "x", "0", "", "0"), id="delay-text"),
    pytest.param("moveToDelayed", DELAY_KEYS, (P, NOW_MS, "1", "tok", "5", "0", "", "1", _pack({})), id="delay-fetch"),
    pytest.param("extendLock", "1:lock stalled", ("tok", "0", "1"), id="lock-for-nothing"),
    pytest.param("extendLocks", "stalled", (P, _pack(["tok"]), _pack("1"), "30000"), id="ids-no-array"),
    pytest.param("extendLocks", "stalled", (P, _pack(["tok"]), _pack(["1"]), "x"), id="locks-for-text"),
    pytest.param("addLog", "1 1:logs", ("1", "row", "0"), id="keep-no-rows"),
]


@pytest.mark.parametrize(("script", "keys", "args"), MALFORMED)
def test_malformed_call_writes_nothing(active_job: RawClient, script: str, keys: str, args: tuple[Any, ...]) -> None:
    """Arguments that no client of ours sends are refused, and nothing has changed."""
    before = dump(active_job)

    assert isinstance(_run(active_job, script, keys, *args), redis.ResponseError)
    assert dump(active_job) == before
