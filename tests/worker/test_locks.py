"""Locks: kept while a job runs, whatever it does, and given up cleanly when lost."""

import asyncio
import contextlib
import logging
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

from echomq import Job
from echomq.aio.context import Context, ThreadContext
from support.desk import Desk, gathered, happens
from support.limits import DEADLINE_S
from support.proxy import proxy_to
from support.servers import Server

LOCK_MS = 1_500
"""Short for a lock; a worker that a busy machine holds up for half of it still keeps it."""

SHORT: Any = {"lock_duration": LOCK_MS, "stalled_interval": 100}


async def nothing(job: Job) -> None:
    """The least a job can do."""


async def test_lost_lock_cancels_the_job(desk: Desk) -> None:
    """When a lock is lost the job is cancelled, that is told once, and no result is written (pain 1)."""
    inside, cancelled = asyncio.Event(), asyncio.Event()

    async def work(_: Job) -> str:
        inside.set()
        try:
            await asyncio.sleep(DEADLINE_S)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "never"

    job_id = await desk.add()
    told: list[Any] = []
    async with desk.working(work, name="first", skip_stalled_check=True, lock_duration=LOCK_MS) as worker:
        for event in ("completed", "failed", "error"):
            worker.on(event, lambda *args, name=event: told.append((name, args)))
        lost = gathered(worker, "lock_lost", 1)
        await happens(inside.wait())
        await desk.do("DEL", desk.keys.lock(job_id))
        assert await happens(lost) == [(job_id, "first")]
        await happens(cancelled.wait())
        await asyncio.sleep(0.2)
        assert len(lost.result()) == 1

    assert told == []
    assert await desk.counts() == {"active": 1}


async def test_lost_job_finishes_once_elsewhere(desk: Desk) -> None:
    """A job whose lock was lost is recovered by another worker and finishes there, once (pain 1)."""
    runs: list[str] = []
    inside = asyncio.Event()

    async def stuck(_: Job, ctx: Context) -> str:
        runs.append("first")
        inside.set()
        await ctx.cancelled.wait()
        return "from the first"

    async def quick(_: Job) -> str:
        runs.append("second")
        return "from the second"

    job_id = await desk.add()
    async with desk.working(stuck, lock_duration=LOCK_MS, skip_stalled_check=True) as first:
        lost = gathered(first, "lock_lost", 1)
        await happens(inside.wait())
        await desk.do("DEL", desk.keys.lock(job_id))
        await happens(lost)
        await first.pause()
        async with desk.working(quick, **SHORT):
            await desk.until_counts(completed=1)

    job = await desk.job(job_id)
    assert job.return_value == "from the second"
    assert runs == ["first", "second"]
    assert job.stalled_count == 1


async def test_thread_is_told_that_its_lock_is_lost(desk: Desk) -> None:
    """A plain function learns from ctx that its lock is lost, and what it returns is not stored."""
    inside = threading.Event()

    def work(_: Job, ctx: ThreadContext) -> str:
        inside.set()
        assert ctx.cancelled.wait(DEADLINE_S)
        return "too late"

    job_id = await desk.add()
    async with desk.working(work, lock_duration=LOCK_MS, skip_stalled_check=True) as worker:
        lost = gathered(worker, "lock_lost", 1)
        await happens(asyncio.to_thread(inside.wait, DEADLINE_S))
        await desk.do("DEL", desk.keys.lock(job_id))
        await happens(lost)
        await happens(worker.pause())

    assert (await desk.job(job_id)).raw_return_value is None


async def test_lock_lost_at_the_very_end(desk: Desk) -> None:
    """A lock that is found gone only when the result is reported is told as lost, and nothing is written."""

    async def work(job: Job) -> str:
        await desk.do("SET", desk.keys.lock(job.id), "another worker's")
        return "too late"

    job_id = await desk.add()
    worker = desk.worker(work, skip_stalled_check=True)
    lost = gathered(worker, "lock_lost", 1, then=worker.stop)
    completed = gathered(worker, "completed", 1)
    await happens(worker.run())

    assert lost.done()
    assert not completed.done()
    assert (await desk.job(job_id)).raw_return_value is None


async def test_long_plain_function_keeps_its_lock(desk: Desk) -> None:
    """A plain function that sleeps through two lock lives runs once, beside a worker that looks often (pain 2)."""
    runs: list[str] = []

    def work(job: Job) -> str:
        runs.append(job.id)
        time.sleep(2.5 * LOCK_MS / 1000)
        return "done"

    job_id = await desk.add()
    async with desk.working(work, **SHORT), desk.working(work, **SHORT):
        await desk.until_counts(completed=1)

    assert len(runs) == 1
    assert (await desk.job(job_id)).stalled_count == 0


@contextlib.asynccontextmanager
async def watched_from(inside: threading.Event, other: Any) -> AsyncIterator[None]:
    """Another worker, in a thread with a loop of its own, looks for stalled jobs once the first one is inside."""

    def watch() -> None:
        inside.wait(DEADLINE_S)
        other.run_sync()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        inside.set()
        other.stop()
        await happens(asyncio.to_thread(watching.join))


async def test_blocked_loop_keeps_locks_and_is_warned_of(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A coroutine that blocks the loop for two lock lives keeps its lock, and a warning names the time (pain 2)."""
    inside = threading.Event()

    async def block(_: Job) -> str:
        inside.set()
        time.sleep(2.5 * LOCK_MS / 1000)  # noqa: ASYNC251  # the mistake under test
        return "from the blocked loop"

    caplog.set_level(logging.WARNING)
    job_id = await desk.add()
    async with watched_from(inside, desk.worker(nothing, **SHORT)), desk.working(block, **SHORT):
        await desk.until_counts(completed=1)
    job = await desk.job(job_id)

    assert job.return_value == "from the blocked loop"
    assert (job.attempts_started, job.stalled_count) == (1, 0)
    warnings = [record.getMessage() for record in caplog.records if "blocked" in record.getMessage()]
    told = [re.search(r"blocked for (\d+\.\d+) s", text) for text in warnings if job_id in text]
    assert max(float(found[1]) for found in told if found) > 2 * LOCK_MS / 1000, warnings


async def test_results_held_back_by_a_blocked_loop_keep_their_locks(desk: Desk) -> None:
    """Jobs that have ended, their results not yet written when another one blocks the loop, run once (pain 2)."""
    turns = 8
    go, inside, runs = asyncio.Event(), threading.Event(), Counter[str]()

    async def end_in_turn(job: Job) -> None:
        runs[job.id] += 1
        if len(runs) == 2 * turns:
            go.set()
        await go.wait()
        for _ in range(job.data):
            await asyncio.sleep(0)
        if job.data == turns - 1 and not inside.is_set():
            inside.set()
            time.sleep(2.5 * LOCK_MS / 1000)  # noqa: ASYNC251  # the mistake under test

    async def again(job: Job) -> None:
        runs[job.id] += 1

    ids = [await desk.add(turn) for turn in range(turns) for _ in range(2)]
    worker = desk.working(end_in_turn, concurrency=2 * turns, **SHORT)
    async with watched_from(inside, desk.worker(again, **SHORT)), worker:
        await desk.until_counts(completed=2 * turns)

    assert runs == dict.fromkeys(ids, 1)
    assert [(await desk.job(job_id)).stalled_count for job_id in ids] == [0] * len(ids)


async def test_many_locks_are_renewed_in_one_call(desk: Desk) -> None:
    """The locks of all running jobs are renewed together, by one call each round."""
    done = asyncio.Event()

    async def work(_: Job) -> None:
        await done.wait()

    async def renewals() -> int:
        rows = (await desk.do("INFO", "commandstats")).decode().splitlines()
        return sum(int(row.split("calls=")[1].split(",")[0]) for row in rows if row.startswith("cmdstat_evalsha:"))

    await desk.add_many(40)
    async with desk.working(
        work, concurrency=41, skip_stalled_check=True, drain_delay=30_000, lock_duration=2_000
    ) as worker:
        await desk.until_counts(active=40)
        await happens(gathered(worker, "locks_renewed", 2))
        rounds = gathered(worker, "locks_renewed", 3)
        before = await renewals()
        told = await happens(rounds)
        after = await renewals()
        done.set()
        await desk.until_counts(completed=40)

    assert all(len(ids) == 40 for (ids,) in told)
    assert after - before <= 4 + 1


async def test_without_renewal_locks_run_out(desk: Desk) -> None:
    """With skip_lock_renewal nothing is renewed, and a job may extend its own lock."""

    async def work(job: Job, ctx: Context) -> int:
        before = int(await desk.do("PTTL", desk.keys.lock(job.id)))
        await asyncio.sleep(1.7)
        between = int(await desk.do("PTTL", desk.keys.lock(job.id)))
        await ctx.extend(60_000)
        after = int(await desk.do("PTTL", desk.keys.lock(job.id)))
        assert between < 1_400 < before
        return after

    job_id = await desk.add()
    await desk.worker(work, skip_lock_renewal=True, lock_duration=3_000).run(until="drained")

    assert (await desk.job(job_id)).return_value > 50_000


async def test_short_outage_costs_no_job(server: Server, desk: Desk) -> None:
    """A job outlives an outage shorter than its lock, which is renewed, and the result is stored (pain 17)."""
    runs: list[str] = []
    errors: list[Any] = []

    async def work(job: Job) -> str:
        runs.append(job.id)
        await asyncio.sleep(2.5)
        return "done"

    with proxy_to(server.host, server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        job_id = await desk.add()
        async with through.working(work, lock_duration=3_000, stalled_interval=300) as worker:
            worker.on("error", errors.append)
            await desk.until_counts(active=1)
            proxy.refuse()
            proxy.cut()
            await asyncio.sleep(1.2)
            proxy.accept()
            await desk.until_counts(completed=1)

    job = await desk.job(job_id)
    assert job.return_value == "done"
    assert job.stalled_count == 0
    assert runs == [job_id]
    assert len(errors) <= 2


async def test_lost_reply_of_a_finish(server: Server, desk: Desk) -> None:
    """A lost reply of a finish makes no job run again, and the job it brought runs at once (pain 14)."""
    runs: list[Any] = []
    inside, gate = asyncio.Event(), asyncio.Event()

    async def work(job: Job) -> None:
        runs.append(job.data)
        inside.set()
        if job.data == "first":
            await gate.wait()

    with proxy_to(server.host, server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        await desk.add("before: teaches the server the scripts")
        await desk.worker(nothing).run(until="drained")
        first = await desk.add("first")
        async with through.working(work, skip_stalled_check=True) as worker:
            failed = gathered(worker, "failed", 1)
            lost = gathered(worker, "lock_lost", 1)
            await happens(inside.wait())
            second = await desk.add("second")
            proxy.hold("down")
            gate.set()
            await desk.until_counts(active=1, completed=2)
            proxy.cut()
            proxy.release("down")
            await desk.until_counts(completed=3)
            assert not failed.done()
            assert not lost.done()

    assert runs == ["first", "second"]
    assert (await desk.job(first)).attempts_made == 1
    assert (await desk.job(second)).stalled_count == 0


async def test_lost_reply_of_a_take(server: Server, desk: Desk) -> None:
    """If the reply of a take is lost, the job that was taken runs at once instead of waiting to be found stalled."""
    runs: list[Any] = []

    async def work(job: Job) -> None:
        runs.append(job.data)

    with proxy_to(server.host, server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        await desk.worker(nothing).run(until="drained")
        async with through.working(work, skip_stalled_check=True) as worker:
            await worker.pause()
            job_id = await desk.add("only")
            proxy.hold("down")
            worker.resume()
            await desk.until_counts(active=1)
            proxy.cut()
            proxy.release("down")
            await desk.until_counts(completed=1)

    job = await desk.job(job_id)
    assert runs == ["only"]
    assert (job.attempts_started, job.stalled_count) == (1, 0)


async def test_job_that_came_too_late_is_not_run(server: Server, desk: Desk) -> None:
    """A job whose reply was under way until another worker had done it is let go of, not run a second time (pain 1)."""
    begun, gate = asyncio.Event(), asyncio.Event()
    runs: list[Any] = []

    async def work(job: Job) -> None:
        runs.append(job.data)
        begun.set()
        await gate.wait()

    with proxy_to(server.host, server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        await desk.add("before: teaches the server the scripts")
        await desk.worker(nothing, **SHORT).run(until="drained")
        ids = await desk.add_many(2)
        async with through.working(work, lock_duration=LOCK_MS, skip_stalled_check=True) as late:
            lost, failed = gathered(late, "lock_lost", 1), gathered(late, "failed", 1)
            await happens(begun.wait())
            await asyncio.to_thread(proxy.hold, "down")
            gate.set()
            await desk.until_counts(completed=2, active=1)
            async with desk.working(nothing, **SHORT):
                await desk.until_counts(completed=3)
            await asyncio.to_thread(proxy.release, "down")
            assert (await happens(lost))[0][0] == ids[1]
            await happens(late.close(2_000))
            assert not failed.done()

    assert runs == [0]
    assert [(await desk.job(job_id)).attempts_made for job_id in ids] == [1, 1]
