"""Traces that go on between this library and BullMQ for Node with its own telemetry, in both directions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from echomq import FlowNode, FlowProducer, Job, Queue, Worker
from support.desk import happens
from support.peer import Peer, traced_peer
from support.servers import Server
from support.telemetry import Exported


@pytest_asyncio.fixture
async def node(redis_server: Server, prefix: str) -> AsyncIterator[Peer]:
    """A Node process whose queues and workers trace."""
    async with traced_peer(redis_server, prefix) as peer:
        yield peer


async def _spans(node: Peer, beginning: str) -> list[dict[str, Any]]:
    found = await node.ask({"on": "traces", "call": "spans", "args": []})
    return [span for span in found if span["name"].startswith(beginning)]


async def test_from_node_to_here(exported: Exported, node: Peer, redis_server: Server, prefix: str) -> None:
    """What Node adds, alone, in bulk or as a flow, is processed here in Node's trace, below its span (pain 40)."""
    theirs, flows = await node.open("Queue", "mail"), await node.open("FlowProducer", {})
    await theirs.call("add", "single", {})
    await theirs.call("addBulk", [{"name": "bulk", "data": {}}])
    await flows.call("add", {"name": "root", "queueName": "mail", "opts": {}})
    await theirs.call("add", "alone", {}, {"telemetry": {"omitContext": True}})
    worker = Worker("mail", lambda _: None, redis_server.url, prefix=prefix, drain_delay=100)
    await happens(worker.run("drained"))

    added = {span["id"]: span["trace"] for span in await _spans(node, "add")}
    here = {span.attributes["bullmq.job.name"]: span for span in exported.spans("process mail")}
    assert {name: added.get(span.parent or "") for name, span in here.items() if name != "alone"} == {
        name: here[name].trace for name in ("single", "bulk", "root")
    }
    assert here["alone"].parent is None
    assert here["alone"].trace not in added.values()


async def test_scheduler_of_node(exported: Exported, node: Peer, redis_server: Server, prefix: str) -> None:
    """Jobs of a scheduler that Node made stay in the trace of its upsert, those made here, too."""
    theirs = await node.open("Queue", "mail")
    await theirs.call("upsertJobScheduler", "often", {"every": 10, "limit": 3}, {"name": "tick"})
    worker = Worker("mail", lambda _: None, redis_server.url, prefix=prefix, drain_delay=100)
    await happens(worker.run("drained"))

    [upsert] = await _spans(node, "add mail")
    processed = exported.spans("process mail")
    assert [(span.trace, span.parent) for span in processed] == [(upsert["trace"], upsert["id"])] * 3


async def test_from_here_to_node(exported: Exported, node: Peer, redis_server: Server, prefix: str) -> None:
    """What is added here, alone, in bulk or as a flow, is processed by Node in our trace, below our span (pain 40)."""
    async with (
        Queue("mail", redis_server.url, prefix=prefix) as queue,
        FlowProducer(redis_server.url, prefix=prefix) as flows,
    ):
        with exported.tracer.start_as_current_span("request"):
            await queue.add("single")
            await queue.add_bulk([("bulk", {})])
            await flows.add(FlowNode(queue="mail", name="root"))
            await queue.add("alone", omit_context=True)
    theirs = await node.open("Worker", "mail")
    await theirs.until_emitted("completed", 4)
    await theirs.call("close")

    request = exported.span("request")
    ours = {"single": "add mail.single", "bulk": "addBulk", "root": "addFlow"}
    there = {span["attributes"]["bullmq.job.name"]: span for span in await _spans(node, "process mail")}
    alone = there.pop("alone")
    assert {name: (span["trace"], span["parent"]) for name, span in there.items()} == {
        name: (request.trace, exported.span(span).id) for name, span in ours.items()
    }
    assert alone["parent"] is None
    assert alone["trace"] != request.trace


async def test_there_and_back(exported: Exported, node: Peer, redis_server: Server, prefix: str) -> None:
    """One trace spans a job added by Node, processed here, and the job that it adds, processed by Node (pain 40)."""
    first, last = await node.open("Queue", "first"), await node.open("Worker", "last")
    await first.call("add", "ask", {})
    async with Queue("last", redis_server.url, prefix=prefix) as queue:

        async def process(_: Job) -> None:
            await queue.add("answer")

        await happens(Worker("first", process, redis_server.url, prefix=prefix, drain_delay=100).run("drained"))
    await last.until_emitted("completed")
    await last.call("close")

    [asked], [answered] = await _spans(node, "add first"), await _spans(node, "process last")
    ran, added = exported.span("process first"), exported.span("add last.answer")
    assert [ran.parent, added.parent, answered["parent"]] == [asked["id"], ran.id, added.id]
    assert {asked["trace"], ran.trace, added.trace, answered["trace"]} == {asked["trace"]}


@pytest.mark.parametrize("option", ["add", "process"])
async def test_same_names(exported: Exported, node: Peer, redis_server: Server, prefix: str, option: str) -> None:
    """Spans of adding and processing have the names, kinds and attributes that Node gives them."""
    theirs = await node.open("Queue", "mail")
    await theirs.call("add", "there", {})
    there = await node.open("Worker", "mail", {"name": "ada"})
    await there.until_emitted("completed")
    await there.call("close")
    async with Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add("here")
    await happens(
        Worker("mail", lambda _: None, redis_server.url, prefix=prefix, drain_delay=100, name="ada").run("drained")
    )

    [expected] = await _spans(node, f"{option} mail")
    ours = exported.span(f"{option} mail")
    of_node_only = {"bullmq.worker.id", "bullmq.job.attempt_finished_timestamp"}
    assert ours.name.replace("here", "there") == expected["name"]
    assert ours.kind == {3: "PRODUCER", 4: "CONSUMER"}[expected["kind"]]
    assert set(expected["attributes"]) - of_node_only <= set(ours.attributes)
