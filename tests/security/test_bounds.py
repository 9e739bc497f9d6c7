"""Nothing grows: file descriptors over many openings, memory over many jobs, buffers while the server is away."""

import asyncio
import contextlib
import gc
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

import echomq
import echomq.sync
from echomq import ConnectionLost, Job, Queue, ReplyTimeout, Worker
from support.desk import Desk, at_desk, happens
from support.servers import Server, Servers

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")

CYCLES = 1_000
MIB = 1024 * 1024


def descriptors() -> int:
    """Open file descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a Path would open one itself


def memory() -> int:
    """Bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def open_queue(url: str, prefix: str) -> None:
    """Open a queue, use it, close it."""
    async with Queue("work", url, prefix=prefix) as queue:
        await queue.count()


async def open_blocking(url: str, prefix: str) -> None:
    """The same with the blocking shell."""
    with echomq.sync.Queue("work", url, prefix=prefix) as queue:
        queue.count()


async def open_worker(url: str, prefix: str) -> None:
    """Run a worker until it finds nothing to do."""

    async def nothing(_: Job) -> None:
        return None

    await Worker("work", nothing, url, prefix=prefix).run(until="drained")


@pytest.mark.parametrize(("use", "cycles"), [(open_queue, CYCLES), (open_blocking, CYCLES), (open_worker, 50)])
async def test_descriptors_are_steady(
    redis_server: Server, prefix: str, use: Callable[[str, str], "asyncio.Future[None]"], cycles: int
) -> None:
    """However often queues and workers are opened and closed, as many file descriptors are open as before."""
    await use(redis_server.url, prefix)
    before = descriptors()

    for _ in range(cycles):
        await use(redis_server.url, prefix)

    assert descriptors() <= before + 1


@pytest_asyncio.fixture
async def redis_desk(redis_server: Server, prefix: str) -> AsyncIterator[Desk]:
    """An empty queue."""
    async with at_desk(redis_server.url, prefix) as opened:
        yield opened


async def run_jobs(desk: Desk, count: int) -> None:
    """Add jobs that are removed when they are done, and work them off, with data, progress and logs."""
    done = 0

    async def work(job: Job, ctx: echomq.Context) -> object:
        nonlocal done
        done += 1
        if done % 50 == 0:
            await ctx.progress(done)
        return job.data

    async with Queue(desk.keys.queue, desk.url, prefix=desk.keys.prefix) as queue:
        for start in range(0, count, 5_000):
            jobs = [("n", {"number": start + index, "text": "x" * 100}) for index in range(min(5_000, count - start))]
            await queue.add_bulk(jobs, atomic=False)
            await happens(desk.worker(work, concurrency=50, remove_on_complete=True).run(until="drained"), 600)
    assert done == count
    assert await desk.counts() == {}


async def _grown(desk: Desk, count: int) -> int:
    await run_jobs(desk, 5_000)  # caches, pools and the allocator's arenas fill up
    before = memory()
    await run_jobs(desk, count)
    return memory() - before


@pytest.mark.skipif(sys.gettrace() is not None, reason="tracing takes memory of its own")
async def test_memory_of_a_worker_is_steady(redis_desk: Desk) -> None:
    """A worker takes no more memory after 10,000 jobs than after the first few thousand."""
    assert await _grown(redis_desk, 10_000) < 6 * MIB


@pytest.mark.heavy
@pytest.mark.timeout(1_800)
async def test_memory_after_a_million_jobs(redis_desk: Desk) -> None:
    """A worker takes no more memory after a million jobs than after the first few thousand."""
    assert await _grown(redis_desk, 1_000_000) < 12 * MIB


async def test_producer_while_the_server_is_away(servers: Servers, prefix: str) -> None:
    """Adds to a frozen server end at their deadline, take a bounded amount of memory, and give it back (pain 21)."""
    server = servers.start("redis")
    text = "x" * 1_000
    async with Queue("work", f"{server.url}?deadline_ms=1500&max_pending_bytes=1000000", prefix=prefix) as queue:
        await queue.add("n", text)
        server.pause()
        before = memory()
        began_s = time.monotonic()
        ended = await asyncio.gather(*(queue.add("n", text) for _ in range(5_000)), return_exceptions=True)
        took_s = time.monotonic() - began_s
        peak = memory() - before
        server.resume()

        assert all(isinstance(one, ConnectionLost | ReplyTimeout) for one in ended)
        assert took_s < 1.5 + 20
        del ended
        with contextlib.suppress(ReplyTimeout):  # the server has much to do when it goes on
            await queue.add("n", text)
        assert peak < 5_000 * 20_000
        assert memory() - before < 40 * MIB
