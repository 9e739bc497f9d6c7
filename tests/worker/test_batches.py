"""Jobs that are taken and reported several at a time."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from echomq import Job
from echomq.aio.context import Context, current_context
from support.desk import Desk, gathered, happens, until
from support.limits import AT_ONCE_S
from support.proxy import Direction, Proxy, proxy_to
from support.servers import Server

JOBS, AT_ONCE = 60, 20


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """A way to the server that can be cut."""
    with proxy_to(server.host, server.port) as opened:
        yield opened


class Crowd:
    """A processor whose first jobs wait for each other, so that they end in the same moment; counts runs."""

    def __init__(self) -> None:
        self.runs: Counter[int] = Counter()
        self.full = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, job: Job) -> Any:
        """Process a job."""
        self.runs[job.data] += 1
        if len(self.runs) >= AT_ONCE:
            self.full.set()
        await self.open.wait()
        return job.data * 2


async def _results(desk: Desk, ids: list[str]) -> list[Any]:
    return [(await desk.job(job_id)).return_value for job_id in ids]


async def _calls(desk: Desk, command: str) -> int:
    stats = (await desk.do("INFO", "commandstats")).decode()
    rows = [row for row in stats.splitlines() if row.startswith(f"cmdstat_{command}:")]
    return sum(int(row.partition("calls=")[2].partition(",")[0]) for row in rows)


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("count", [0, 1, 300, 1_500, 4_000])
async def test_cut_in_a_report_of_many(desk: Desk, proxy: Proxy, direction: Direction, count: int) -> None:
    """A link that breaks within the report of many jobs loses none, runs none again and stores each result once."""
    through, crowd = attrs.evolve(desk, url=proxy.url), Crowd()
    ids = await desk.add_many(JOBS)
    async with through.working(crowd, concurrency=AT_ONCE) as worker:
        completed, wrong = gathered(worker, "completed", JOBS), []
        worker.on("failed", lambda *args: wrong.append(args))
        worker.on("lock_lost", lambda *args: wrong.append(args))
        await happens(crowd.full.wait())
        proxy.cut_after(direction, count)
        crowd.open.set()
        told = await happens(completed)

    assert await _results(desk, ids) == [number * 2 for number in range(JOBS)]
    assert crowd.runs == dict.fromkeys(range(JOBS), 1)
    assert sorted(job.id for job, _ in told) == sorted(ids)
    assert wrong == []
    assert await desk.counts() == {"completed": JOBS}
    assert await desk.do("XLEN", desk.keys.events) == JOBS * 4 + 1  # added, waiting, active, completed; drained


@pytest.mark.parametrize("count", [100, 400, 2_000])
async def test_cut_in_a_take_of_many(desk: Desk, proxy: Proxy, count: int) -> None:
    """Jobs that came with the reply of a take that was cut are found, and each runs once."""
    through, crowd = attrs.evolve(desk, url=proxy.url), Crowd()
    crowd.open.set()
    worker = through.worker(crowd, concurrency=AT_ONCE)
    drained, completed = gathered(worker, "drained", 1), gathered(worker, "completed", JOBS)
    running = asyncio.ensure_future(worker.run())
    await happens(drained)

    proxy.cut_after("down", count)
    ids = await desk.add_many(JOBS)
    await happens(completed)
    await worker.close()
    await happens(running)

    assert crowd.runs == dict.fromkeys(range(JOBS), 1)
    assert await _results(desk, ids) == [number * 2 for number in range(JOBS)]


async def test_many_jobs_cost_few_calls(desk: Desk) -> None:
    """Twenty slots are filled by one call, and what ends in the same moment is stored by a few."""
    crowd = Crowd()
    await desk.add_many(JOBS)
    before = await _calls(desk, "evalsha")
    async with desk.working(crowd, concurrency=AT_ONCE, skip_stalled_check=True) as worker:
        completed = gathered(worker, "completed", JOBS)
        await happens(crowd.full.wait())
        assert await _calls(desk, "evalsha") - before == 1
        crowd.open.set()
        await happens(completed)

    assert await _calls(desk, "evalsha") - before < JOBS / 3


async def test_listeners_know_the_job_that_completed(desk: Desk) -> None:
    """Whoever listens for results sees no other job's context, though many are told in one go."""
    crowd, seen = Crowd(), []
    await desk.add_many(AT_ONCE)
    async with desk.working(crowd, concurrency=AT_ONCE) as worker:
        worker.on("completed", lambda job, _: seen.append((job.id, current_context())))
        completed = gathered(worker, "completed", AT_ONCE)
        await happens(crowd.full.wait())
        crowd.open.set()
        await happens(completed)

    assert all(context is None or context.job.id == job_id for job_id, context in seen)


async def test_a_batch_keeps_each_jobs_own_rule(desk: Desk) -> None:
    """Jobs that end together are kept or removed as each of them says."""
    crowd = Crowd()
    kept = await desk.add_many(AT_ONCE // 2)
    await desk.add_many(AT_ONCE // 2, remove_on_complete=True)
    async with desk.working(crowd, concurrency=AT_ONCE) as worker:
        completed = gathered(worker, "completed", AT_ONCE)
        crowd.open.set()
        await happens(completed)

    assert await desk.counts() == {"completed": len(kept)}


async def test_a_parent_among_many_fails_alone(desk: Desk) -> None:
    """A job that ends although it has a child pending fails, and those that ended with it complete."""
    crowd = Crowd()

    async def work(job: Job, ctx: Context) -> Any:
        if job.data == 3:
            await ctx.add_child("child", queue="elsewhere")
        return await crowd(job)

    await desk.add_many(AT_ONCE)
    async with desk.working(work, concurrency=AT_ONCE) as worker:
        failed = gathered(worker, "failed", 1)
        await happens(crowd.full.wait())
        crowd.open.set()
        ((job, _),) = await happens(failed)
        await desk.until_counts(completed=AT_ONCE - 1, failed=1)

    assert job.data == 3


async def test_lost_lock_among_many(desk: Desk) -> None:
    """Of jobs that end together, the one whose lock is gone is not stored, and the others are."""
    crowd = Crowd()
    ids = await desk.add_many(AT_ONCE)
    async with desk.working(crowd, concurrency=AT_ONCE, skip_stalled_check=True) as worker:
        lost, completed = gathered(worker, "lock_lost", 1), gathered(worker, "completed", AT_ONCE - 1)
        await happens(crowd.full.wait())
        await desk.do("DEL", desk.keys.lock(ids[5]))
        crowd.open.set()
        ((job_id, _),) = await happens(lost)
        await happens(completed)

    assert job_id == ids[5]
    assert await desk.counts() == {"completed": AT_ONCE - 1, "active": 1}


async def test_close_waits_for_a_report_of_many(desk: Desk, proxy: Proxy) -> None:
    """Closing while the report of many jobs is under way ends when it is stored, and no job waits again."""
    through, crowd = attrs.evolve(desk, url=proxy.url), Crowd()
    await desk.add_many(AT_ONCE)
    worker = through.worker(crowd, concurrency=AT_ONCE)
    running = asyncio.ensure_future(worker.run())
    await happens(crowd.full.wait())
    proxy.hold("down")
    crowd.open.set()

    async def stored() -> bool:
        return (await desk.counts()).get("completed") == AT_ONCE

    await until(stored)
    closing = asyncio.ensure_future(worker.close())
    await asyncio.sleep(0)
    proxy.release("down")
    await happens(closing)
    await running

    assert await desk.counts() == {"completed": AT_ONCE}


async def test_forced_close_gives_up_a_report_of_many(desk: Desk, proxy: Proxy) -> None:
    """A forced close ends in time although the report of many jobs is not answered."""
    through, crowd = attrs.evolve(desk, url=proxy.url), Crowd()
    await desk.add_many(AT_ONCE)
    worker = through.worker(crowd, concurrency=AT_ONCE)
    running = asyncio.ensure_future(worker.run())
    await happens(crowd.full.wait())
    proxy.hold("down")
    crowd.open.set()

    await happens(worker.close(timeout=0), within_s=AT_ONCE_S)
    await running

    assert (await desk.counts()).get("waiting") is None
