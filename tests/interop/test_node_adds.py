"""Node adds, we process, Node reads: what a Node application sees of jobs that EchoMQ did."""

import time

import pytest

from interop.processing import our_worker
from support.peer import Peer, PeerObject
from support.servers import Server

PAYLOADS = [None, 0, "text", [1, [2]], {"deep": {"er": [{"x": None}]}}, {"ключ": "значение 💌"}, "x" * 200_000, 1.5e300]


def _ids(seen: list[list[dict[str, str]]]) -> list[str]:
    return [args[0]["jobId"] for args in seen]


@pytest.fixture
async def queue(node: Peer) -> PeerObject:
    """Node's end of the queue."""
    return await node.open("Queue", "mail")


async def test_result_progress_and_logs(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """Node reads result, progress, logs and times of a job that we did."""
    plan = {"logs": ["one", "zwei ✓"], "progress": [50, {"step": 2}], "returns": {"sent": [True, None]}}
    added = await queue.call("add", "welcome", plan)

    async with our_worker(server, prefix):
        await events.until_emitted("completed")

    job = await queue.call("getJob", added["id"])
    assert job["returnvalue"] == {"sent": [True, None]}
    assert job["progress"] == {"step": 2}
    assert (job["attemptsMade"], job["attemptsStarted"]) == (1, 1)
    assert added["timestamp"] <= job["processedOn"] <= job["finishedOn"]
    assert (await queue.call("getJobLogs", added["id"])) == {"logs": ["one", "zwei ✓"], "count": 2}
    assert await queue.of_job(added["id"], "getState") == "completed"


async def test_events_tell_the_story(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """Node hears of each step of a job that we did, in order and with its values."""
    added = await queue.call("add", "welcome", {"progress": [1, {"of": 2}], "returns": "sent"})

    async with our_worker(server, prefix):
        await events.until_emitted("drained")

    story = [(seen["event"], seen["args"][0]) for seen in events.peer.happened if seen["from"] == events.handle]
    job_id = added["id"]
    assert story[:2] == [("added", {"jobId": job_id, "name": "welcome"}), ("waiting", {"jobId": job_id})]
    assert story[2:5] == [
        ("active", {"jobId": job_id, "prev": "waiting"}),
        ("progress", {"jobId": job_id, "data": 1}),
        ("progress", {"jobId": job_id, "data": {"of": 2}}),
    ]
    assert story[5][0] == "completed"
    assert story[5][1] == {"jobId": job_id, "returnvalue": "sent", "prev": "active"}


async def test_node_waits_for_our_result(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """A Node caller that waits for its job gets the value that our function returned."""
    added = await queue.call("add", "welcome", {"returns": 42, "takesMs": 50})

    async with our_worker(server, prefix):
        assert await queue.of_job(added["id"], "waitUntilFinished", events) == 42


async def test_values_pass_unchanged(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """Any JSON value that Node sends comes back to it unchanged through our worker (pain 56)."""
    for payload in PAYLOADS:
        await queue.call("add", "echo", {"returns": payload})

    async with our_worker(server, prefix):
        await events.until_emitted("completed", len(PAYLOADS))

    jobs = await queue.call("getJobs", ["completed"], 0, -1, True)
    assert [job["data"]["returns"] for job in jobs] == PAYLOADS
    assert [job["returnvalue"] for job in jobs] == PAYLOADS


async def test_delayed(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """A job that Node delays is not started by us before its time."""
    async with our_worker(server, prefix):
        added = await queue.call("add", "later", {}, {"delay": 400})
        await events.until_emitted("completed")

    job = await queue.call("getJob", added["id"])
    assert job["processedOn"] >= job["timestamp"] + 400
    assert _ids(events.emitted("delayed")) == [added["id"]]


async def test_prioritized(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """We start Node's jobs in the order of their priorities, those without one first."""
    for name, options in (("c", {"priority": 9}), ("b", {"priority": 2}), ("d", {"priority": 9}), ("a", {})):
        await queue.call("add", name, {"returns": name}, options)

    async with our_worker(server, prefix, concurrency=1):
        done = await events.until_emitted("completed", 4)

    assert [args[0]["returnvalue"] for args in done] == ["a", "b", "c", "d"]


async def test_last_in_first_out(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """We start a job that Node adds in front of the others first."""
    for name, options in (("b", {}), ("c", {}), ("a", {"lifo": True})):
        await queue.call("add", name, {"returns": name}, options)

    async with our_worker(server, prefix, concurrency=1):
        done = await events.until_emitted("completed", 3)

    assert [args[0]["returnvalue"] for args in done] == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["fixed", "exponential"])
async def test_retries(queue: PeerObject, events: PeerObject, server: Server, prefix: str, kind: str) -> None:
    """A job that fails twice with us is tried as often as Node asked, and then completed."""
    options = {"attempts": 3, "backoff": {"type": kind, "delay": 30}}
    added = await queue.call("add", "flaky", {"failures": 2, "returns": "at last"}, options)

    async with our_worker(server, prefix):
        await events.until_emitted("completed")

    job = await queue.call("getJob", added["id"])
    assert (job["returnvalue"], job["attemptsMade"]) == ("at last", 3)
    assert len(events.emitted("delayed")) == 2


async def test_failure(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """Node reads reason and traces of a job that failed with us each time."""
    added = await queue.call("add", "hopeless", {"failures": 9}, {"attempts": 2})

    async with our_worker(server, prefix):
        [[failed, *_]] = await events.until_emitted("failed")
        await events.until_emitted("retries-exhausted")

    assert failed == {"jobId": added["id"], "failedReason": "attempt 2 failed", "prev": "active"}
    job = await queue.call("getJob", added["id"])
    assert (job["failedReason"], job["attemptsMade"]) == ("attempt 2 failed", 2)
    assert len(job["stacktrace"]) == 2
    assert "attempt 1 failed" in job["stacktrace"][0]


async def test_unrecoverable(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """A job that our function declares hopeless fails at once, whatever attempts Node allowed."""
    added = await queue.call("add", "hopeless", {"unrecoverable": "no such person"}, {"attempts": 5})

    async with our_worker(server, prefix):
        await events.until_emitted("failed")

    job = await queue.call("getJob", added["id"])
    assert (job["failedReason"], job["attemptsMade"]) == ("no such person", 1)


async def test_deduplicated(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """While a job waits, its deduplication id belongs to it; when we finished it, Node may add another."""
    options = {"deduplication": {"id": "ada"}}
    first = await queue.call("add", "welcome", {}, options)
    second = await queue.call("add", "welcome", {}, options)

    async with our_worker(server, prefix):
        await events.until_emitted("completed")
        third = await queue.call("add", "welcome", {}, options)
        await events.until_emitted("completed", 2)

    assert first["id"] == second["id"] != third["id"]
    assert events.emitted("deduplicated")[0][0]["jobId"] == first["id"]


async def test_removed_when_done(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """Of the jobs we did, only as many are kept as Node asked for."""
    for number in range(5):
        await queue.call("add", f"n{number}", {}, {"removeOnComplete": 2})

    async with our_worker(server, prefix, concurrency=1):
        await events.until_emitted("completed", 5)

    kept = await queue.call("getJobs", ["completed"])
    assert sorted(job["name"] for job in kept) == ["n3", "n4"]


async def test_paused(queue: PeerObject, events: PeerObject, server: Server, prefix: str) -> None:
    """We take no job from a queue that Node paused, and go on when Node resumes it."""
    await queue.call("pause")
    async with our_worker(server, prefix):
        added = await queue.call("add", "welcome", {})
        await events.until_emitted("waiting")
        assert await queue.of_job(added["id"], "getState") == "waiting"

        await queue.call("resume")
        await events.until_emitted("completed")


async def test_worker_is_listed(queue: PeerObject, server: Server, prefix: str) -> None:
    """Node lists our worker among the workers of the queue, under its name."""
    deadline = time.monotonic() + 30
    async with our_worker(server, prefix, name="ada"):
        while not (workers := await queue.call("getWorkers")):
            assert time.monotonic() < deadline

    assert [(worker["name"], worker["rawname"].endswith(":w:ada")) for worker in workers] == [("mail", True)]
