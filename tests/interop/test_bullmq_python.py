"""BullMQ for Python and we take turns on one queue."""

from echomq import Queue
from interop.processing import our_worker
from support.peer import Peer, PeerObject
from support.servers import Server


async def test_it_adds_and_we_process(bullmq_python: Peer, events: PeerObject, server: Server, prefix: str) -> None:
    """We do a job of BullMQ for Python as its options say, and it reads the result."""
    theirs = await bullmq_python.open("Queue", "mail")
    plan = {"progress": [50], "failures": 1, "returns": ["sent", None]}
    added = await theirs.call("add", "welcome", plan, {"attempts": 2})

    async with our_worker(server, prefix):
        await events.until_emitted("completed")

    job = await theirs.call("getJob", added["id"])
    assert (job["returnvalue"], job["progress"], job["attemptsMade"]) == (["sent", None], 50, 2)


async def test_we_add_and_it_processes(bullmq_python: Peer, server: Server, prefix: str) -> None:
    """BullMQ for Python does our job, and we read its result."""
    async with Queue("mail", server.url, prefix=prefix) as queue:
        added = await queue.add("welcome", {"progress": [50], "returns": ["sent", None]}, priority=3)
        worker = await bullmq_python.open("Worker", "mail", {})
        await worker.until_emitted("completed")

        job = await queue.get_job(added.id)
    assert job is not None
    assert (job.return_value, job.progress) == (["sent", None], 50)
