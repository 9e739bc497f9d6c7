"""The blocking worker in trouble: killed, told to end, its server restarted, its links cut."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest_asyncio

from echomq import Job
from echomq.sync import Context
from support.blocking import Awaited
from support.desk import Desk, at_desk, gathered, happens
from support.proxy import proxy_to
from support.servers import Server, Servers

from .conftest import StartWorker, says
from .test_killed_workers import QUICK, runs, until_runs

SCRIPT = "process_without_loop.py"


@pytest_asyncio.fixture
async def desk(redis_server: Server, prefix: str) -> AsyncIterator[Desk]:
    """An empty queue, whose workers block."""
    async with at_desk(redis_server.url, prefix, Awaited) as opened:
        yield opened


async def test_killed_process_loses_no_job(desk: Desk, start_worker: StartWorker) -> None:
    """SIGKILL of a blocking worker in the middle of 300 jobs loses none, and only running ones run again (pain 7)."""
    ids = await desk.add_many(300)
    victim = await start_worker(desk, SCRIPT, concurrency=10, sleep_ms=5, **QUICK)
    await until_runs(desk, 100)
    victim.kill()
    await happens(victim.wait())

    await start_worker(desk, SCRIPT, concurrency=10, max_stalled_count=3, **QUICK)
    await desk.until_counts(completed=300)
    ran = await runs(desk)

    assert set(ran) == set(ids)
    assert sum(ran.values()) - 300 <= 10


async def test_sigterm_ends_a_process_gracefully(desk: Desk, start_worker: StartWorker) -> None:
    """SIGTERM lets running jobs end and be stored; a second one ends a process whose jobs would go on (pain 31)."""
    await desk.add_many(15)
    worker = await start_worker(desk, SCRIPT, concurrency=10, sleep_ms=3_000)
    await until_runs(desk, 10)
    worker.send_signal(signal.SIGTERM)
    assert await happens(worker.wait()) == 0
    assert await desk.counts() == {"completed": 10, "waiting": 5}

    stuck = await start_worker(desk, SCRIPT, concurrency=5, sleep_ms=60_000)
    await until_runs(desk, 15)
    stuck.send_signal(signal.SIGTERM)
    await says(stuck, "closing")
    stuck.send_signal(signal.SIGTERM)
    assert await happens(stuck.wait()) == 0
    assert await desk.counts() == {"completed": 10, "waiting": 5}


async def test_restarted_server_loses_no_job(servers: Servers, prefix: str) -> None:
    """A server that is killed and started again in the middle of 200 jobs loses none, and no job runs twice."""
    server = servers.start("redis", aof=True)
    ran: Counter[int] = Counter()
    half = asyncio.Event()

    async def work(job: Job) -> Any:
        ran[job.data] += 1
        if len(ran) == 80:
            half.set()
        await asyncio.sleep(0.005)
        return job.data

    async with at_desk(server.url, prefix, Awaited) as desk:
        await desk.add_many(200)
        async with desk.working(work, concurrency=8) as worker:
            failed = gathered(worker, "failed", 1)
            await happens(half.wait())
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.restart)
            await desk.until_counts(completed=200)
            assert not failed.done()

    assert set(ran.values()) == {1}


async def test_links_cut_inside_replies(redis_server: Server, desk: Desk) -> None:
    """Links that break after any byte of a reply cost no job, no second run and no lost lock (pain 14)."""
    ran: Counter[int] = Counter()
    told: list[Any] = []
    dice = random.Random(5)

    def work(job: Job, ctx: Context) -> Any:
        ran[job.data] += 1
        ctx.log("begun")
        ctx.progress(job.data)
        return job.data

    with proxy_to(redis_server.host, redis_server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        ids = await desk.add_many(150)
        async with through.working(work, concurrency=6) as worker:
            for event in ("failed", "lock_lost"):
                worker.on(event, lambda *args, event=event: told.append((event, args)))
            while (await desk.counts()).get("completed", 0) < 150:
                await asyncio.to_thread(proxy.cut_after, "down", dice.randrange(1, 4_000))
                await asyncio.sleep(0.03)
        jobs = [await desk.job(job_id) for job_id in ids]

    assert told == []
    assert set(ran.values()) == {1}
    assert [(job.return_value, job.attempts_made, job.stalled_count) for job in jobs] == [
        (number, 1, 0) for number in range(150)
    ]
