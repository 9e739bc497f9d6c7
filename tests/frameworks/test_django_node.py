"""Node and Django's tasks: it adds them by their path, and reads the results of those that Django enqueued."""

import asyncio

from echomq_django.framework import FAILED, SUCCESSFUL
from frameworks.shop import tasks
from support.peer import node_peer
from support.servers import Server

from .conftest import Site


async def test_node_calls_a_task(site: Site, redis_server: Server) -> None:
    """What Node adds is run as a task with its result readable here, and the reverse."""
    async with node_peer(redis_server, site.prefix) as node:
        queue = await node.open("Queue", "default")
        added = await queue.call("add", "frameworks.shop.tasks.total", {"args": [[1, 2]], "kwargs": {"discount": 1}})
        charged = await tasks.charge.aenqueue(5)
        await asyncio.to_thread(site.work)
        seen = await queue.call("getJob", charged.id.partition(":")[2])

    found = await tasks.total.aget_result(f"default:{added['id']}")
    await charged.arefresh()
    assert (found.status, found.return_value, charged.status) == (SUCCESSFUL, 2, FAILED)
    assert (seen["name"], seen["attemptsMade"], seen["opts"]["priority"]) == ("frameworks.shop.tasks.charge", 3, 101)
    assert seen["failedReason"].startswith("no 5 cents")
    assert [failure["attempt"] for failure in seen["data"]["failures"]] == [1, 2, 3]
