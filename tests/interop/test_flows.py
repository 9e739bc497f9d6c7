"""Flows whose parents and children belong to different runtimes."""

from typing import Any

import pytest

from echomq import FlowNode, FlowProducer, JobFailed, JobState, Queue
from interop.processing import our_worker
from support.desk import happens
from support.peer import Peer
from support.servers import Server


@pytest.mark.parametrize(("parents", "children"), [("node", "ours"), ("ours", "node")])
@pytest.mark.parametrize("producer", ["node", "ours"])
async def test_family_of_two_runtimes(
    node: Peer, server: Server, prefix: str, producer: str, parents: str, children: str
) -> None:
    """A parent of one runtime runs after its children of the other, whoever added the flow."""
    queues = {"node": "theirs", "ours": "mail"}
    async with Queue(queues[parents], server.url, prefix=prefix) as queue:
        parent_id = await _added(producer, node, server, prefix, queues[parents], queues[children], {})
        await node.open("Worker", "theirs")
        async with our_worker(server, prefix):
            result = await happens(queue.result(parent_id))

        assert result == {"by": "node" if parents == "node" else "echomq", "name": "parent"}
        values = await queue.get_children_values(parent_id)
        assert [value["by"] for value in values.values()] == ["node" if children == "node" else "echomq"] * 2


@pytest.mark.parametrize(("parents", "children"), [("node", "ours"), ("ours", "node")])
async def test_failing_upward(node: Peer, server: Server, prefix: str, parents: str, children: str) -> None:
    """A parent of one runtime fails once, without being run, when a child of the other fails (pain 49)."""
    queues = {"node": "theirs", "ours": "mail"}
    plan = {"unrecoverable": "no paper"}
    async with Queue(queues[parents], server.url, prefix=prefix) as queue:
        events = await node.open("QueueEvents", queues[parents], {"lastEventId": "0-0"})
        parent_id = await _added("ours", node, server, prefix, queues[parents], queues[children], plan)
        await node.open("Worker", "theirs")
        async with our_worker(server, prefix):
            with pytest.raises(JobFailed, match=r"child .* failed"):
                await happens(queue.result(parent_id))
            after = await queue.add("after")
            assert (await happens(queue.result(after.id)))["name"] == "after"

        assert await queue.get_job_state(parent_id) is JobState.FAILED
        failed = await events.until_emitted("failed")
        assert [seen[0]["jobId"] for seen in failed] == [parent_id]


async def _added(
    producer: str, node: Peer, server: Server, prefix: str, parents: str, children: str, plan: dict[str, Any]
) -> str:
    """Add a flow of a parent with two children, and return the parent's id."""
    if producer == "ours":
        child = FlowNode(queue=children, name="child", data=plan, options={"fail_parent_on_failure": True})
        async with FlowProducer(server.url, prefix=prefix) as flows:
            tree = await flows.add(FlowNode(queue=parents, name="parent", data={}, children=[child] * 2))
        return tree.job.id
    theirs = await node.open("FlowProducer", None)
    child_of_node = {"name": "child", "queueName": children, "data": plan}
    flow = {"name": "parent", "queueName": parents, "data": {}, "children": [child_of_node] * 2, "opts": {"jobId": "p"}}
    await theirs.call("add", flow)
    return "p"
