"""What workers tell of themselves while they run."""

import asyncio
import os
import socket
import time
from typing import Any

import echomq.sync
from echomq import Job, Queue
from echomq.calls.presence import WorkerDetails
from echomq.keys import Keys
from echomq.presence import Presence
from echomq.version import __version__
from support.desk import Desk, until


async def _told(desk: Desk, count: int, running: int | None = None) -> list[WorkerDetails]:
    """What workers tell, once there are so many, and each runs so many jobs (None: any number)."""
    found: list[WorkerDetails] = []

    async def reached() -> bool:
        async with Queue(desk.keys.queue, desk.connection, prefix=desk.keys.prefix, write_meta=False) as queue:
            found[:] = await queue.get_worker_details()
        return len(found) == count and all(running in (None, worker.running_count) for worker in found)

    await until(reached)
    return found


async def test_worker_tells_of_itself(desk: Desk) -> None:
    """A running worker is found with host, process, version, start and the jobs it runs; a closed one is not."""
    leave = asyncio.Event()

    async def process(_: Job) -> None:
        await leave.wait()

    before_ms = time.time() * 1000
    job_id = await desk.add()
    async with desk.working(process, name="ada", concurrency=3, lock_duration=400) as worker:
        [details] = await _told(desk, 1, running=1)
        leave.set()
        expires_ms = await desk.do("PTTL", f"{desk.keys.base}echomq:worker:{details.id}")
    after = await _told(desk, 0)

    assert worker.is_running is False
    assert (details.name, details.host, details.pid) == ("ada", socket.gethostname(), os.getpid())
    assert (details.version, details.concurrency, details.running_count) == (__version__, 3, 1)
    [note] = details.running
    assert (note.id, note.name) == (job_id, "work")
    assert before_ms - 1 <= details.started_ms <= details.seen_ms
    assert before_ms - 1 <= note.since_ms <= details.seen_ms
    assert 30_000 < expires_ms <= 45_000
    assert after == []
    assert not [key async for key in _keys(desk, "echomq:worker*")]


async def _keys(desk: Desk, pattern: str) -> Any:
    for key in await desk.do("KEYS", f"{desk.keys.base}{pattern}"):
        yield key


async def test_workers_that_died(desk: Desk) -> None:
    """A worker whose text has expired is told no more and forgotten; what cannot be read harms nothing."""
    first, second = Presence(desk.keys, "first"), Presence(desk.keys, None)
    for presence in (first, second):
        await desk.connection.send_batch(presence.telling(1, []))
    await desk.do("SET", f"{desk.keys.base}echomq:worker:{second.id}", '{"pid":"x","running":[7,{}]}')
    await desk.do("SADD", f"{desk.keys.base}echomq:workers", "odd", "dead")
    await desk.do("SET", f"{desk.keys.base}echomq:worker:odd", "no JSON")

    odd, other = await _told(desk, 2)

    assert (other.id, other.name) == (first.id, "first")
    assert (odd.id, odd.pid, [note.id for note in odd.running]) == (second.id, 0, [""])
    left = await desk.do("SMEMBERS", f"{desk.keys.base}echomq:workers")
    assert len(left) == 2


async def test_many_jobs(desk: Desk) -> None:
    """Of very many running jobs the number is told, and the 50 that have run longest."""
    jobs = [Job(keys=Keys("work"), id=str(number), name="n", processed_on_ms=number) for number in range(200, 0, -1)]
    await desk.connection.send_batch(Presence(desk.keys, None).telling(500, jobs))

    [details] = await _told(desk, 1)
    assert details.running_count == 200
    assert [note.id for note in details.running] == [str(number) for number in range(1, 51)]


async def test_blocking_queue_reads_it(desk: Desk) -> None:
    """A blocking queue tells the same, by the newer protocol, too."""
    await desk.connection.send_batch(Presence(desk.keys, "ada").telling(1, []))
    url = f"{desk.url}?protocol=3"
    with echomq.sync.Queue(desk.keys.queue, url, prefix=desk.keys.prefix) as queue:
        assert [details.name for details in queue.get_worker_details()] == ["ada"]
