"""Jobs are cancelled from any process, wherever they are."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import echomq.sync
from echomq import Cancellation, Job, JobBelongsToScheduler, JobNotFound, Queue, Wait, WaitForChildren
from echomq.aio.context import ThreadContext
from echomq.calls.fetch import Take, move_to_active
from support.desk import Desk, gathered, happens
from support.limits import best_of


@pytest_asyncio.fixture
async def queue(desk: Desk) -> AsyncIterator[Queue]:
    """The queue, as producers use it."""
    async with Queue(desk.keys.queue, desk.url, prefix=desk.keys.prefix) as opened:
        yield opened


async def _note(_: Job) -> None:
    raise AssertionError("a cancelled job ran")


@pytest.mark.parametrize("options", [{}, {"delay": 60_000}, {"priority": 3}], ids=["waiting", "delayed", "prioritized"])
async def test_job_that_has_not_started_fails_at_once(desk: Desk, queue: Queue, options: dict[str, Any]) -> None:
    """A job that waits, in whatever way, fails with the reason at once, with no worker about, and never runs."""
    job = await queue.add("work", 1, attempts=5, **options)

    assert await queue.cancel(job.id, "not needed") is Cancellation.FAILED
    await desk.worker(_note).run(until="drained")
    found = await desk.job(job.id)

    assert await desk.counts() == {"failed": 1}
    assert found.failed_reason == "not needed"
    assert found.deferred_failure is None
    assert await desk.do("EXISTS", desk.keys.lock(job.id)) == 0
    assert await desk.do("KEYS", f"{desk.keys.base}echomq*") == []


async def test_parent_hears_of_a_cancelled_child(desk: Desk, queue: Queue) -> None:
    """A cancelled child is a failed child: its parent follows the policy, and a parent that waits can be cancelled."""
    parent = await queue.add("work", "parent")

    async def wait(_: Job, ctx: Any) -> None:
        await ctx.add_child("work", queue="other", ignore_dependency_on_failure=True, job_id="first")
        await ctx.add_child("work", queue="other", job_id="second")
        raise WaitForChildren

    await desk.worker(wait).run(until="drained")
    async with Queue("other", desk.url, prefix=desk.keys.prefix) as other:
        assert await other.cancel("first", "not needed") is Cancellation.FAILED
    ignored = await queue.get_ignored_failures(parent.id)

    assert list(ignored.values()) == ["not needed"]
    assert await queue.cancel(parent.id) is Cancellation.FAILED
    assert (await desk.job(parent.id)).failed_reason == "cancelled"


async def test_running_coroutine_is_stopped_from_elsewhere(desk: Desk, queue: Queue) -> None:
    """A job that runs is stopped in its worker, fails with the reason, and nobody runs it again."""
    started: asyncio.Queue[str] = asyncio.Queue()

    async def wait(job: Job) -> None:
        await started.put(job.id)
        await asyncio.Event().wait()

    job_id = await desk.add(attempts=5)
    async with desk.working(wait, concurrency=2) as worker:
        failed = gathered(worker, "failed", 1)
        await happens(started.get())

        assert await queue.cancel(job_id, "stop it") is Cancellation.STOPPED
        await happens(failed)
        other = await desk.add()
        await happens(started.get())
        assert await queue.cancel(other) is Cancellation.STOPPED

    assert (await desk.job(job_id)).failed_reason == "stop it"
    assert (await desk.job(job_id)).deferred_failure is None
    assert await desk.counts() == {"failed": 2}


async def test_running_thread_is_stopped_by_blocking_queue(desk: Desk) -> None:
    """The blocking queue cancels too, and a job in a thread finds ctx.cancelled set."""
    started = threading.Event()

    def wait(_: Job, ctx: ThreadContext) -> bool:
        started.set()
        return ctx.cancelled.wait(20)

    def cancel(job_id: str) -> Cancellation:
        with echomq.sync.Queue(desk.keys.queue, desk.url, prefix=desk.keys.prefix) as queue:
            started.wait(20)
            return queue.cancel(job_id, "stop it")

    job_id = await desk.add()
    async with desk.working(wait):
        assert await asyncio.get_running_loop().run_in_executor(None, cancel, job_id) is Cancellation.STOPPED

    assert (await desk.job(job_id)).failed_reason == "stop it"


async def test_cut_off_worker_hears_later(desk: Desk, queue: Queue) -> None:
    """A worker whose connection for such wishes breaks still hears what was asked meanwhile."""
    started: asyncio.Queue[str] = asyncio.Queue()
    stopped = asyncio.Event()

    async def wait(job: Job) -> None:
        await started.put(job.id)
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    first, second = [await desk.add() for _ in range(2)]
    async with desk.working(wait, concurrency=2):
        assert {await happens(started.get()), await happens(started.get())} == {first, second}
        assert await queue.cancel(first) is Cancellation.STOPPED  # so it listens
        stopped.clear()
        listening = [row for row in (await desk.do("CLIENT", "LIST")).decode().splitlines() if "cmd=xread" in row]
        await desk.do("CLIENT", "KILL", "ID", listening[0].split()[0].removeprefix("id="))
        assert await queue.cancel(second, timeout=0) is Cancellation.ASKED
        await happens(stopped.wait())

    assert await desk.counts() == {"failed": 2}


async def test_job_that_no_worker_hears_fails_later(desk: Desk, queue: Queue) -> None:
    """A job of a worker that does not hear, such as another client's, is asked for, and fails if it is taken again."""
    job_id = await desk.add(attempts=5)
    await _take_as_another_client(desk)

    assert await queue.cancel(job_id, "stop it", timeout=30) is Cancellation.ASKED
    assert await desk.counts() == {"active": 1}
    await desk.do("DEL", desk.keys.lock(job_id))
    async with desk.working(_note, stalled_interval=50):
        await desk.until_counts(failed=1)

    assert (await desk.job(job_id)).failed_reason == "stop it"


async def _take_as_another_client(desk: Desk) -> None:
    await desk.connection.send(
        move_to_active(desk.keys, Take(token="other:0", lock_ms=30_000), time.time_ns() // 10**6)
    )


async def test_job_that_goes_back_to_wait_is_caught_there(desk: Desk, queue: Queue) -> None:
    """A job that its worker gives back while it is being cancelled fails where it waits then."""
    runs = []

    async def give_back(job: Job) -> None:
        runs.append(job.id)
        await asyncio.sleep(0.1)
        await worker.pause(wait=False)
        raise Wait

    job_id = await desk.add()
    worker = desk.worker(give_back)
    running = asyncio.ensure_future(worker.run())
    active = gathered(worker, "active", 1)
    await happens(active)

    assert await queue.cancel(job_id, "stop it") in (Cancellation.FAILED, Cancellation.STOPPED)
    await worker.close()
    await happens(running)

    assert len(runs) == 1
    assert await desk.counts() == {"failed": 1}


async def test_what_has_ended_stays_as_it_is(desk: Desk, queue: Queue) -> None:
    """Cancelling a job that has ended changes nothing, and one that does not exist is told by name."""

    async def work(_: Job) -> str:
        return "done"

    job_id = await desk.add()
    await desk.worker(work).run(until="drained")

    assert await queue.cancel(job_id) is Cancellation.FINISHED
    assert (await desk.job(job_id)).return_value == "done"
    with pytest.raises(JobNotFound):
        await queue.cancel("no-such-job")


async def test_next_job_of_a_scheduler_is_refused(queue: Queue) -> None:
    """The next job of a scheduler is not cancelled, since the scheduler would end with it unnoticed."""
    job = await queue.upsert_job_scheduler("nightly", every=60_000)

    assert job is not None
    with pytest.raises(JobBelongsToScheduler):
        await queue.cancel(job.id)


async def test_short_jobs_cost_no_connection(desk: Desk) -> None:
    """A worker whose jobs are short opens no connection to hear of cancellations."""

    async def work(_: Job) -> None:
        pass

    async def listening() -> int:
        await desk.add_many(50, remove_on_complete=True)
        async with desk.working(work, concurrency=10):
            await desk.until_counts()
            return int((await desk.do("CLIENT", "LIST")).count(b"cmd=xread"))

    await best_of(listening, 1)
