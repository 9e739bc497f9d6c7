"""What two clients of one queue must be able to do together, one exchange a row of the page ``docs/interop.md``.

An exchange is a function that is given both sides; it returns if all went well.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs

from echomq import FlowNode, FlowProducer, JobState, Queue, QueueEvents, RateLimit, events
from interop.processing import our_worker
from support.desk import happens, until
from support.peer import Peer, PeerObject, node_peer, python_peer
from support.servers import Server

__all__ = ["ABSENT", "EXCHANGES", "PEERS", "Sides", "both"]

PROCESS = Path(__file__).parents[1] / "chaos" / "process.py"
DEAD_SOON: dict[str, Any] = {"lockDuration": 1_000, "stalledInterval": 300}


@attrs.frozen
class Sides:
    """One queue in two hands.

    Attributes:
        server: Where it is.
        prefix: Of its keys.
        peer: The other process.
        theirs: Their queue ``mail``.
        ours: The same, ours.
        python: Whether the other side is the one for Python, some of whose names differ.
    """

    server: Server
    prefix: str
    peer: Peer
    theirs: PeerObject
    ours: Queue
    python: bool

    async def worker(self, queue: str = "mail", **options: Any) -> PeerObject:
        """Start one of their workers."""
        return await self.peer.open("Worker", queue, options)

    def working(self, **options: Any) -> "contextlib.AbstractAsyncContextManager[Any]":
        """Let one of our workers work."""
        return our_worker(self.server, self.prefix, **options)

    async def their_job(self, job_id: str) -> dict[str, Any]:
        """Let them read a job."""
        found: dict[str, Any] = await self.theirs.call("getJob", job_id)
        return found


Exchange = Callable[[Sides], Awaitable[None]]


async def _add_there(sides: Sides) -> None:
    added = await sides.theirs.call("add", "welcome", {"returns": ["sent", None]}, {"attempts": 2})
    async with sides.working():
        assert await happens(sides.ours.result(added["id"])) == ["sent", None]
    assert (await sides.their_job(added["id"]))["returnvalue"] == ["sent", None]


async def _add_here(sides: Sides) -> None:
    job = await sides.ours.add("welcome", {"returns": ["sent", None], "failures": 1}, attempts=2)
    await sides.worker()
    assert await happens(sides.ours.result(job.id)) == ["sent", None]


async def _flow(sides: Sides, *, made_there: bool, parent_there: bool) -> None:
    parents, children = ("far", "mail") if parent_there else ("mail", "far")
    if made_there:
        producer = await sides.peer.open("FlowProducer", "far")
        child = {"name": "child", "queueName": children, "data": {}}
        parent = {"name": "parent", "queueName": parents, "data": {}, "opts": {"jobId": "top"}}
        await producer.call("add", {**parent, "children": [child] * 2})
    else:
        node = FlowNode(queue=children, name="child", data={})
        async with FlowProducer(sides.server.url, prefix=sides.prefix) as flows:
            options: Any = {"job_id": "top"}
            await flows.add(FlowNode(queue=parents, name="parent", data={}, options=options, children=[node] * 2))
    async with Queue(parents, sides.server.url, prefix=sides.prefix) as queue, sides.working():
        await sides.worker("far")
        assert (await happens(queue.result("top")))["name"] == "parent"
        values = await queue.get_children_values("top")
    assert [value["name"] for value in values.values()] == ["child", "child"]


async def _ticks(sides: Sides, *, late: bool = False) -> None:
    """Wait for three jobs of a scheduler, each at its time; a late worker leaves times out."""
    done: list[int] = []
    async with QueueEvents("mail", sides.server.url, prefix=sides.prefix, last_event_id=events.BEGINNING) as log:

        async def read() -> None:
            async for event in log:
                if isinstance(event, events.Completed):
                    done.append(int(event.job_id.rpartition(":")[2]))
                    if len(done) == 3:
                        return

        await happens(read())
    gaps = [after - before for before, after in itertools.pairwise(done)]
    assert all(gap % 200 == 0 for gap in gaps) if late else gaps == [200, 200]


async def _scheduler_there(sides: Sides) -> None:
    template: Any = {"name": "tick", "data": {"returns": 1}, "opts": {}}
    given = ["tick", {"returns": 1}] if sides.python else [template]
    await sides.theirs.call("upsertJobScheduler", "s", {"every": 200, "limit": 3}, *given)
    async with sides.working():
        await _ticks(sides)


async def _scheduler_here(sides: Sides) -> None:
    await sides.ours.upsert_job_scheduler("s", every=200, limit=3, name="tick", data={"returns": 1})
    await sides.worker()
    await _ticks(sides, late=sides.python)  # it waits in whole seconds


async def _holds_one(sides: Sides) -> None:
    async def one_done() -> bool:
        counts = await sides.ours.get_job_counts("completed", "active", "waiting")
        return list(counts.values()) == [1, 0, 2] and await sides.ours.get_rate_limit_ttl() > 0

    await until(one_done)


async def _rate_limit_there(sides: Sides) -> None:
    await sides.theirs.call("setGlobalRateLimit", 1, 60_000)
    await sides.ours.add_bulk([("n", {})] * 3)
    async with sides.working(concurrency=3):
        await _holds_one(sides)


async def _rate_limit_here(sides: Sides) -> None:
    await sides.ours.set_global_rate_limit(RateLimit(1, 60_000))
    await sides.ours.add_bulk([("n", {})] * 3)
    await sides.worker(concurrency=3)
    await _holds_one(sides)


async def _one_at_a_time(sides: Sides) -> None:
    async def done() -> bool:
        return (await sides.ours.get_job_counts("completed"))[JobState.COMPLETED] == 4

    await until(done, 60)  # that for Python rests 5 s after it met the limit
    jobs = sorted(await sides.ours.get_jobs("completed"), key=lambda job: job.processed_on_ms or 0)
    for job, after in itertools.pairwise(jobs):
        assert (after.processed_on_ms or 0) >= (job.finished_on_ms or 0)


async def _concurrency_there(sides: Sides) -> None:
    await sides.theirs.call("setGlobalConcurrency", 1)
    await sides.ours.add_bulk([("n", {"takesMs": 40})] * 4)
    async with sides.working(concurrency=4):
        await _one_at_a_time(sides)


async def _concurrency_here(sides: Sides) -> None:
    await sides.ours.set_global_concurrency(1)
    await sides.ours.add_bulk([("n", {"takesMs": 40})] * 4)
    await sides.worker(concurrency=4)
    await _one_at_a_time(sides)


async def _pause_there(sides: Sides) -> None:
    await sides.theirs.call("pause")
    assert await sides.ours.is_paused()
    async with sides.working() as worker:
        job = await sides.ours.add("n", {"returns": 1})
        await until(lambda: _is_running(worker))
        assert await sides.ours.get_job_state(job.id) is JobState.WAITING
        await sides.theirs.call("resume")
        assert await happens(sides.ours.result(job.id)) == 1


async def _is_running(worker: Any) -> bool:
    return bool(worker.is_running)


async def _pause_here(sides: Sides) -> None:
    await sides.ours.pause()
    assert await sides.theirs.call("isPaused")
    await sides.worker()
    job = await sides.ours.add("n", {"returns": 1})
    assert await sides.ours.get_job_state(job.id) is JobState.WAITING
    await sides.ours.resume()
    assert await happens(sides.ours.result(job.id)) == 1


async def _events_there(sides: Sides) -> None:
    await sides.worker()
    async with QueueEvents("mail", sides.server.url, prefix=sides.prefix, last_event_id=events.BEGINNING) as log:
        await sides.theirs.call("add", "n", {"progress": [50], "returns": {"ok": True}})
        seen: list[str] = []

        async def read() -> None:
            async for event in log:
                seen.append(type(event).__name__)
                if isinstance(event, events.Completed):
                    assert event.return_value == {"ok": True}
                    return

        await happens(read())
    assert [name for name in seen if name != "Drained"] == ["Added", "Waiting", "Active", "Progress", "Completed"]


async def _events_here(sides: Sides) -> None:
    heard = await sides.peer.open("QueueEvents", "mail", {"lastEventId": "0-0"})
    job = await sides.ours.add("n", {"progress": [50], "returns": {"ok": True}})
    async with sides.working():
        completed = await heard.until_emitted("completed")
    assert (completed[0][0]["jobId"], completed[0][0]["returnvalue"]) == (job.id, {"ok": True})
    assert heard.emitted("active")
    assert heard.emitted("progress")[0][0]["data"] == 50


async def _progress_there(sides: Sides) -> None:
    job = await sides.ours.add("n", {"progress": [{"sent": 5}], "logs": ["one", "two"]})
    await sides.worker()
    await happens(sides.ours.result(job.id))
    found = await sides.ours.get_job(job.id)
    assert found is not None
    assert (found.progress, await sides.ours.get_job_logs(job.id)) == ({"sent": 5}, ["one", "two"])


async def _progress_here(sides: Sides) -> None:
    job = await sides.ours.add("n", {"progress": [{"sent": 5}], "logs": ["one", "two"]})
    async with sides.working():
        await happens(sides.ours.result(job.id))
    assert (await sides.their_job(job.id))["progress"] == {"sent": 5}
    assert (await sides.theirs.call("getJobLogs", job.id))["logs"] == ["one", "two"]


async def _same(sides: Sides, first_there: bool, there: dict[str, Any], here: dict[str, Any], **options: Any) -> bool:
    async def add(is_there: bool, data: int) -> str:
        if is_there:
            added = await sides.theirs.call("add", "n", {"n": data}, {"deduplication": there, **options})
            return str(added["id"])
        return (await sides.ours.add("n", {"n": data}, deduplication=here, **options)).id

    return await add(first_there, 1) == await add(not first_there, 2)


async def _deduplicated(sides: Sides, *, first_there: bool) -> None:
    assert await _same(sides, first_there, {"id": "plain"}, {"id": "plain"})
    assert await sides.theirs.call("getDeduplicationJobId", "plain") == await sides.ours.get_deduplication_job_id(
        "plain"
    )
    assert await _same(sides, first_there, {"id": "a", "ttl": 60_000}, {"id": "a", "ttl": 60_000})
    debounce = {"id": "b", "ttl": 60_000, "extend": True, "replace": True}
    await _same(sides, first_there, debounce, debounce, delay=60_000)
    assert [job.data for job in await sides.ours.get_jobs("delayed")] == [{"n": 2}]


async def _keep_last(sides: Sides, *, first_there: bool) -> None:
    there, here = {"id": "k", "keepLastIfActive": True}, {"id": "k", "keep_last_if_active": True}
    job = await sides.ours.add("n", {"takesMs": 600}, deduplication=here)

    async def active() -> bool:
        return await sides.ours.get_job_state(job.id) is JobState.ACTIVE

    async def both_done() -> bool:
        return (await sides.ours.get_job_counts("completed"))[JobState.COMPLETED] == 2

    async with contextlib.AsyncExitStack() as stack:
        if first_there:
            await stack.enter_async_context(sides.working())
        else:
            await sides.worker()
        await until(active)
        if first_there:
            await sides.theirs.call("add", "last", {"n": 2}, {"deduplication": there})
        else:
            await sides.ours.add("last", {"n": 2}, deduplication=here)
        await until(both_done)
    assert {found.name for found in await sides.ours.get_jobs("completed")} == {"n", "last"}


async def _crash_there(sides: Sides) -> None:
    await sides.worker(**DEAD_SOON)
    job = await sides.ours.add("n", {"takesMs": 60_000})

    async def active() -> bool:
        return await sides.ours.get_job_state(job.id) is JobState.ACTIVE

    await until(active)
    sides.peer.kill()
    await sides.ours.update_data(job.id, {"returns": "saved"})
    async with sides.working(stalled_interval=300):
        assert await happens(sides.ours.result(job.id)) == "saved"
    found = await sides.ours.get_job(job.id)
    assert found is not None
    assert found.stalled_count == 1


async def _crash_here(sides: Sides) -> None:
    options = json.dumps({"sleep_ms": 60_000, "lock_duration": 1_000, "stalled_interval": 300})
    command = [sys.executable, str(PROCESS), sides.server.url, sides.prefix, options]
    dying = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    async with Queue("work", sides.server.url, prefix=sides.prefix) as queue:
        try:
            job = await queue.add("n", 1)

            async def active() -> bool:
                return await queue.get_job_state(job.id) is JobState.ACTIVE

            await until(active)
        finally:
            dying.kill()
            await dying.communicate()
        await queue.update_data(job.id, {"returns": "saved"})
        await sides.worker("work", stalledInterval=300)
        assert await happens(queue.result(job.id)) == "saved"


async def _workers_there(sides: Sides) -> None:
    await sides.worker(name="bob")

    async def listed() -> bool:
        return [worker.name for worker in await sides.ours.get_workers()] == ["bob"]

    await until(listed)


async def _workers_here(sides: Sides) -> None:
    async with sides.working(name="ada"):

        async def listed() -> bool:
            found = await sides.theirs.call("get_workers" if sides.python else "getWorkers")
            return [worker["rawname"].rpartition(":w:")[2] for worker in found] == ["ada"]

        await until(listed)


async def _readers_there(sides: Sides) -> None:
    await sides.peer.open("QueueEvents", "mail", {})

    async def listed() -> bool:
        return len(await sides.ours.get_event_readers()) == 1

    await until(listed)


async def _prometheus(sides: Sides) -> None:
    await sides.ours.add_bulk([("n", {}), ("n", {}, {"delay": 60_000})])
    await sides.ours.add("n", {}, priority=3)
    async with sides.working(metrics=10):
        await until(lambda: _has_done(sides, 2))
    labels = {"env": 'a"b\\c', "zone": "1"}
    ours = (await sides.ours.prometheus(labels)).split("\n")
    theirs = (await sides.theirs.call("exportPrometheusMetrics", labels)).split("\n")
    assert _numbers(ours) == _numbers(theirs)


async def _has_done(sides: Sides, count: int) -> bool:
    return (await sides.ours.get_job_counts("completed"))[JobState.COMPLETED] == count


def _numbers(lines: list[str]) -> list[str]:
    """The lines but for the free text, for what only we tell, and for a state that 6.0 did away with."""
    bare = (line for line in lines if not line.startswith("# HELP") and "echomq_" not in line)
    return [line for line in bare if 'state="paused"' not in line]


EXCHANGES: dict[str, Exchange] = {
    "they add, we process": _add_there,
    "we add, they process": _add_here,
    "flow of theirs: parent there, children here": lambda sides: _flow(sides, made_there=True, parent_there=True),
    "flow of theirs: parent here, children there": lambda sides: _flow(sides, made_there=True, parent_there=False),
    "flow of ours: parent there, children here": lambda sides: _flow(sides, made_there=False, parent_there=True),
    "flow of ours: parent here, children there": lambda sides: _flow(sides, made_there=False, parent_there=False),
    "scheduler made there, run here": _scheduler_there,
    "scheduler made here, run there": _scheduler_here,
    "rate limit set there holds here": _rate_limit_there,
    "rate limit set here holds there": _rate_limit_here,
    "global concurrency set there holds here": _concurrency_there,
    "global concurrency set here holds there": _concurrency_here,
    "paused there, resumed there": _pause_there,
    "paused here, resumed here": _pause_here,
    "their events, read here": _events_there,
    "our events, read there": _events_here,
    "progress and logs of their worker": _progress_there,
    "progress and logs of our worker": _progress_here,
    "deduplication, throttle, debounce: they first": lambda sides: _deduplicated(sides, first_there=True),
    "deduplication, throttle, debounce: we first": lambda sides: _deduplicated(sides, first_there=False),
    "the last of duplicates runs after the active one: theirs": lambda sides: _keep_last(sides, first_there=True),
    "the last of duplicates runs after the active one: ours": lambda sides: _keep_last(sides, first_there=False),
    "their worker crashes, ours recovers the job": _crash_there,
    "our worker crashes, theirs recovers the job": _crash_here,
    "their workers, listed here": _workers_there,
    "our workers, listed there": _workers_here,
    "their readers of events, listed here": _readers_there,
    "Prometheus: the same lines (5.81.5 has `paused` besides)": _prometheus,
}

PEERS = {"BullMQ 6.7.0 for Node": "node", "BullMQ 5.81.5 for Node": "node-5", "BullMQ 3.4.4 for Python": "python"}

_OTHER_NAMES = "it names its connections in a way of its own, so Node does not find them either"

ABSENT: dict[tuple[str, str], str] = {
    ("python", "their workers, listed here"): _OTHER_NAMES,
    ("python", "our workers, listed there"): "it looks for names of its own way, so it does not find Node's either",
    ("python", "their readers of events, listed here"): _OTHER_NAMES,
    ("python", "Prometheus: the same lines (5.81.5 has `paused` besides)"): "it has none",
}
"""Exchanges that the other side cannot do, with the reason."""


@contextlib.asynccontextmanager
async def both(release: str, server: Server, prefix: str) -> AsyncIterator[Sides]:
    """Open one queue on both sides."""
    is_python = release == "python"
    process = python_peer(server, prefix) if is_python else node_peer(server, prefix, release)
    async with process as peer, Queue("mail", server.url, prefix=prefix) as ours:
        yield Sides(server, prefix, peer, await peer.open("Queue", "mail", {}), ours, is_python)
