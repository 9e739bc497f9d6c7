"""Workers of several kinds serve one queue, and each job is done once."""

from collections import Counter

from interop.processing import our_worker
from support.peer import Peer, PeerObject
from support.servers import Server

JOBS = 2_000


async def test_node_and_we_share_a_queue(node: Peer, events: PeerObject, server: Server, prefix: str) -> None:
    """Of 2,000 jobs, each is done once, by a Node worker or by ours, and both do their part."""
    queue = await node.open("Queue", "mail")
    theirs = await node.open("Worker", "mail", {"concurrency": 10})
    async with our_worker(server, prefix, concurrency=10):
        for start in range(0, JOBS, 500):
            jobs = [{"name": "n", "data": {"n": n, "takesMs": 1}} for n in range(start, start + 500)]
            await queue.call("addBulk", jobs)
        done = await events.until_emitted("completed", JOBS, within_s=120)
        await theirs.call("close")

    by = Counter(args[0]["returnvalue"]["by"] for args in done)
    assert len({args[0]["jobId"] for args in done}) == len(done) == JOBS
    assert by.keys() == {"node", "echomq"}
    jobs = await queue.call("getJobs", ["completed"], 0, JOBS)
    assert sorted(job["data"]["n"] for job in jobs) == list(range(JOBS))
    assert {job["attemptsStarted"] for job in jobs} == {1}
    assert {name: count for name, count in (await queue.call("getJobCounts")).items() if count} == {"completed": JOBS}


async def test_three_kinds_share_a_queue(
    node: Peer, events: PeerObject, bullmq_python: Peer, server: Server, prefix: str
) -> None:
    """BullMQ for Node, BullMQ for Python and we do each of 300 jobs once between us."""
    queue = await node.open("Queue", "mail")
    await node.open("Worker", "mail")
    await bullmq_python.open("Worker", "mail", {})
    async with our_worker(server, prefix):
        await queue.call("addBulk", [{"name": "n", "data": {"takesMs": 5}} for _ in range(300)])
        done = await events.until_emitted("completed", 300, within_s=120)

    assert len({args[0]["jobId"] for args in done}) == len(done) == 300
    assert {args[0]["returnvalue"]["by"] for args in done} == {"node", "bullmq-python", "echomq"}
