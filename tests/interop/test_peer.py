"""The other sides work by themselves: what later tests expect of them, they do with nobody else on the queue."""

import contextlib

from support.peer import Peer, PeerObject
from support.servers import Server


async def test_node_works_alone(node: Peer, events: PeerObject) -> None:
    """A Node producer, worker and listener pass a job on and show its result, progress, logs and events."""
    queue = await node.open("Queue", "mail")
    plan = {"logs": ["one", "two"], "progress": [50, {"step": 2}], "failures": 1, "returns": {"sent": True}}

    added = await queue.call("add", "welcome", plan, {"attempts": 2})
    await node.open("Worker", "mail")
    [[completed, *_]] = await events.until_emitted("completed")

    assert completed["jobId"] == added["id"]
    job = await queue.call("getJob", added["id"])
    assert job["returnvalue"] == {"sent": True}
    assert job["progress"] == {"step": 2}
    assert job["attemptsMade"] == 2
    assert (await queue.call("getJobLogs", added["id"]))["logs"] == ["one", "two", "one", "two"]


async def test_node_keeps_to_the_prefix(node: Peer, server: Server, prefix: str) -> None:
    """Everything the Node process writes lies under the test's own prefix."""
    queue = await node.open("Queue", "mail")
    await queue.call("add", "welcome", {})

    with contextlib.closing(server.client(decode_responses=True)) as client:
        keys = list(client.scan_iter())
    assert keys
    assert all(key.startswith(f"{prefix}:mail:") for key in keys)


async def test_bullmq_python_works_alone(bullmq_python: Peer) -> None:
    """A producer and a worker of BullMQ for Python pass a job on and show its result."""
    queue = await bullmq_python.open("Queue", "mail")
    added = await queue.call("add", "welcome", {"progress": [50], "returns": {"sent": True}}, {})
    worker = await bullmq_python.open("Worker", "mail")

    [[completed, *_]] = await worker.until_emitted("completed")

    assert (completed["id"], completed["returnvalue"]) == (added["id"], {"sent": True})
