"""A worker without an event loop beside one of BullMQ's."""

import asyncio

from interop.processing import work
from support.blocking import Awaited
from support.peer import Peer, PeerObject
from support.servers import Server


async def test_node_and_a_blocking_worker_share_a_queue(
    node: Peer, events: PeerObject, server: Server, prefix: str
) -> None:
    """Of 300 jobs, each is done once, by a Node worker or by our blocking one, and both do their part."""
    queue = await node.open("Queue", "mail")
    await node.open("Worker", "mail", {"concurrency": 5})
    worker = Awaited("mail", work, server.url, prefix=prefix, concurrency=5)
    running = asyncio.ensure_future(worker.run())
    await queue.call("addBulk", [{"name": "n", "data": {"takesMs": 5, "progress": [50]}} for _ in range(300)])
    done = await events.until_emitted("completed", 300, within_s=120)
    await worker.close()
    await running

    assert len({args[0]["jobId"] for args in done}) == len(done) == 300
    assert {args[0]["returnvalue"]["by"] for args in done} == {"node", "echomq"}
