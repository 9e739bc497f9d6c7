"""When jobs run: delays, priorities, rate limits, shared limits."""

import asyncio
import math
import random
import time
from typing import Any

import pytest

from echomq import Job, RateLimited
from support.desk import Desk, happens, until
from support.limits import AT_ONCE_S, best_of


def noted(starts: "list[tuple[Any, float]]") -> Any:
    """A processor that notes when each job started."""

    async def note(job: Job) -> None:
        starts.append((job.data, time.time() * 1000))

    return note


async def nothing(job: Job) -> None:
    """The least a job can do."""


async def test_delayed_jobs_run_when_due(desk: Desk) -> None:
    """An idle worker starts delayed jobs when they are due, neither earlier nor a second late."""
    starts: list[tuple[Any, float]] = []

    async def latest_ms() -> float:
        starts.clear()
        now_ms = time.time_ns() // 10**6
        for delay in (700, 200, 300):
            await desk.add(delay, delay=delay, timestamp=now_ms, remove_on_complete=True)
        await desk.until_counts()
        late = {delay: at - now_ms - delay for delay, at in starts}
        assert min(late.values()) >= -2, late
        return max(late.values()) if list(late) == [200, 300, 700] else math.inf

    async with desk.working(noted(starts)):
        await best_of(latest_ms, 400)


async def test_job_on_idle_queue_starts_at_once(desk: Desk) -> None:
    """A job added to a queue whose worker waits starts at once, not at the end of the wait."""
    starts: list[tuple[Any, float]] = []
    async with desk.working(noted(starts), drain_delay=30_000):
        added_ms = time.time() * 1000
        await desk.add()
        await desk.until_counts(completed=1)

    assert starts[0][1] - added_ms < AT_ONCE_S * 1000


async def test_many_jobs_due_together_run_once_each(desk: Desk) -> None:
    """2,000 jobs due in the same millisecond, with five workers, run once each (pain 9)."""
    starts: list[tuple[Any, float]] = []
    due_ms = time.time_ns() // 10**6 + 1_500
    await asyncio.gather(*(desk.add(n, delay=1_500, timestamp=due_ms - 1_500) for n in range(2_000)))
    workers = [desk.worker(noted(starts), concurrency=10) for _ in range(5)]
    running = asyncio.gather(*(worker.run() for worker in workers))
    await desk.until_counts(completed=2_000)
    await asyncio.gather(*(worker.close() for worker in workers))
    await happens(running)

    assert sorted(data for data, _ in starts) == list(range(2_000))
    assert min(at for _, at in starts) >= due_ms


async def test_priorities_are_kept(desk: Desk) -> None:
    """Jobs without priority run first, then lower numbers before higher, and first come first within one (pain 51)."""
    starts: list[tuple[Any, float]] = []
    for name, priority in [("c", 2_097_151), ("b1", 5), ("a", 1), ("b2", 5), ("none", 0)]:
        await desk.add(name, priority=priority)

    await desk.worker(noted(starts)).run(until="drained")

    assert [name for name, _ in starts] == ["none", "a", "b1", "b2", "c"]


async def test_order_holds_through_limits_and_pauses(desk: Desk) -> None:
    """Within one priority jobs keep their order through manual rate limits and pauses (pain 50)."""
    dice = random.Random(7)
    done: list[tuple[int, int]] = []

    async def work(job: Job) -> None:
        if dice.random() < 0.05:
            raise RateLimited(dice.randrange(1, 30))
        done.append((job.priority, job.data))

    for number in range(200):
        await desk.add(number, priority=1 + number % 2)
    async with desk.working(work, limiter={"max": 10_000, "duration": 1_000}) as worker:
        for _ in range(5):
            await asyncio.sleep(0.02)
            await worker.pause()
            worker.resume()
        await desk.until_counts(completed=200)

    assert done == sorted(done)


async def test_order_holds_through_retries(desk: Desk) -> None:
    """A job that is retried lines up behind its priority, and the others keep their order (pain 50)."""
    done: list[tuple[int, bool, int]] = []

    async def work(job: Job) -> None:
        is_first = job.attempts_made == 0
        if is_first and job.data % 5 == 0:
            raise RuntimeError("once more")
        done.append((job.priority, not is_first, job.data))

    for number in range(60):
        await desk.add(number, priority=1 + number % 2, attempts=2)
    await desk.worker(work).run(until="drained")

    assert len(done) == 60
    assert done == sorted(done)


async def test_rate_limit_spaces_jobs(desk: Desk) -> None:
    """With one job per 200 ms five jobs start 200 ms apart."""
    starts: list[tuple[Any, float]] = []

    async def took_ms() -> float:
        starts.clear()
        await desk.add_many(5)
        begun_ms = time.time() * 1000
        await happens(desk.worker(noted(starts), limiter={"max": 1, "duration": 200}).run(until="drained"))
        after = [at - begun_ms for _, at in starts]
        assert len(after) == 5
        assert all(ms > 200 * number - 10 for number, ms in enumerate(after)), after
        return after[-1]

    await best_of(took_ms, 5 * 200 + 250)


async def test_rate_limit_is_shared_by_workers(desk: Desk) -> None:
    """A limit counts over all workers of the queue (pain 53)."""
    starts: list[tuple[Any, float]] = []
    await desk.add_many(12)
    workers = [desk.worker(noted(starts), concurrency=3, limiter={"max": 4, "duration": 400}) for _ in range(3)]
    begun_ms = time.time() * 1000
    running = asyncio.gather(*(worker.run() for worker in workers))
    await desk.until_counts(completed=12)
    await asyncio.gather(*(worker.close() for worker in workers))
    await running

    after = sorted(at - begun_ms for _, at in starts)
    assert all(ms > 400 * (number // 4) - 10 for number, ms in enumerate(after)), after


async def test_limited_worker_still_promotes_delayed_jobs(desk: Desk) -> None:
    """However long a rate limit lasts, a worker looks again after its longest rest."""
    starts: list[tuple[Any, float]] = []
    await desk.do("SET", desk.keys.limiter, 10**9, "PX", 60_000)
    async with desk.working(
        noted(starts), limiter={"max": 1, "duration": 60_000}, maximum_rate_limit_delay=100, ready=False
    ):
        await desk.add()
        await asyncio.sleep(0.2)
        assert not starts
        await desk.do("DEL", desk.keys.limiter)
        await desk.until_counts(completed=1)


async def test_queue_limits_concurrency_over_workers(desk: Desk) -> None:
    """The queue's own concurrency bounds the active jobs of all workers together."""
    inside = most = 0

    async def work(_: Job) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.01)
        inside -= 1

    await desk.do("HSET", desk.keys.meta, "concurrency", 3)
    await desk.add_many(20)
    async with (
        desk.working(work, concurrency=5, drain_delay=50),
        desk.working(work, concurrency=5, drain_delay=50),
    ):
        await desk.until_counts(completed=20)

    assert most == 3


async def test_paused_queue_is_left_alone(desk: Desk) -> None:
    """Jobs of a paused queue wait until it is resumed, and then start at once."""
    from echomq.calls.queue import pause, resume

    await desk.connection.send(pause(desk.keys))
    await desk.add_many(3)
    async with desk.working(nothing, drain_delay=30_000):
        assert await desk.counts() == {"waiting": 3}
        await desk.connection.send(resume(desk.keys))
        await happens(desk.until_counts(completed=3), AT_ONCE_S)


@pytest.mark.parametrize("concurrency", [1, 50])
async def test_idle_worker_is_quiet(desk: Desk, concurrency: int) -> None:
    """An idle worker sends one take for each wait, whatever its concurrency."""

    async def calls() -> tuple[int, int]:
        rows = (await desk.do("INFO", "commandstats")).decode().splitlines()

        def of(command: str) -> int:
            found = [row for row in rows if row.startswith(f"cmdstat_{command}:")]
            return sum(int(row.split("calls=")[1].split(",")[0]) for row in found)

        return of("evalsha"), of("bzpopmin")

    async with desk.working(nothing, concurrency=concurrency, drain_delay=50, skip_stalled_check=True):
        takes, waits = await calls()

        async def waited() -> bool:
            return (await calls())[1] >= waits + 3

        await until(waited)
        takes_after, waits_after = await calls()

    assert abs((takes_after - takes) - (waits_after - waits)) <= 1
