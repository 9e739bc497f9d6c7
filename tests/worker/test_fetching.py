"""Jobs are fetched by hand, and their end is what the user says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from echomq import (
    Delay,
    FetchedJob,
    JobCancelled,
    JobHasPendingChildren,
    LockMissing,
    NotEncodable,
    Queue,
    UsageError,
    Worker,
)
from echomq.cancelling import Cancellation
from support.desk import Desk, gathered, happens
from support.limits import at_once


@contextlib.asynccontextmanager
async def _fetching(desk: Desk, **options: Any) -> AsyncIterator[Worker]:
    worker = desk.worker(None, **options)
    try:
        yield worker
    finally:
        await happens(worker.close(0))


async def _fetch(worker: Worker) -> FetchedJob:
    fetched: FetchedJob | None = await happens(worker.fetch())
    assert fetched is not None
    return fetched


async def test_end_is_what_the_user_says(desk: Desk) -> None:
    """A fetched job completes, fails with its attempts, or waits again, and the server knows when the call returns."""
    done, failed = await desk.add("done"), await desk.add("failed", attempts=2)
    async with _fetching(desk) as worker:
        fetched = await _fetch(worker)
        assert (fetched.job.id, fetched.job.data) == (done, "done")
        await fetched.ctx.progress(50)
        await fetched.complete({"a": 1})
        assert (await desk.job(done)).return_value == {"a": 1}
        assert (await desk.job(done)).progress == 50

        await (await _fetch(worker)).fail("not yet")
        assert (await desk.job(failed)).attempts_made == 1
        await (await _fetch(worker)).release()
        assert (await desk.job(failed)).attempts_made == 1
        await (await _fetch(worker)).fail(LookupError("never"))

    job = await desk.job(failed)
    assert (job.failed_reason, job.attempts_made) == ("never", 2)
    assert await desk.counts() == {"completed": 1, "failed": 1}


async def test_block_tells_the_end(desk: Desk) -> None:
    """A with block completes its job at the end, fails it with what is raised, and heeds signals."""
    ids = [await desk.add(number) for number in range(3)]
    async with _fetching(desk) as worker:
        async with await _fetch(worker):
            pass
        with pytest.raises(OSError, match="gone"):
            async with await _fetch(worker):
                raise OSError("gone")
        async with await _fetch(worker):
            raise Delay(60_000)

    assert await desk.counts() == {"completed": 1, "failed": 1, "delayed": 1}
    assert (await desk.job(ids[1])).failed_reason == "gone"


async def test_nothing_is_taken_unasked(desk: Desk) -> None:
    """Jobs are only taken when asked for, as many as concurrency allows, and a wait ends at its limit."""
    async with _fetching(desk, concurrency=2) as worker:
        assert await worker.fetch(timeout=50) is None
        await desk.add_many(4)
        first, second = await asyncio.gather(_fetch(worker), _fetch(worker))
        assert await desk.counts() == {"active": 2, "waiting": 2}
        assert await worker.fetch(timeout=50) is None
        await first.complete()
        assert await desk.counts() == {"active": 1, "waiting": 2, "completed": 1}
        third = await _fetch(worker)
        await second.complete()
        await third.complete()
        assert await desk.counts() == {"waiting": 1, "completed": 3}

        async def work(_: Any) -> None: ...

        await desk.worker(work).run(until="drained")
        assert await desk.counts() == {"completed": 4}


async def test_waiting_fetch_is_woken(desk: Desk) -> None:
    """A fetch that waits gets a job as soon as it is added."""
    async with _fetching(desk, drain_delay=30_000) as worker:
        asked = asyncio.ensure_future(_fetch(worker))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(asked), 0.1)
        with at_once():
            await desk.add()
            await (await happens(asked)).complete()
    assert await desk.counts() == {"completed": 1}


async def test_lock_lives_on(desk: Desk) -> None:
    """The lock of a fetched job is renewed; when it is lost, the user hears of it and nothing is written."""
    job_id = await desk.add()
    async with _fetching(desk, lock_duration=1_500) as worker:
        renewed = gathered(worker, "locks_renewed", 3)
        fetched = await _fetch(worker)
        await happens(renewed)
        assert await desk.do("EXISTS", desk.keys.lock(job_id)) == 1
        await desk.do("DEL", desk.keys.lock(job_id))
        with pytest.raises((LockMissing, UsageError)):
            await fetched.complete()
    assert await desk.counts() == {"active": 1}


async def test_stopped_job_cannot_complete(desk: Desk) -> None:
    """A fetched job that is cancelled or takes too long tells so in ctx.cancelled, and has failed."""
    cancelled, timed_out = await desk.add(), await desk.add(timeout=50)
    async with _fetching(desk) as worker, Queue("work", desk.connection, prefix=desk.keys.prefix) as queue:
        failed = gathered(worker, "failed", 2)
        fetched = await _fetch(worker)
        assert await queue.cancel(cancelled, "enough") is Cancellation.STOPPED
        assert fetched.ctx.cancelled.is_set()
        with pytest.raises(UsageError, match="stopped"):
            await fetched.complete()
        await happens((await _fetch(worker)).ctx.cancelled.wait())
        errors = [error for _, error in await happens(failed)]

    assert isinstance(errors[0], JobCancelled)
    assert isinstance(errors[1], TimeoutError)
    assert (await desk.job(timed_out)).is_failed


async def test_mistakes_with_fetched_jobs(desk: Desk) -> None:
    """A result that is not JSON leaves the job with the user, a second end is refused, and so is the wrong call."""
    await desk.add()
    async with _fetching(desk) as worker:
        fetched = await _fetch(worker)
        with pytest.raises(NotEncodable):
            await fetched.complete(object())
        await fetched.complete("fine")
        with pytest.raises(UsageError, match="one end"):
            await fetched.fail("no")
        with pytest.raises(UsageError, match="has no processor: pass a function or call fetch"):
            await worker.run()

    async def work(_: Any) -> None: ...

    with pytest.raises(UsageError, match="call run"):
        await desk.worker(work).fetch()


async def test_refused_end_is_raised(desk: Desk) -> None:
    """An end that the server refuses is raised where it was told, and the attempt fails with it."""
    job_id = await desk.add()
    async with _fetching(desk) as worker:
        fetched = await _fetch(worker)
        await fetched.ctx.add_child("work", queue="others")
        with pytest.raises(JobHasPendingChildren):
            await fetched.complete("too early")

    assert (await desk.job(job_id)).is_failed


async def test_closing_gives_back(desk: Desk) -> None:
    """Closing ends fetches that wait, and gives back what is held when its patience ends."""
    await desk.add()
    worker = desk.worker(None, concurrency=2)
    await _fetch(worker)
    looked = gathered(worker, "drained", 1)
    asked = asyncio.ensure_future(worker.fetch())
    await happens(looked)
    await happens(worker.close(10))

    assert await happens(asked) is None
    assert await desk.counts() == {"waiting": 1}
    with pytest.raises(UsageError, match="closed"):
        await worker.fetch()
