"""A worker that is steered at the wrong moment, or from the wrong place: it does as asked, or says why not, at once."""

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import echomq
from echomq import Job, UsageError, WorkerGroup
from support.blocking import AwaitedGroup, in_thread
from support.desk import Desk, gathered, happens
from support.limits import AT_ONCE_S, at_once
from support.servers import Server


async def nothing(_: Job) -> None:
    """The least a job can do."""


class Long:
    """A processor whose jobs end only when they are stopped; tells when one is inside."""

    def __init__(self) -> None:
        self.inside = asyncio.Event()

    async def __call__(self, _: Job) -> None:
        """Process a job."""
        self.inside.set()
        await asyncio.Event().wait()


WISHES: dict[str, Callable[[Any], Any]] = {
    "stop": lambda worker: worker.stop(),
    "stop twice": lambda worker: (worker.stop(), worker.stop(0)),
    "stop elsewhere": lambda worker: asyncio.to_thread(worker.stop),
    "close": lambda worker: worker.close(),
    "close at once": lambda worker: worker.close(0),
}


@pytest.mark.parametrize("until", [None, "drained"])
@pytest.mark.parametrize("wish", WISHES)
async def test_end_before_the_beginning(desk: Desk, wish: str, until: Any) -> None:
    """A worker told to end before its run has begun takes no job, and the run ends at once, as a run does."""
    told: list[str] = []
    await desk.add()
    worker = desk.worker(nothing)
    for event in ("active", "closing", "closed"):
        worker.on(event, lambda *_, name=event: told.append(name))
    wished = WISHES[wish](worker)
    if asyncio.iscoroutine(wished):
        await wished

    with at_once():
        await happens(worker.run(until))

    assert told == ["closing", "closed"]
    assert not worker.is_running
    assert await desk.counts() == {"waiting": 1}


@pytest.mark.parametrize("wish", ["stop", "close"])
async def test_end_of_a_run_that_is_about_to_begin(desk: Desk, wish: str) -> None:
    """A host that starts a run and thinks better of it in the same moment gets its end, not an error."""
    await desk.add()
    worker = desk.worker(nothing)
    running = asyncio.ensure_future(worker.run())
    wished = WISHES[wish](worker)
    if wished is not None:
        await wished

    with at_once():
        await happens(running)
    assert await desk.counts() in ({"waiting": 1}, {"completed": 1})  # a thread may have begun already


async def test_stop_before_a_run_ends_one_run(desk: Desk) -> None:
    """What was asked before a run ends that run alone: the next one works."""
    await desk.add()
    worker = desk.worker(nothing)
    worker.stop()
    await happens(worker.run())
    await happens(worker.run("drained"))
    assert await desk.counts() == {"completed": 1}


@pytest.mark.parametrize("first", ["worked", "stopped", "closed", "failed"])
async def test_closed_worker_that_ran_does_not_run(desk: Desk, first: str) -> None:
    """After its first run, however that ended, a worker that is closed refuses each other one at once."""
    worker = desk.worker(nothing, lifespan=lambda: next(lifespans))
    lifespans: Iterator[Any] = iter(() if first == "failed" else (contextlib.nullcontext(),))
    if first == "stopped":
        worker.stop()
    if first == "closed":
        await worker.close()
    with pytest.raises((StopIteration, RuntimeError)) if first == "failed" else contextlib.nullcontext():
        await happens(worker.run("drained"))

    await desk.add()
    if first == "stopped":
        worker.stop()
    await worker.close()
    for _ in range(2):
        with at_once(), pytest.raises(UsageError, match="was closed; make another"):
            await worker.run()
        worker.stop()
    assert await desk.counts() == {"waiting": 1}


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
async def test_group_goes_on_without_a_worker_that_was_closed(desk: Desk, kind: str) -> None:
    """A worker of a group that was closed by itself is left out, however often the others look for jobs."""
    is_closing, ends = asyncio.Event(), list[Any]()

    async def work(_: Job) -> None:
        ends.append(asyncio.ensure_future(in_thread(other.close) if kind == "blocking" else other.close()))
        await is_closing.wait()

    make_group: Any = echomq.WorkerGroup if kind == "asyncio" else AwaitedGroup
    group = make_group({"work": work, "other": nothing}, desk.url, prefix=desk.keys.prefix)
    other, loop = group.workers["other"], asyncio.get_running_loop()
    other.on("closing", lambda *_: loop.call_soon_threadsafe(is_closing.set))
    await desk.add()
    await happens(group.run("drained"))

    assert await desk.counts() == {"completed": 1}
    await happens(ends[0])
    with pytest.raises(UsageError, match="was closed"):
        await happens(group.workers["other"].run() if kind == "asyncio" else in_thread(other.run))
    await group.close()


async def test_steered_before_and_after(desk: Desk) -> None:
    """What is asked of a worker that does not run is kept for its run, or has nobody it concerns."""
    worker = desk.worker(nothing, concurrency=2)
    told: list[str] = []
    await worker.pause()
    worker.resume()
    worker.concurrency = 5
    worker.on("completed", lambda *_: told.append("completed"))
    assert (worker.cancel("1"), worker.cancel_all(), worker.is_paused, worker.concurrency) == (False, 0, False, 5)

    await desk.add()
    await happens(worker.run("drained"))
    assert told == ["completed"]
    assert (worker.cancel("1"), worker.cancel_all(), worker.silent_for_s) == (False, 0, None)
    await happens(worker.pause())
    for _ in range(2):
        with at_once():
            await worker.close()


async def test_closed_by_several_at_once(desk: Desk) -> None:
    """Several may close a worker at one time, and each returns when it has ended."""
    long = Long()
    await desk.add()
    worker = desk.worker(long)
    running = asyncio.ensure_future(worker.run())
    await happens(long.inside.wait())

    with at_once():
        await happens(asyncio.gather(*(worker.close(timeout) for timeout in (60_000, None, 0))))
    await happens(running)
    assert await desk.counts() == {"waiting": 1}


async def test_bad_times_are_refused_before_and_while_it_runs(desk: Desk) -> None:
    """A time that makes no sense is refused by name, and nothing has ended by it."""
    worker = desk.worker(nothing)
    with pytest.raises(UsageError, match="timeout"):
        worker.stop(-1)
    with pytest.raises(UsageError, match="timeout"):
        await worker.close("soon")  # type: ignore[arg-type]  # the mistake under test
    await desk.add()
    await happens(worker.run("drained"))

    assert await desk.counts() == {"completed": 1}


async def test_end_while_a_take_is_under_way(desk: Desk, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A worker that ends without the reply to a take says that, and not that it waits for its server."""
    worker = desk.worker(nothing)
    with caplog.at_level("WARNING", "echomq"):
        drained, closing = gathered(worker, "drained", 1), gathered(worker, "closing", 1)
        running = asyncio.ensure_future(worker.run())
        await happens(drained)
        await worker.pause()
        server.pause()
        worker.resume()
        worker.stop(0)
        await happens(closing)
        await happens(running, AT_ONCE_S)
        server.resume()

    (told,) = [record.getMessage() for record in caplog.records]
    assert "closes: a take was not answered in time" in told


@pytest.mark.parametrize("all_of_them", [False, True])
async def test_cancelled_from_another_thread(desk: Desk, all_of_them: bool) -> None:
    """Any thread may cancel a job, and learns whether there was one to cancel."""
    long = Long()
    job_id = await desk.add(attempts=5)
    async with desk.working(long) as worker:
        failed = gathered(worker, "failed", 1)
        await happens(long.inside.wait())
        assert await asyncio.to_thread(worker.cancel, "ghost") is False
        if all_of_them:
            assert await asyncio.to_thread(worker.cancel_all, "enough") == 1
        else:
            assert await asyncio.to_thread(worker.cancel, job_id, "enough") is True
        await happens(failed)
        assert await asyncio.to_thread(worker.cancel, job_id) is False

    assert (await desk.job(job_id)).failed_reason == "enough"


async def test_cancel_while_the_loop_is_blocked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a job blocks the event loop, a thread that cancels is told so, and nothing is cancelled later on."""
    monkeypatch.setattr("echomq.aio.steering._ANSWER_S", 0.2)
    told: list[BaseException] = []
    released = threading.Event()

    def cancel_first() -> None:
        try:
            worker.cancel(job_id)
        except UsageError as error:
            told.append(error)
        released.set()

    async def block(_: Job) -> str:
        threading.Thread(target=cancel_first).start()
        assert released.wait(20)
        await asyncio.sleep(0)
        return "done"

    job_id = await desk.add()
    worker = desk.worker(block)
    await happens(worker.run("drained"))

    assert "nothing was cancelled" in str(told[0])
    assert (await desk.job(job_id)).return_value == "done"


async def test_listener_may_not_wait_for_its_worker(desk: Desk) -> None:
    """An ``async`` listener that would wait for its own worker to close is told so, and the worker goes on."""
    worker = desk.worker(nothing)

    async def listen(*_: Any) -> None:
        await worker.close()

    worker.on("completed", listen)
    failed = gathered(worker, "error", 1)
    await desk.add()
    await happens(worker.run("drained"))

    ((error,),) = await happens(failed)
    assert isinstance(error, UsageError)
    assert "worker.stop()" in str(error)


LOST = """
import asyncio, os, sys
from echomq import UsageError, Worker

async def nothing(job): ...
worker = Worker("work", nothing, sys.argv[1], prefix=sys.argv[2])
loop = asyncio.new_event_loop()

async def begin():
    ready = asyncio.Event()
    worker.on("ready", ready.set)
    running = asyncio.ensure_future(worker.run(handle_signals=False))
    await ready.wait()

loop.run_until_complete(begin())
loop.close()
worker.stop()
worker.resume()
worker.concurrency = 3
print(worker.cancel("1"), worker.cancel_all())
for use in (worker.run, worker.close):
    try:
        asyncio.run(use())
    except UsageError as error:
        print(error)
sys.stdout.flush()
os._exit(0)
"""
"""A program that closes the event loop of its worker, and then speaks to the worker."""


async def test_lost_loop(redis_server: Server, prefix: str) -> None:
    """A worker whose event loop was closed while it worked says so, and can be stopped and cancelled in vain."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LOST, redis_server.url, prefix),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    told, _ = await happens(program.communicate())
    first, second, third = told.decode().splitlines()

    assert first == "False 0"
    assert "closed under it; make another" in second
    assert "another event loop" in third


async def test_loop_in_a_loop(desk: Desk) -> None:
    """``run_sync`` where an event loop runs already is refused with what to call instead."""
    for runnable in (desk.worker(nothing), WorkerGroup({"work": nothing}, desk.url)):
        with at_once(), pytest.raises(UsageError, match=r"await run\(\)"):
            runnable.run_sync()


async def test_fetch_in_two_loops(desk: Desk) -> None:
    """A worker that fetches in one event loop refuses to do so in another, rather than to wait there for ever."""
    worker = desk.worker(None)
    assert await worker.fetch(100) is None

    with at_once(), pytest.raises(UsageError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(worker.fetch(60_000)))
    await worker.close()


async def test_stop_before_a_fetch(desk: Desk) -> None:
    """A fetch of a worker that was stopped before gives no job, and the next one does."""
    await desk.add()
    worker = desk.worker(None)
    worker.stop()
    with at_once():
        assert await happens(worker.fetch()) is None
    async with await happens(worker.fetch()) as fetched:
        assert fetched.job.name == "work"
    await worker.close()


@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
async def test_group_that_ends_before_the_beginning(desk: Desk, wish: str, kind: str) -> None:
    """A group told to end before its run has begun ends at once, and does not run again."""
    await desk.add()
    group: Any
    if kind == "asyncio":
        group = echomq.WorkerGroup({"work": nothing}, desk.url, prefix=desk.keys.prefix)
    else:
        group = AwaitedGroup({"work": nothing}, desk.url, prefix=desk.keys.prefix)
    wished = WISHES[wish](group)
    if asyncio.iscoroutine(wished):
        await wished

    with at_once():
        await happens(group.run())
    with at_once(), pytest.raises(UsageError, match="ran before"):
        await group.run()
    assert await desk.counts() == {"waiting": 1}
    await group.close()


@pytest.mark.parametrize("caller", ["job", "listener"])
async def test_job_or_listener_may_not_wait_for_its_group(desk: Desk, caller: str) -> None:
    """A job, or an ``async`` listener, that would wait for its own group is told so, and can stop it instead."""
    told: list[str] = []

    async def refused(*_: Any) -> None:
        try:
            await group.close()
        except UsageError as error:
            told.append(str(error))
        group.stop()

    group = WorkerGroup(
        {"work": refused if caller == "job" else nothing, "other": nothing}, desk.url, prefix=desk.keys.prefix
    )
    if caller == "listener":
        group.on("completed", refused)
    await desk.add()
    await happens(group.run())

    assert f"a {caller} cannot wait" in told[0]
    assert "group.stop()" in told[0]
