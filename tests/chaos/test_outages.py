"""Servers that restart and links that break in the middle of work."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from typing import Any

import pytest

from echomq import Job
from echomq.aio.context import Context
from support.desk import Desk, at_desk, gathered, happens, until
from support.limits import AT_ONCE_S, at_once
from support.proxy import proxy_to
from support.servers import Server


async def nothing(_: Job) -> None:
    """The least a job can do."""


async def test_restarted_server_loses_no_job(durable: Server, prefix: str) -> None:
    """A server that is killed and started again in the middle of 500 jobs loses none, and no job runs twice."""
    runs: Counter[int] = Counter()
    half = asyncio.Event()

    async def work(job: Job) -> Any:
        runs[job.data] += 1
        if len(runs) == 200:
            half.set()
        await asyncio.sleep(0.005)
        return job.data

    async with at_desk(durable.url, prefix) as desk:
        ids = await desk.add_many(500)
        async with desk.working(work, concurrency=10) as worker:
            failed = gathered(worker, "failed", 1)
            await happens(half.wait())
            await asyncio.to_thread(durable.kill)
            await asyncio.sleep(0.3)
            await asyncio.to_thread(durable.restart)
            await desk.until_counts(completed=500)
            assert not failed.done()
        results = [(await desk.job(job_id)).return_value for job_id in ids]

    assert results == list(range(500))
    assert set(runs.values()) == {1}


async def test_links_killed_all_the_time(server: Server, desk: Desk) -> None:
    """While all connections are killed every 100 ms, 200 jobs log, report and finish as if nothing were (pain 14)."""
    runs: Counter[int] = Counter()
    failures: list[Any] = []
    steps: list[str] = []

    async def work(job: Job, ctx: Context) -> Any:
        runs[job.data] += 1
        await ctx.log("begun")
        steps.append("logged")
        await ctx.progress(job.data)
        steps.append("reported")
        await ctx.update_data(job.data)
        steps.append("changed")
        await asyncio.sleep(0.02)
        return job.data

    def kill_for_ever() -> None:
        with contextlib.closing(server.client()) as client:
            while not over.is_set():
                client.client_kill_filter(_type="normal", skipme=True)
                before = len(steps)
                time.sleep(0.1)
                while len(steps) == before and not over.wait(0.01):
                    pass  # where the machine is busy, a new connection must live until it has been of use

    over = threading.Event()
    ids = await desk.add_many(200)
    killer = threading.Thread(target=kill_for_ever)
    killer.start()
    try:
        async with desk.working(work, concurrency=4) as worker:
            worker.on("failed", lambda *args: failures.append(args))
            worker.on("lock_lost", lambda *args: failures.append(args))
            await desk.until_counts(completed=200)
    finally:
        over.set()
        await asyncio.to_thread(killer.join)
    jobs = [await desk.job(job_id) for job_id in ids]

    assert failures == []
    assert set(runs.values()) == {1}
    assert [(job.return_value, job.progress, job.attempts_made, job.stalled_count) for job in jobs] == [
        (number, number, 1, 0) for number in range(200)
    ]


async def test_idle_worker_wakes_after_a_restart(durable: Server, prefix: str) -> None:
    """An idle worker outlives a restart of its server, and a job added afterwards runs when it is due (pain 11)."""
    async with at_desk(durable.url, prefix) as desk, desk.working(nothing, drain_delay=1_000) as worker:
        await asyncio.to_thread(durable.restart)
        completed = gathered(worker, "completed", 1)
        await desk.add(delay=1_000)
        await happens(completed, AT_ONCE_S)


async def test_long_outage_is_logged_once(server: Server, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """An outage of seconds, with jobs running, makes one line in the log and one error event (pain 1)."""
    gate = asyncio.Event()
    caplog.set_level(logging.WARNING)

    async def work(_: Job) -> None:
        await gate.wait()

    async def waits() -> bool:
        return b"blocked_clients:1" in await desk.do("INFO", "clients")

    with proxy_to(server.host, server.port) as proxy:
        through = Desk(proxy.url, desk.keys, desk.connection)
        await desk.add_many(10)
        async with through.working(work, concurrency=20, lock_duration=30_000) as worker:
            await desk.until_counts(active=10)
            await until(waits)
            errors = gathered(worker, "error", 1)
            seen: list[Any] = []
            worker.on("error", seen.append)
            caplog.clear()
            proxy.refuse()
            proxy.cut()
            await happens(errors)
            gate.set()
            await asyncio.sleep(2)
            assert len(seen) == 1
            assert len([record for record in caplog.records if record.name.startswith("echomq")]) == 1
            proxy.accept()
            await desk.until_counts(completed=10)


async def test_server_that_is_not_ready_is_waited_for(server: Server, desk: Desk) -> None:
    """While a server answers that it cannot write just now, nothing fails, and the work goes on when it can again."""
    gate = asyncio.Event()
    inside = asyncio.Event()

    async def work(_: Job) -> str:
        inside.set()
        await gate.wait()
        return "done"

    with contextlib.closing(server.client()) as client:
        await desk.add_many(3)
        async with desk.working(work, concurrency=2) as worker:
            failed = gathered(worker, "failed", 1)
            await happens(inside.wait())
            errors = gathered(worker, "error", 1)
            client.replicaof("127.0.0.1", str(server.port))
            try:
                gate.set()
                await happens(errors)
            finally:
                client.replicaof("NO", "ONE")
            await desk.until_counts(completed=3)
            assert not failed.done()


async def test_frozen_server_does_not_hold_up_a_close(server: Server, desk: Desk) -> None:
    """A worker whose server does not answer any more closes within its timeout."""
    inside = asyncio.Event()

    async def work(_: Job) -> None:
        inside.set()

    with proxy_to(server.host, server.port) as proxy:
        through = Desk(proxy.url, desk.keys, desk.connection)
        worker = through.worker(work)
        running = asyncio.ensure_future(worker.run())
        await happens(gathered(worker, "drained", 1))
        proxy.hold("down")
        await desk.add()
        await desk.until_counts(waiting=1)
        with at_once():
            await worker.close(timeout=300)
        await running
