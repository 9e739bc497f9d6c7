"""What the scripts that manage and read a queue do where no recorded call tells.

Sizes beyond what the server unpacks at once, arguments no correct client sends,
and the deviations that ``lua/README.md`` lists.
"""

from collections.abc import Iterable
from typing import Any

import pytest
import redis

from differential.steps import call
from echomq.scripts import get_script
from vectors.keyspace import RawClient, dump

Q = "bull:q"
NOW_MS = 1_700_000_000_000
MANY = 15_000
"""More than two chunks of what the server unpacks at once."""


def _run(client: RawClient, script: str, *args: Any, **which: Any) -> Any:
    step = call(Q, script, *args, **which)
    return client.run(get_script(script).text, step.keys, step.raw_args())


def _job(client: RawClient, job_id: str, **fields: Any) -> None:
    stored = {"name": "n", "data": "{}", "opts": "{}", "timestamp": NOW_MS, "delay": 0, "priority": 0, **fields}
    client.send("HSET", f"{Q}:{job_id}", *(part for pair in stored.items() for part in pair))


def _waiting(client: RawClient, *ids: str) -> None:
    """Jobs in wait, the first one newest."""
    for job_id in ids:
        _job(client, job_id)
    client.send("RPUSH", f"{Q}:wait", *ids)


def _ids(count: int) -> list[str]:
    return [f"j{number}" for number in range(count)]


def _push(client: RawClient, key: str, ids: Iterable[str]) -> None:
    client.send_all([("RPUSH", f"{Q}:{key}", job_id) for job_id in ids])


def _score(client: RawClient, key: str, ids: Iterable[str]) -> None:
    client.send_all([("ZADD", f"{Q}:{key}", NOW_MS + at, job_id) for at, job_id in enumerate(ids)])


def _list(client: RawClient, key: str) -> list[str]:
    value: list[str] = dump(client).get(f"{Q}:{key}", {"value": []})["value"]
    return value


def test_drain_keeps_order_of_spared_jobs(raw_client: RawClient) -> None:
    """Jobs that schedulers have waiting keep their order; everything between them goes."""
    _waiting(raw_client, "a", f"repeat:s2:{NOW_MS}", "b", f"repeat:s1:{NOW_MS}", "c")
    raw_client.send("ZADD", f"{Q}:repeat", NOW_MS, "s1", NOW_MS, "s2")

    _run(raw_client, "drain", f"{Q}:", 0)

    assert _list(raw_client, "wait") == [f"repeat:s2:{NOW_MS}", f"repeat:s1:{NOW_MS}"]
    assert f"{Q}:b" not in dump(raw_client)


def test_drain_many(raw_client: RawClient) -> None:
    """Any number of waiting, prioritized and delayed jobs goes in one call."""
    _push(raw_client, "wait", _ids(MANY))
    _score(raw_client, "delayed", _ids(MANY))
    _score(raw_client, "prioritized", _ids(MANY))

    assert _run(raw_client, "drain", f"{Q}:", 1) is None
    assert dump(raw_client) == {}


def test_clean_compares_numbers(raw_client: RawClient) -> None:
    """A time with fewer digits is older, one with more digits is younger."""
    for job_id, timestamp in (("old", 999), ("new", 99_999_999_999_999)):
        _job(raw_client, job_id, timestamp=timestamp)
    raw_client.send("RPUSH", f"{Q}:wait", "old", "new")

    assert _run(raw_client, "cleanJobsInSet", f"{Q}:", NOW_MS, 0, "wait", state="wait") == [b"old"]


@pytest.mark.parametrize("state", ["wait", "completed", "delayed"])
def test_clean_many(raw_client: RawClient, state: str) -> None:
    """Any number of jobs is cleaned in one call; the others stay in order."""
    ids = _ids(MANY)
    fill = _push if state == "wait" else _score
    fill(raw_client, state, ids)
    _job(raw_client, "j7", timestamp=NOW_MS + 10**9)  # too young, where a state asks the job

    removed = _run(raw_client, "cleanJobsInSet", f"{Q}:", NOW_MS + MANY, 0, state, state=state)

    assert len(removed) == (MANY if state == "completed" else MANY - 1)


def test_clean_releases_nothing_of_a_queue_that_does_not_exist(raw_client: RawClient) -> None:
    """The last child of a parent whose id holds colons takes it along, as with any other id."""
    _job(raw_client, "a:b:c")
    raw_client.send("ZADD", f"{Q}:waiting-children", NOW_MS, "a:b:c")
    raw_client.send("SADD", f"{Q}:a:b:c:dependencies", f"{Q}:child")
    _waiting(raw_client, "child")
    _job(raw_client, "child", parentKey=f"{Q}:a:b:c", parent='{"id":"a:b:c","queueKey":"bull:q"}')

    assert _run(raw_client, "cleanJobsInSet", f"{Q}:", NOW_MS, 0, "wait", state="wait") == [b"child"]
    assert dump(raw_client).keys() == {f"{Q}:events"}


def test_resume_moves_a_long_legacy_list_bit_by_bit(raw_client: RawClient) -> None:
    """Each resume moves 7,000 ids of an old client's paused list behind wait and tells how many are left."""
    _push(raw_client, "wait", ["first"])
    _push(raw_client, "paused", _ids(MANY))

    left = [_run(raw_client, "pause", "resumed", "0", state="paused wait") for _ in range(3)]

    assert left == [8_000, 1_000, 0]
    assert _list(raw_client, "wait") == ["first", *_ids(MANY)]


def test_retry_many(raw_client: RawClient) -> None:
    """Any number of failed jobs goes back to wait in one call, the longest failed first in line."""
    ids = _ids(MANY)
    _score(raw_client, "failed", ids)

    assert _run(raw_client, "moveJobsToWait", MANY + 1, "+inf", "failed", state="failed") == 0
    assert _list(raw_client, "wait") == ids[::-1]


def test_obliterate_many(raw_client: RawClient) -> None:
    """A queue goes in parts of the asked size, and nothing of it is left."""
    raw_client.send("HSET", f"{Q}:meta", "paused", "1")
    _push(raw_client, "wait", _ids(MANY))
    _score(raw_client, "completed", [f"c{number}" for number in range(MANY)])

    replies = [_run(raw_client, "obliterate", 10_000, "") for _ in range(4)]

    assert replies == [1, 1, 1, 0]
    assert dump(raw_client) == {}


def test_remove_many_children(raw_client: RawClient) -> None:
    """A parent goes with all of its children, however many."""
    children = _ids(300)
    _job(raw_client, "p")
    raw_client.send("ZADD", f"{Q}:waiting-children", NOW_MS, "p")
    raw_client.send("SADD", f"{Q}:p:dependencies", *(f"{Q}:{child}" for child in children))
    _waiting(raw_client, *children)

    assert _run(raw_client, "removeJob", "p", 1, f"{Q}:", job="p") == 1
    assert {key for key in dump(raw_client) if not key.endswith(("events", "meta", "marker"))} == set()


def test_promote_drops_an_id_without_a_hash(raw_client: RawClient) -> None:
    """A delayed id without a hash is no delayed job; it is dropped and nothing is made of it."""
    raw_client.send("ZADD", f"{Q}:delayed", 1, "ghost")

    assert _run(raw_client, "promote", f"{Q}:", "ghost") == -3
    assert dump(raw_client) == {}


def test_pages_of_a_large_set_cover_it_once(raw_client: RawClient) -> None:
    """A client that follows cursor and offset sees each member once."""
    members = {f"{Q}:m{number}".encode() for number in range(1_000)}
    raw_client.send("SADD", f"{Q}:p:dependencies", *members)
    seen: list[bytes] = []
    cursor: Any = "0"
    offset = 0
    while True:
        cursor, offset, found, total, _jobs = _run(
            raw_client, "paginate", len(seen), -1, cursor.decode() if seen else "0", offset, 2,
            job="p", state="dependencies",
        )  # fmt: skip
        seen += found
        if cursor == b"0":
            break

    assert total == 1_000
    assert len(seen) == 1_000
    assert set(seen) == members


FAULTY: dict[str, tuple[Any, ...]] = {
    "pause": ("off", "1"),
    "cleanJobsInSet": (f"{Q}:", "yesterday", 0, "wait"),
    "obliterate": ("all", "force"),
    "removeJob": ("another", 0, f"{Q}:"),
    "changeDelay": ("soon", NOW_MS, "a", f"{Q}:a"),
    "changePriority": ("high", f"{Q}:", "a", 0),
    "moveJobsToWait": ("all", "+inf", "failed"),
    "removeOrphanedJobs": ("x", "wait", "0", "a"),
    "getCountsPerPriority": ("high",),
    "getJobs": ("first", "last", 1, 5, "wait"),
    "paginate": ("first", "last", 0, 0, 5),
}


@pytest.mark.parametrize("script", FAULTY)
def test_faulty_arguments(raw_client: RawClient, script: str) -> None:
    """What no correct client sends is refused by name, and nothing is written."""
    _waiting(raw_client, "a", "b")
    raw_client.send("HSET", f"{Q}:meta", "paused", "1")
    before = dump(raw_client)
    state = {"pause": "wait paused", "paginate": "dependencies"}.get(script, "wait")

    reply = _run(raw_client, script, *FAULTY[script], job="a", state=state)

    assert isinstance(reply, redis.ResponseError)
    assert script in str(reply)
    assert dump(raw_client) == before


@pytest.mark.parametrize("count", ["0", "-1"])
def test_obliterate_count_too_small(raw_client: RawClient, count: str) -> None:
    """A part of no jobs would never come to an end."""
    raw_client.send("HSET", f"{Q}:meta", "paused", "1")

    assert "count must be a number from 1 on" in str(_run(raw_client, "obliterate", count, ""))
