"""When an add wakes a worker that waits at the marker."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from echomq.scripts import get_script
from vectors.keyspace import RawClient, dump

if TYPE_CHECKING:
    from support.servers import Server

P = "bull:q:"
NOW_MS = 1_700_000_000_000
KEYS = {
    "addStandardJob": "wait paused meta id completed delayed active events marker",
    "addPrioritizedJob": "marker meta id prioritized delayed completed active events pc",
}


def _add(client: RawClient, script: str) -> Any:
    head = msgspec.msgpack.encode([P, "", "mail", NOW_MS, None, None, None, None, None, None])
    keys = [P + key for key in KEYS[script].split()]
    return client.run(get_script(script).text, keys, [head, "{}", msgspec.msgpack.encode({"priority": 3})])


def _blocked(client: RawClient) -> int:
    found = [line for line in client.send("INFO", "clients").splitlines() if line.startswith(b"blocked_clients:")]
    return int(found[0].partition(b":")[2])


@pytest.mark.parametrize("script", KEYS)
@pytest.mark.parametrize("closed", [("paused", "1"), ("concurrency", "1")])
def test_closed_queue_wakes_nobody(raw_client: RawClient, server: Server, script: str, closed: tuple[str, str]) -> None:
    """While a queue is paused or at its limit an add leaves workers asleep; once it is open it wakes one."""
    raw_client.send("HSET", P + "meta", *closed)
    raw_client.send("LPUSH", P + "active", "running")
    with contextlib.closing(RawClient(server.url_as("redis"))) as worker, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(worker.send, "BZPOPMIN", P + "marker", "30")
        while _blocked(raw_client) == 0:
            assert not waiting.done()

        assert _add(raw_client, script) == b"1"
        assert _blocked(raw_client) == 1
        assert P + "marker" not in dump(raw_client)

        raw_client.send("HDEL", P + "meta", closed[0])
        assert _add(raw_client, script) == b"2"
        assert waiting.result(timeout=30)[1] == b"0"
    assert P + "marker" not in dump(raw_client)


@pytest.mark.parametrize("script", KEYS)
def test_marker_that_is_there_stays(raw_client: RawClient, script: str) -> None:
    """An add to a queue that was paused after its marker was set leaves that marker."""
    _add(raw_client, script)
    raw_client.send("HSET", P + "meta", "paused", "1")

    _add(raw_client, script)

    assert dump(raw_client)[P + "marker"]["value"] == [["0", "0"]]
