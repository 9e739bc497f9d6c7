"""A queue that BullMQ 5.81.5, BullMQ 6.7.0 and we use at the same time.

The scripts of 5 keep the jobs of a paused queue in a list of its own, take twelve
keys where ours take eleven, tell of events that ours do not know, and other old
clients have left fields and markers behind. Source: protocol 01 section 14.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import attrs
import pytest
import pytest_asyncio

from echomq import JobState, Queue
from interop.processing import our_worker
from support.peer import Peer, PeerObject, node_peer
from support.servers import Server
from support.stored import Stored

SHARE = 100
NOW_MS = 1_700_000_000_000


@attrs.frozen
class Sides:
    """One queue in three hands, and what one listener hears of it.

    Attributes:
        old: The queue of BullMQ 5.81.5; its ``peer`` opens workers.
        new: The queue of BullMQ 6.7.0.
        ours: Our queue.
        events: A listener of 6.7.0.
    """

    old: PeerObject
    new: PeerObject
    ours: Queue
    events: PeerObject

    async def waiting(self) -> dict[str, int]:
        """How many jobs wait, as each side counts them."""
        old = await self.old.call("getJobCounts", "wait", "paused")
        new = await self.new.call("getJobCounts", "wait", "paused")
        ours = await self.ours.get_job_counts("waiting")
        return {"old": sum(old.values()), "new": sum(new.values()), "ours": ours[JobState.WAITING]}


@pytest_asyncio.fixture
async def old_node(server: Server, prefix: str) -> AsyncIterator[Peer]:
    """A process with BullMQ 5.81.5 beside the test's server."""
    async with node_peer(server, prefix, "node-5") as peer:
        yield peer


@pytest_asyncio.fixture
async def sides(node: Peer, old_node: Peer, events: PeerObject, server: Server, prefix: str) -> AsyncIterator[Sides]:
    """The queue ``mail`` in all three hands."""
    async with Queue("mail", server.url, prefix=prefix) as ours:
        yield Sides(await old_node.open("Queue", "mail"), await node.open("Queue", "mail"), ours, events)


@pytest.fixture
def stored(server: Server, prefix: str) -> Iterator[Stored]:
    """What the server holds of that queue."""
    with contextlib.closing(server.client(decode_responses=True)) as client:
        yield Stored(client, f"{prefix}:mail")


def _bulk(side: str, count: int = SHARE, **plan: object) -> list[dict[str, object]]:
    return [{"name": side, "data": {"n": n, "takesMs": 2, **plan}} for n in range(count)]


async def _add_everywhere(sides: Sides) -> None:
    await asyncio.gather(
        sides.old.call("addBulk", _bulk("old")),
        sides.new.call("addBulk", _bulk("new")),
        sides.ours.add_bulk([("ours", {"n": n, "takesMs": 2}) for n in range(SHARE)]),
    )


async def _done(sides: Sides, count: int) -> list[dict[str, str]]:
    seen = await sides.events.until_emitted("completed", count, within_s=120)
    return [args[0] for args in seen]


async def test_three_releases_share_a_queue(
    sides: Sides, node: Peer, old_node: Peer, server: Server, prefix: str, stored: Stored
) -> None:
    """Of 300 jobs added by 5.81.5, 6.7.0 and us, each is done once, and all three do their part."""
    await _add_everywhere(sides)
    # The same process code serves both releases, so the clients' names tell who did a job.
    await old_node.open("Worker", "mail", {"name": "old", "concurrency": 3})
    await node.open("Worker", "mail", {"name": "new", "concurrency": 3})
    async with our_worker(server, prefix, name="ours", concurrency=3):
        done = await _done(sides, 3 * SHARE)

    assert len({event["jobId"] for event in done}) == len(done) == 3 * SHARE
    jobs = [stored.job(event["jobId"]) for event in done]
    assert Counter(job["name"] for job in jobs) == {"old": SHARE, "new": SHARE, "ours": SHARE}
    assert {job["ats"] for job in jobs} == {"1"}
    assert {job["pb"] for job in jobs} == {"old", "new", "ours"}


async def test_retries_pass_from_hand_to_hand(
    sides: Sides, node: Peer, old_node: Peer, server: Server, prefix: str
) -> None:
    """Jobs that fail twice, with and without a wait, are retried by whichever release takes them, and all succeed."""
    for backoff in (0, 20):
        options = {"attempts": 3, "backoff": backoff}
        await sides.old.call("addBulk", [{**job, "opts": options} for job in _bulk("old", 15, failures=2)])
        await sides.ours.add_bulk([("ours", {"failures": 2, "takesMs": 2}, {**options})] * 15)
    await old_node.open("Worker", "mail", {"concurrency": 2})
    await node.open("Worker", "mail", {"concurrency": 2})
    async with our_worker(server, prefix, concurrency=2):
        done = await _done(sides, 60)

    assert len({event["jobId"] for event in done}) == len(done) == 60
    counts = await sides.ours.get_job_counts()
    assert {state: count for state, count in counts.items() if count} == {JobState.COMPLETED: 60}


async def test_paused_by_5_resumed_by_us(sides: Sides, stored: Stored, server: Server, prefix: str) -> None:
    """What waits when 5.81.5 pauses and what is added meanwhile, by any side, is all there when we resume."""
    before = await sides.old.call("addBulk", _bulk("before", 5))
    await sides.old.call("pause")
    assert await sides.ours.is_paused()
    assert stored.ids("paused") == [str(job["id"]) for job in reversed(before)]
    await sides.ours.add("meanwhile", {})
    await sides.new.call("add", "meanwhile", {})
    await sides.old.call("add", "meanwhile", {})
    assert await sides.waiting() == {"old": 8, "new": 8, "ours": 8}

    async with our_worker(server, prefix):
        await sides.ours.resume()
        done = await _done(sides, 8)

    assert len({event["jobId"] for event in done}) == 8
    assert not await sides.old.call("isPaused")
    assert await sides.waiting() == {"old": 0, "new": 0, "ours": 0}


async def test_legacy_paused_jobs_are_waiting_jobs(sides: Sides, stored: Stored) -> None:
    """A job in the list of a paused queue of 5.81.5 is found, told as waiting, removed, drained and cleaned by us."""
    ids = [str(job["id"]) for job in await sides.old.call("addBulk", _bulk("aside", 4))]
    await sides.old.call("pause")

    assert await sides.ours.get_job_state(ids[0]) is JobState.WAITING
    assert sorted(job.id for job in await sides.ours.get_jobs("waiting")) == sorted(ids)
    await sides.ours.remove(ids[0])
    assert stored.ids("paused") == [ids[3], ids[2], ids[1]]
    assert await sides.ours.clean(0, state="waiting", limit=1) == [ids[1]]
    await sides.ours.drain()
    assert await sides.waiting() == {"old": 0, "new": 0, "ours": 0}
    assert not [job_id for job_id in ids if stored.job(job_id)]


async def test_old_field_names(sides: Sides, stored: Stored, server: Server, prefix: str) -> None:
    """The old name of a job's attempts is read, and a field no release knows any more does no harm."""
    await sides.ours.pause()
    job = await sides.ours.add("old", {"takesMs": 1})
    stored.client.hset(stored.key(job.id), mapping={"attemptsMade": "2", "nrjid": "repeat:x:1"})

    found = await sides.ours.get_job(job.id)

    assert found is not None
    assert found.attempts_made == 2
    async with our_worker(server, prefix):
        await sides.ours.resume()
        await _done(sides, 1)


@pytest.mark.parametrize("marker", ["0:0", "0:1700000000000"])
async def test_legacy_markers_in_wait(marker: str, sides: Sides, stored: Stored, server: Server, prefix: str) -> None:
    """An entry that an old client left in wait as a marker is no job: it is neither counted nor run."""
    await sides.ours.add("real", {"takesMs": 1})
    await sides.ours.add("urgent", {"takesMs": 1}, priority=3)
    stored.client.rpush(stored.key("wait"), marker)

    assert (await sides.ours.get_job_counts("waiting"))[JobState.WAITING] == 1
    stored.client.rpush(stored.key("wait"), marker)
    assert len(await sides.ours.get_jobs("waiting")) == 1
    stored.client.rpush(stored.key("wait"), marker)
    async with our_worker(server, prefix):
        done = await _done(sides, 2)

    assert len({event["jobId"] for event in done}) == 2
    assert marker not in stored.ids("wait") + stored.ids("active")
    assert not stored.client.exists(stored.key(marker))


async def test_delayed_by_5_and_promoted_by_us(
    sides: Sides, old_node: Peer, stored: Stored, server: Server, prefix: str
) -> None:
    """A job that a worker of 5.81.5 delayed, by its script of twelve keys, is run by us when it is due."""
    worker = await old_node.open("Worker", "mail")
    await sides.old.call("add", "again", {"failures": 1}, {"attempts": 2, "backoff": 400})
    await old_node.until(lambda _: worker.emitted("failed"))
    await worker.call("close")
    assert stored.ids("delayed") == ["1"]

    async with our_worker(server, prefix):
        done = await _done(sides, 1)

    assert done[0]["jobId"] == "1"
    assert stored.job("1")["atm"] == "2"


async def test_debounced_events_are_heard(sides: Sides, stored: Stored) -> None:
    """The event that 5.81.5 tells beside each refused duplicate stands in the log we read, and we refuse alike."""
    dedup = {"deduplication": {"id": "d1"}}
    first = await sides.old.call("add", "once", {}, dedup)
    again = await sides.old.call("add", "once", {}, dedup)
    ours = await sides.ours.add("once", {}, deduplication={"id": "d1"})

    assert {first["id"], again["id"], ours.id} == {"1"}
    told = [event["event"] for event in stored.events()]
    assert told.count("debounced") == 1
    assert told.count("deduplicated") == 2


async def test_parents_and_children_of_all_releases(
    sides: Sides, old_node: Peer, node: Peer, server: Server, prefix: str
) -> None:
    """A flow made by 5.81.5 is finished by all three, and the parent sees the result of each child."""
    producer = await old_node.open("FlowProducer")
    tree = {
        "name": "top",
        "queueName": "mail",
        "children": [{**job, "queueName": "mail"} for job in _bulk("child", 30)],
    }
    flow = await producer.call("add", tree)
    await old_node.open("Worker", "mail")
    await node.open("Worker", "mail")
    async with our_worker(server, prefix):
        done = await _done(sides, 31)

    top = str(flow["job"]["id"])
    assert done[-1]["jobId"] == top
    assert len(await sides.new.of_job(top, "getChildrenValues")) == 30
