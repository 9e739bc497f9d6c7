"""Time limits and cancellation stop the work: on the loop and in threads."""

import asyncio
import gc
import threading
import weakref
from datetime import timedelta
from typing import Any

import pytest

from echomq import InvalidOption, Job, JobCancelled, JobOptions, JobTimedOut, Unrecoverable, UsageError, WorkerOptions
from echomq.aio.context import Context, ThreadContext
from support.desk import Desk, gathered, happens, until
from support.limits import DEADLINE_S


async def _forever(_: Job) -> None:
    await asyncio.Event().wait()


async def test_coroutine_is_cancelled_at_its_limit(desk: Desk) -> None:
    """A coroutine that takes too long is cancelled, and the failed job tells the limit and where it was (pain 59)."""
    cancelled: list[str] = []

    async def slow(job: Job) -> None:
        try:
            await _forever(job)
        finally:
            cancelled.append(job.id)

    job_id = await desk.add()
    worker = desk.worker(slow, timeout=30)
    failed = gathered(worker, "failed", 1)
    await worker.run(until="drained")
    job = await desk.job(job_id)

    assert cancelled == [job_id]
    assert job.failed_reason == f"job {job_id} ran longer than 30 ms and was stopped"
    assert "in _forever" in job.stacktrace[-1]
    [(_, error)] = await happens(failed)
    assert isinstance(error, JobTimedOut)
    assert isinstance(error, TimeoutError)
    assert error.timeout_ms == 30


async def test_timed_out_attempt_is_retried(desk: Desk) -> None:
    """An attempt that took too long is retried as any failure."""

    async def slow_at_first(job: Job) -> str:
        if job.attempts_made == 0:
            await _forever(job)
        return "done"

    job_id = await desk.add(attempts=2, timeout=timedelta(milliseconds=500))
    await desk.worker(slow_at_first).run(until="drained")
    job = await desk.job(job_id)

    assert (job.return_value, job.attempts_made) == ("done", 2)


async def test_limit_by_name_and_by_job(desk: Desk) -> None:
    """A worker's limit may go by the names of jobs, and a job's own wins."""

    async def brief(_: Job) -> str:
        await asyncio.sleep(0.1)
        return "done"

    ids = [await desk.add(timeout=20_000), await desk.add()]
    await desk.worker(brief, timeout={"work": 20, "other": 1}).run(until="drained")
    own, by_name = [await desk.job(job_id) for job_id in ids]

    assert own.is_completed
    assert by_name.is_failed
    assert own.options.timeout == 20_000


async def test_limit_that_is_not_reached_keeps_nothing(desk: Desk) -> None:
    """What has ended long before its limit is let go of at once, so that busy workers do not grow for hours."""
    seen: list[weakref.ref[ThreadContext]] = []

    def brief(_: Job, ctx: ThreadContext) -> None:
        seen.append(weakref.ref(ctx))

    async def are_few() -> bool:
        gc.collect()
        return sum(ref() is not None for ref in seen) <= 2

    async with desk.working(brief, timeout=timedelta(hours=1), concurrency=4) as worker:
        completed = gathered(worker, "completed", 40)
        await desk.add_many(40)
        await happens(completed)
        completed.cancel()
        await until(are_few)


async def test_code_may_decide_at_its_limit(desk: Desk) -> None:
    """Code that hears its cancellation at the limit may fail for good, but not complete late."""

    async def decide(job: Job) -> str:
        try:
            await _forever(job)
        except asyncio.CancelledError:
            if job.data == "fatal":
                raise Unrecoverable("not worth another try") from None
        return "too late"

    fatal = await desk.add("fatal", attempts=3)
    late = await desk.add("late")
    await desk.worker(decide, timeout=30).run(until="drained")

    assert (await desk.job(fatal)).failed_reason == "not worth another try"
    assert (await desk.job(late)).failed_reason == f"job {late} ran longer than 30 ms and was stopped"


async def test_thread_is_asked_to_end_at_its_limit(desk: Desk) -> None:
    """A thread finds ctx.cancelled set at its limit, and what it returns then is not used."""

    def patient(_: Job, ctx: ThreadContext) -> str:
        return "heard" if ctx.cancelled.wait(DEADLINE_S) else "not heard"

    job_id = await desk.add()
    await desk.worker(patient, timeout=30).run(until="drained")

    assert (await desk.job(job_id)).failed_reason == f"job {job_id} ran longer than 30 ms and was stopped"


async def test_deaf_thread_is_cut_off(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A thread that does not end is left behind with a warning: its job fails, and its calls are refused (pain 59)."""
    let_go = threading.Event()
    refused: list[BaseException] = []
    over = threading.Event()

    def deaf(_: Job, ctx: ThreadContext) -> None:
        let_go.wait(DEADLINE_S)
        try:
            ctx.progress(99)
        except UsageError as error:
            refused.append(error)
        over.set()

    job_id = await desk.add()
    await desk.worker(deaf, timeout=30).run(until="drained")
    job = await desk.job(job_id)
    let_go.set()
    await asyncio.get_running_loop().run_in_executor(None, over.wait, DEADLINE_S)

    assert job.is_failed
    assert "goes on" in caplog.text
    assert "over" in str(refused[0])
    assert (await desk.job(job_id)).progress != 99


async def test_worker_in_another_thread_keeps_limits(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits need no signals: they hold in a worker outside of the main thread, without SIGALRM (pain 26)."""
    monkeypatch.delattr("signal.SIGALRM", raising=False)
    timed_out = await desk.add(timeout=30)
    fine = await desk.add()

    async def slow(job: Job) -> None:
        if job.id == timed_out:
            await _forever(job)

    worker = desk.worker(slow)
    await asyncio.get_running_loop().run_in_executor(None, worker.run_sync, "drained")

    assert (await desk.job(timed_out)).is_failed
    assert (await desk.job(fine)).is_completed


async def test_worker_cancels_a_job(desk: Desk) -> None:
    """A cancelled job fails at once with the reason, whatever attempts are left; others go on."""
    started: asyncio.Queue[str] = asyncio.Queue()

    async def wait(job: Job) -> None:
        await started.put(job.id)
        if job.data == "long":
            await _forever(job)

    job_id = await desk.add("long", attempts=5)
    async with desk.working(wait, concurrency=2) as worker:
        failed = gathered(worker, "failed", 1)
        assert await happens(started.get()) == job_id
        assert worker.cancel(job_id, "no longer wanted")
        [(_, error)] = await happens(failed)
        assert not worker.cancel(job_id)
        other = await desk.add("short")
        assert await happens(started.get()) == other

    assert isinstance(error, JobCancelled)
    assert (await desk.job(job_id)).failed_reason == "no longer wanted"


async def test_worker_cancels_all_jobs(desk: Desk) -> None:
    """All running jobs, on the loop and in threads, can be cancelled at once."""
    started: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def coroutine(job: Job, _: Context) -> None:
        await started.put(None)
        await _forever(job)

    def thread(_: Job, ctx: ThreadContext) -> Any:
        loop.call_soon_threadsafe(started.put_nowait, None)
        return ctx.cancelled.wait(DEADLINE_S)

    await desk.add_many(2)
    for processor in (coroutine, thread):
        async with desk.working(processor) as worker:
            failed = gathered(worker, "failed", 1)
            await happens(started.get())
            assert worker.cancel_all() == 1
            await happens(failed)

    assert await desk.counts() == {"failed": 2}


async def test_stubborn_coroutine_is_cancelled_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine that catches its cancellation and goes on is cancelled again after its grace."""
    monkeypatch.setattr("echomq.aio.stopping._COROUTINE_GRACE_S", 0.05)
    caught: list[str] = []

    async def stubborn(job: Job) -> None:
        while len(caught) < 3:
            try:
                await _forever(job)
            except asyncio.CancelledError:
                caught.append(job.id)

    job_id = await desk.add()
    await desk.worker(stubborn, timeout=30).run(until="drained")

    assert caught == [job_id] * 3
    assert (await desk.job(job_id)).is_failed


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "1s"])
def test_wrong_limits_are_refused(wrong: Any) -> None:
    """A limit is at least a millisecond, in ms or as a timedelta; anything else is refused by name."""
    with pytest.raises(InvalidOption, match="timeout"):
        JobOptions(timeout=wrong)
    with pytest.raises(InvalidOption, match="timeout"):
        WorkerOptions(timeout=wrong)
    with pytest.raises(InvalidOption, match="timeout"):
        WorkerOptions(timeout={"mail": wrong})
