"""Events that one runtime causes and another one reads."""

from collections.abc import AsyncIterator

import pytest

from echomq import Queue, QueueEvents, QueueEventsProducer, events
from support.desk import happens, until
from support.peer import Peer, PeerObject
from support.servers import Server


@pytest.fixture
async def log(server: Server, prefix: str) -> AsyncIterator[QueueEvents]:
    """Our reader of the queue ``mail``, that is ready."""
    async with QueueEvents("mail", server.url, prefix=prefix) as opened:
        yield opened


async def test_we_read_what_node_does(node: Peer, log: QueueEvents) -> None:
    """The life of a job that Node adds and processes is read as typed events, progress and result included."""
    theirs = await node.open("Queue", "mail")
    job = await theirs.call("add", "welcome", {"progress": [{"step": 1}], "returns": {"sent": [True]}})
    await node.open("Worker", "mail")

    async def life() -> list[events.Event]:
        seen: list[events.Event] = []
        async for event in log:
            seen.append(event)
            if isinstance(event, events.Completed):
                break
        return seen

    seen = await happens(life())
    kinds = [events.Added, events.Waiting, events.Active, events.Progress, events.Completed]
    assert [type(event) for event in seen] == kinds
    assert {event.job_id for event in seen} == {job["id"]}
    assert (seen[3].progress, seen[4].return_value) == ({"step": 1}, {"sent": [True]})


async def test_we_wait_for_what_node_does(node: Peer, server: Server, prefix: str) -> None:
    """Results of jobs that Node processes and removes at once come back, one for each of 100 jobs."""
    await node.open("Worker", "mail", {"concurrency": 5, "removeOnComplete": {"count": 0}})
    async with Queue("mail", server.url, prefix=prefix) as queue:
        for number in range(100):
            job = await queue.add("n", {"returns": number})
            assert await happens(queue.result(job.id)) == number
        assert await queue.get_jobs() == []


async def test_node_reads_our_own_events(events: PeerObject, server: Server, prefix: str) -> None:
    """Node hears an own event that we publish under its name, with its fields as text."""
    async with QueueEventsProducer("mail", server.url, prefix=prefix) as producer:
        event_id = await producer.publish("invoice-sent", {"number": 7})

    assert await events.until_emitted("invoice-sent") == [[{"number": "7"}, event_id]]


@pytest.mark.usefixtures("log")
async def test_node_finds_our_readers(node: Peer) -> None:
    """Node lists our readers of a queue's events beside its own."""
    theirs = await node.open("Queue", "mail")

    async def is_listed() -> bool:
        return len(await theirs.call("getQueueEvents")) == 1

    await until(is_listed)
