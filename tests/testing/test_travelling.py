"""A clock that a test sets forward: what becomes due by it, and what expires."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from echomq import Job, JobState, Worker
from echomq.errors import UsageError
from echomq.worker_options import RateLimit
from echomq_testing import Clock, assert_enqueued, assert_not_enqueued, drain, sync
from echomq_testing.plugin import NewQueue, NewQueueSync, NewWorker
from support.requests import command

BERLIN = ZoneInfo("Europe/Berlin")


async def done(_job: Job) -> str:
    """Do nothing."""
    return "done"


async def test_a_day_of_delay(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """A job delayed by a day runs at once after a day, and not a moment before."""
    queue = echomq_queue()
    job = await queue.add("later", delay=timedelta(days=1))

    echomq_clock.advance(timedelta(days=1) - timedelta(milliseconds=1))
    assert (await drain(queue, done)).completed == ()
    echomq_clock.advance(1)
    assert [ran.id for ran in (await drain(queue, done)).completed] == [job.id]
    found = await queue.get_job(job.id)
    assert found is not None
    assert found.finished_on_ms == echomq_clock.now_ms == job.timestamp_ms + 86_400_000


def test_a_day_of_delay_without_a_loop(echomq_queue_sync: NewQueueSync, echomq_clock: Clock) -> None:
    """The same without an event loop."""
    queue = echomq_queue_sync()
    queue.add("later", delay=timedelta(days=1))

    assert sync.drain(queue, lambda _: 1).completed == ()
    echomq_clock.advance(timedelta(days=1))
    assert sync.drain(queue, lambda _: 1).results == (1,)


async def test_backoff(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """The attempts of a job come when its backoff says: 1, 2 and 4 s after each other."""
    queue, began_ms, times = echomq_queue(), echomq_clock.now_ms, []
    await queue.add("flaky", attempts=4, backoff={"type": "exponential", "delay": 1_000})

    async def fail(_job: Job) -> None:
        times.append(echomq_clock.now_ms - began_ms)
        raise ConnectionError("not yet")

    for _ in range(10):
        await drain(queue, fail, raises=False)
        echomq_clock.advance(1_000)

    assert times == [0, 1_000, 3_000, 7_000]
    assert (await queue.get_job_counts("failed"))[JobState.FAILED] == 1


async def test_cron_over_the_change_of_clocks(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """A slot that the change to summer time leaves out comes an hour later that night, and as ever the next."""
    echomq_clock.advance_to(datetime(2038, 3, 26, 12, 30, tzinfo=BERLIN))
    queue, ran = echomq_queue(), []
    await queue.upsert_job_scheduler("nightly", cron="30 2 * * *", tz="Europe/Berlin", name="report")

    async def note(_job: Job) -> None:
        ran.append(echomq_clock.now.astimezone(BERLIN).strftime("%d %H:%M"))

    for _ in range(4 * 24):
        await drain(queue, note)
        echomq_clock.advance(timedelta(hours=1))

    assert ran == ["27 02:30", "28 03:30", "29 02:30", "30 02:30"]


async def test_deduplication_ends(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """An id is free again when its time to live is over."""
    queue = echomq_queue()
    first = await queue.add("hello", deduplication={"id": "a", "ttl": 60_000})
    again = await queue.add("hello", deduplication={"id": "a", "ttl": 60_000})
    echomq_clock.advance(60_001)
    later = await queue.add("hello", deduplication={"id": "a", "ttl": 60_000})

    assert first.id == again.id != later.id


async def test_rate_limit_ends(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """A drain leaves what a rate limit holds back, and goes on when its time is over."""
    queue = echomq_queue()
    await queue.add_bulk([("mail", {"n": n}) for n in range(5)])
    limiter = RateLimit(max=2, duration=60_000)

    ran = []
    for _ in range(4):
        ran.append(len((await drain(queue, done, limiter=limiter)).completed))
        echomq_clock.advance(60_001)

    assert ran == [2, 2, 1, 0]


def test_rate_limit_ends_without_a_loop(echomq_queue_sync: NewQueueSync, echomq_clock: Clock) -> None:
    """The same without an event loop."""
    queue = echomq_queue_sync()
    queue.add_bulk([("mail", {"n": n}) for n in range(3)])
    limiter = RateLimit(max=2, duration=60_000)

    ran = []
    for _ in range(2):
        ran.append(len(sync.drain(queue, lambda _: 1, limiter=limiter).completed))
        echomq_clock.advance(60_001)

    assert ran == [2, 1]


async def test_lock_runs_out(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """The lock of a worker that fell silent runs out, and another worker does its job."""
    queue = echomq_queue()
    job = await queue.add("mail")
    silent = Worker(queue.name, None, queue.connection, prefix=queue.keys.prefix)
    fetched = await silent.fetch(5_000)
    assert fetched is not None
    # Of a worker that is killed nothing is heard any more; this one is only asked nothing.
    assert await queue.connection.send(command("GET", queue.keys.lock(job.id))) is not None

    echomq_clock.advance(timedelta(minutes=1))

    assert await queue.connection.send(command("GET", queue.keys.lock(job.id))) is None
    stalled = [await drain(queue, done), await drain(queue, done)]
    echomq_clock.advance(timedelta(minutes=1))
    stalled.append(await drain(queue, done))
    assert [ran.id for one in stalled for ran in one.completed] == [job.id]
    await silent.close(0)


async def test_running_worker_notices(echomq_queue: NewQueue, echomq_worker: NewWorker, echomq_clock: Clock) -> None:
    """A worker that waits while the clock is set forward runs what has become due."""
    queue = echomq_queue()
    job = await queue.add("later", delay=timedelta(hours=1))
    echomq_worker(queue, done, drain_delay=300_000)
    await queue.result((await queue.add("now")).id, timeout=60_000)

    echomq_clock.advance(timedelta(hours=1))

    assert await queue.result(job.id, timeout=60_000) == "done"


async def test_worker_that_is_about_to_wait_notices(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """A worker that has found nothing, and begins to wait only after the clock was set, is told at once."""
    queue = echomq_queue()
    await queue.add("later", delay=timedelta(hours=1))
    await queue.connection.send(command("DEL", queue.keys.marker))  # as a worker leaves it that knows the time

    echomq_clock.advance(timedelta(hours=1))

    assert await queue.connection.send(command("ZPOPMIN", queue.keys.marker)) == [b"0", b"0"]


async def test_what_is_asserted_moves_too(echomq_queue: NewQueue, echomq_clock: Clock) -> None:
    """A job that has run is enqueued no more."""
    queue = echomq_queue()
    await queue.add("later", {"n": 1}, delay=1_000)
    await assert_enqueued(queue, "later", {"n": 1}, delay=timedelta(seconds=1))

    echomq_clock.advance(1_000)
    await drain(queue, done)

    await assert_not_enqueued(queue, "later")


def test_clock_goes_forward_only() -> None:
    """A clock refuses the past, times without a zone, and a second clock; it gives the time back."""
    with Clock(datetime(2030, 1, 1, tzinfo=timezone.utc)) as clock:
        assert clock.now == datetime(2030, 1, 1, tzinfo=timezone.utc)
        with pytest.raises(UsageError, match="goes forward only"):
            clock.advance_to(datetime(2029, 1, 1, tzinfo=timezone.utc))
        with pytest.raises(UsageError, match="no time zone"):
            clock.advance_to(datetime(2031, 1, 1))  # noqa: DTZ001  # what is refused
        with pytest.raises(UsageError, match="must be at least 0"):
            clock.advance(-1)
        with pytest.raises(UsageError, match="another Clock"), Clock():
            pass
        with pytest.raises(UsageError, match="letters, digits and hyphens"):
            clock.follow("redis://localhost", "a*")
    with Clock() as clock:
        assert clock.now.year < 2030
