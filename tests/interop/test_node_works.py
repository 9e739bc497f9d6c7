"""We add, Node processes, we read: what a Python application sees of jobs that Node did."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from echomq import Backoff, Deduplication, JobState, Queue
from support.peer import Peer, PeerObject
from support.servers import Server


@pytest.fixture
async def queue(server: Server, prefix: str) -> AsyncIterator[Queue]:
    """Our end of the queue."""
    async with Queue("mail", server.url, prefix=prefix) as opened:
        yield opened


async def test_result_progress_and_logs(node: Peer, queue: Queue, events: PeerObject) -> None:
    """We read result, progress, logs and times of a job that Node did."""
    plan = {"logs": ["one", "zwei ✓"], "progress": [50, {"step": 2}], "returns": {"sent": [True, None]}}
    added = await queue.add("welcome", plan)

    await node.open("Worker", "mail")
    await events.until_emitted("completed")

    job = await queue.get_job(added.id)
    assert job is not None
    assert job.return_value == {"sent": [True, None]}
    assert job.progress == {"step": 2}
    assert (job.attempts_made, job.attempts_started) == (1, 1)
    assert job.processed_on is not None
    assert job.finished_on is not None
    assert added.timestamp == job.timestamp
    assert job.processed_on <= job.finished_on
    assert await queue.get_job_logs(added.id) == ["one", "zwei ✓"]
    assert await queue.get_job_state(added.id) is JobState.COMPLETED


async def test_values_pass_unchanged(node: Peer, queue: Queue, events: PeerObject) -> None:
    """Any JSON value that we send comes back to us unchanged through Node's worker (pain 56)."""
    payloads = [
        "text",
        None,
        True,
        2**53 - 1,
        -1.5,
        {"deep": [{"er": [None]}]},
        {"ключ": "значение 💌 \u2028"},
        "x" * 100_000,
    ]
    added = await queue.add_bulk([("echo", {"returns": payload}) for payload in payloads])

    await node.open("Worker", "mail")
    await events.until_emitted("completed", len(payloads))

    done = {job.id: job for job in await queue.get_jobs(JobState.COMPLETED)}
    assert [done[job.id].data["returns"] for job in added] == payloads
    assert [done[job.id].return_value for job in added] == payloads


async def test_node_sees_our_options(node: Peer, queue: Queue) -> None:
    """Node reads every option that we set under the name it knows, and the same value."""
    added = await queue.add(
        "welcome",
        {"to": "ada"},
        job_id="custom",
        priority=7,
        delay=timedelta(minutes=1),
        attempts=4,
        backoff=Backoff(type="exponential", delay=200, jitter=0.5),
        keep_logs=3,
        remove_on_complete=True,
        stack_trace_limit=2,
    )

    seen = await (await node.open("Queue", "mail")).call("getJob", "custom")

    assert added.id == "custom"
    assert seen["data"] == {"to": "ada"}
    assert (seen["priority"], seen["delay"], seen["timestamp"]) == (7, 60_000, added.timestamp_ms)
    assert seen["opts"] == {
        "jobId": "custom",
        "priority": 7,
        "delay": 60_000,
        "attempts": 4,
        "backoff": {"type": "exponential", "delay": 200, "jitter": 0.5},
        "keepLogs": 3,
        "removeOnComplete": True,
        "stackTraceLimit": 2,
    }


async def test_delayed(node: Peer, queue: Queue, events: PeerObject) -> None:
    """A job that we delay is not started by Node before its time."""
    await node.open("Worker", "mail")
    added = await queue.add("later", {}, delay=400)
    await events.until_emitted("completed")

    job = await queue.get_job(added.id)
    assert job is not None
    assert job.processed_on_ms is not None
    assert job.processed_on_ms >= job.timestamp_ms + 400


async def test_prioritized(node: Peer, queue: Queue, events: PeerObject) -> None:
    """Node starts our jobs in the order of their priorities, those without one first."""
    await queue.add("c", {"returns": "c"}, priority=9)
    await queue.add("b", {"returns": "b"}, priority=2)
    await queue.add("d", {"returns": "d"}, priority=9)
    await queue.add("a", {"returns": "a"})

    await node.open("Worker", "mail")
    done = await events.until_emitted("completed", 4)

    assert [args[0]["returnvalue"] for args in done] == ["a", "b", "c", "d"]


async def test_retries(node: Peer, queue: Queue, events: PeerObject) -> None:
    """Node tries a failing job as often as we asked, and we read the traces."""
    good = await queue.add("flaky", {"failures": 2, "returns": "at last"}, attempts=3, backoff=30)
    bad = await queue.add("hopeless", {"failures": 9}, attempts=2)

    await node.open("Worker", "mail")
    await events.until_emitted("completed")
    await events.until_emitted("failed")

    done, failed = await queue.get_job(good.id), await queue.get_job(bad.id)
    assert done is not None
    assert failed is not None
    assert (done.return_value, done.attempts_made) == ("at last", 3)
    assert (failed.failed_reason, failed.attempts_made, len(failed.stacktrace)) == ("attempt 2 failed", 2, 2)
    assert await queue.get_job_state(bad.id) is JobState.FAILED


async def test_deduplicated(node: Peer, queue: Queue, events: PeerObject) -> None:
    """While a job waits, its deduplication id belongs to it; when Node finished it, we may add another."""
    owner = Deduplication(id="ada")
    first = await queue.add("welcome", {}, deduplication=owner)
    second = await queue.add("welcome", {}, deduplication=owner)

    await node.open("Worker", "mail")
    await events.until_emitted("completed")
    third = await queue.add("welcome", {}, deduplication=owner)

    assert first.id == second.id != third.id


async def test_bulk(node: Peer, queue: Queue, events: PeerObject) -> None:
    """Node does every job of a bulk that we added at once."""
    added = await queue.add_bulk([("n", {"returns": number}) for number in range(50)])

    await node.open("Worker", "mail", {"concurrency": 5})
    await events.until_emitted("completed", 50)

    done = {job.id: job.return_value for job in await queue.get_jobs(JobState.COMPLETED)}
    assert [done[job.id] for job in added] == list(range(50))


async def test_paused(node: Peer, queue: Queue, events: PeerObject) -> None:
    """Node takes no job from a queue that we paused, and goes on when we resume it."""
    await queue.pause()
    await node.open("Worker", "mail")
    added = await queue.add("welcome", {})
    await events.until_emitted("waiting")
    assert await queue.get_job_state(added.id) is JobState.WAITING

    await queue.resume()
    await events.until_emitted("completed")
