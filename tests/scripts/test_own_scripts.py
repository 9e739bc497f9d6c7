"""What our own scripts do in parts is what the contract's scripts do at once."""

import random
from typing import Any

import pytest
import redis

from differential.search import _moves
from differential.steps import Call, call
from differential.world import World
from echomq.scripts import get_script
from vectors.keyspace import Keyspace, RawClient, dump, load, meaning

EPISODES = 25
STEPS = 45
STATES = ("wait", "paused", "delayed", "prioritized", "active")


def _run(client: RawClient, script: str, keys: tuple[str, ...], *args: Any) -> Any:
    reply = client.run(get_script(script).text, keys, [str(arg) for arg in args])
    if isinstance(reply, redis.ResponseError):
        raise reply
    return reply


def _situation(client: RawClient, seed: int) -> tuple[World, Keyspace]:
    """Queues after some random steps, with nothing that only a faulty client leaves."""
    client.send("FLUSHDB")
    world = World(random.Random(seed))
    for _ in range(STEPS):
        world.state = dump(client)
        for step in _moves(world):
            if isinstance(step, Call) and not step.faulty:
                client.run(get_script(step.script).text, step.keys, step.raw_args())
    world.state = dump(client)
    return world, world.state


def _stored(client: RawClient) -> dict[str, Any]:
    """Everything but events and markers, which tell of each part."""
    kept = {key: entry["value"] for key, entry in dump(client).items() if not key.endswith((":events", ":marker"))}
    return {key: meaning(value) for key, value in kept.items()}


def _sweep(client: RawClient, queue: str, state: str, *, cutoff: Any, count: int, limit: int = 0) -> list[bytes]:
    keys = (f"{queue}:{state}", f"{queue}:events", f"{queue}:repeat")
    removed: list[bytes] = []
    first = 0
    while first >= 0:
        left = limit - len(removed) if limit else 0
        first, ids = _run(client, "sweepJobs", keys, f"{queue}:", state, cutoff, first, count, left, "0")
        removed += ids
    return removed


@pytest.mark.parametrize("count", [1, 2, 100])
def test_sweeps_drain(raw_client: RawClient, count: int) -> None:
    """Sweeping what waits and is delayed, in parts of any size, leaves what draining leaves."""
    for seed in range(EPISODES):
        world, before = _situation(raw_client, seed)
        queue = world.queue()
        drain = call(queue, "drain", f"{queue}:", 1)
        _run(raw_client, drain.script, drain.keys, *drain.args)
        drained = _stored(raw_client)

        load(raw_client, before)
        for state in ("wait", "paused", "delayed", "prioritized"):
            _sweep(raw_client, queue, state, cutoff="inf", count=count)

        assert _stored(raw_client) == drained, seed


@pytest.mark.parametrize("state", STATES)
def test_sweeps_clean(raw_client: RawClient, state: str) -> None:
    """Sweeping a state up to some age, in parts of any size, removes what cleaning removes."""
    for seed in range(EPISODES):
        world, before = _situation(raw_client, 1_000 + seed)
        queue, _ = world.find(state)
        cutoff = world.now_ms - world.pick(0, 4_000, 20_000)
        clean = call(queue, "cleanJobsInSet", f"{queue}:", cutoff, 0, state, state=state)
        removed = _run(raw_client, clean.script, clean.keys, *clean.args)
        cleaned = _stored(raw_client)

        load(raw_client, before)
        swept = _sweep(raw_client, queue, state, cutoff=cutoff, count=world.pick(1, 2, 50))

        assert sorted(swept) == sorted(removed), seed
        assert _stored(raw_client) == cleaned, seed


def test_sweep_with_a_limit_takes_the_oldest(raw_client: RawClient) -> None:
    """A limited sweep removes the oldest that may go, though spared ones stand before them."""
    for job_id, timestamp in (("young", 9), ("a", 1), ("b", 2), ("c", 3)):
        raw_client.send("HSET", f"bull:q:{job_id}", "name", "n", "timestamp", timestamp)
        raw_client.send("LPUSH", "bull:q:wait", job_id)

    assert _sweep(raw_client, "bull:q", "wait", cutoff=5, count=1, limit=2) == [b"a", b"b"]
    assert dump(raw_client)["bull:q:wait"]["value"] == ["c", "young"]


@pytest.mark.parametrize("effort", [1, 2, 1_000])
def test_trees_are_removed(raw_client: RawClient, effort: int) -> None:
    """A job with all below it, removed in parts of any size, leaves what removing it at once leaves."""
    compared = 0
    for seed in range(EPISODES):
        world, before = _situation(raw_client, 2_000 + seed)
        queue, job_id = world.find("waiting-children")
        remove = call(queue, "removeJob", job_id, 1, f"{queue}:", job=job_id)
        expected = _run(raw_client, remove.script, remove.keys, *remove.args)
        removed = _stored(raw_client)

        load(raw_client, before)
        reply, begun = 2, 0
        while reply == 2:
            reply = _run(raw_client, "removeTree", remove.keys, job_id, f"{queue}:", effort, begun)
            begun = 1

        assert reply == expected, seed
        # A lock found on the way stops what was begun; clients look for locks before.
        if expected == 1:
            compared += 1
            assert _stored(raw_client) == removed, seed
    assert compared > EPISODES // 4


CANCEL_STATES = ("completed", "failed", "delayed", "active", "wait", "paused", "waiting-children", "prioritized")


@pytest.mark.parametrize(
    ("script", "args"),
    [
        ("cancelJob", ("a", "why", "", 1_000, "", 1_000)),
        ("cancelJob", ("a", "why", "token", "long", "", 1_000)),
        ("cancelJob", ("a", "why", "token", 0, "", 1_000)),
        ("cancelJob", ("a", "why", "token", 1_000)),
        ("sweepJobs", ("bull:q:", "wait", "old", 0, 10, 0, "1")),
        ("sweepJobs", ("bull:q:", "completed", 1, 0, 10, 0, "1")),
        ("sweepJobs", ("bull:q:", "wait", "inf", 0, 0, 0, "1")),
        ("sweepJobs", ("bull:q:", "wait")),
        ("removeTree", ("other", "bull:q:", 10, "1")),
        ("removeTree", ("a", "bull:q:", "many", "1")),
        ("removeTree", ("a",)),
        ("releaseStuckParent", ("bull:q", "a", "soon")),
        ("releaseStuckParent", ("bull:q",)),
        ("removeStrays", ("everything", "a")),
        ("removeStrays", ()),
    ],
)
def test_faulty_arguments(raw_client: RawClient, script: str, args: tuple[Any, ...]) -> None:
    """What our clients never send is refused by name, and nothing is written."""
    raw_client.send("HSET", "bull:q:a", "name", "n", "timestamp", 1)
    raw_client.send("LPUSH", "bull:q:wait", "a")
    before = dump(raw_client)
    keys = {
        "cancelJob": (
            *(f"bull:q:{state}" for state in CANCEL_STATES),
            "bull:q:a",
            "bull:q:events",
            "bull:q:repeat",
            "bull:q:x",
        ),
        "sweepJobs": ("bull:q:wait", "bull:q:events", "bull:q:repeat"),
        "removeTree": ("bull:q:a", "bull:q:repeat"),
        "releaseStuckParent": ("bull:q:a", "bull:q:a:dependencies"),
        "removeStrays": ("bull:q:",),
    }

    with pytest.raises(redis.ResponseError, match=script):
        _run(raw_client, script, keys[script], *args)

    assert dump(raw_client) == before
