"""What the jobs of a worker share: made before the first of them, let go of after the last."""

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from echomq import InvalidOption, Job, UsageError, Worker, WorkerGroup, aio, sync
from support.blocking import Awaited
from support.desk import Desk, happens, until
from support.limits import DEADLINE_S
from support.servers import Server


class Pool:
    """Something that must be opened, and closed when nobody uses it any more."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @contextlib.contextmanager
    def opened(self) -> Iterator["Pool"]:
        """A plain lifespan."""
        self.told.append("opened")
        try:
            yield self
        finally:
            self.told.append("closed")


async def test_jobs_share_what_the_lifespan_gives(desk: Desk) -> None:
    """It is entered before the first job, each job finds it in ctx, and it is left after the last one's end."""
    pool = Pool()

    def work(_: Job, ctx: Any) -> None:
        ctx.shared.told.append("used")

    async def wait(_: Job, ctx: Any) -> None:
        ctx.shared.told.append("used")

    await desk.add_many(2)
    await desk.worker(work, lifespan=pool.opened).run("drained")
    await desk.add_many(2)
    await desk.worker(wait, lifespan=pool.opened, concurrency=2).run("drained")

    assert pool.told == ["opened", "used", "used", "closed"] * 2
    assert await desk.counts() == {"completed": 4}


async def test_without_a_lifespan_nothing_is_shared(desk: Desk) -> None:
    """Without one, ctx.shared is None."""
    found: list[object] = []
    await desk.add()
    await desk.worker(lambda _, ctx: found.append(ctx.shared)).run("drained")

    assert found == [None]


async def test_coroutine_lifespan(redis_server: Server, prefix: str) -> None:
    """An async lifespan may await at both ends; running jobs end before it is left."""
    told: list[object] = []
    started = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[list[object]]:
        await asyncio.sleep(0)
        told.append("opened")
        yield told
        await asyncio.sleep(0)
        told.append("closed")

    async def work(job: Job, ctx: Any) -> None:
        started.set()
        await asyncio.sleep(0.05)
        ctx.shared.append(job.data)

    worker = Worker("mail", work, redis_server.url, prefix=prefix, lifespan=lifespan)
    with sync.Queue("mail", redis_server.url, prefix=prefix) as queue:
        queue.add("a", 1)
    running = asyncio.ensure_future(worker.run())
    await happens(started.wait())
    await worker.close()
    await happens(running)

    assert told == ["opened", 1, "closed"]


async def test_lifespan_that_fails_takes_no_job(desk: Desk) -> None:
    """What it raises ends the run before a job was taken, and the worker may run again."""
    attempts: list[int] = []

    @contextlib.contextmanager
    def lifespan() -> Iterator[str]:
        attempts.append(1)
        if len(attempts) == 1:
            raise ConnectionRefusedError("no database")
        yield "database"

    await desk.add()
    worker = desk.worker(lambda _, ctx: ctx.shared, lifespan=lifespan)
    with pytest.raises(ConnectionRefusedError, match="no database"):
        await worker.run("drained")
    assert await desk.counts() == {"waiting": 1}

    await worker.run("drained")
    assert await desk.counts() == {"completed": 1}


async def test_what_is_no_lifespan(desk: Desk) -> None:
    """What makes no context manager is told by name, and nothing is run."""
    await desk.add()
    with pytest.raises(InvalidOption, match="lifespan: it made 5, which is no context manager"):
        await desk.worker(print, lifespan=lambda: 5).run("drained")
    with pytest.raises(InvalidOption, match="lifespan: expected a function"):
        desk.worker(print, lifespan="pool")
    with pytest.raises(InvalidOption, match="lifespan: child processes share nothing"):
        desk.worker(print, lifespan=Pool().opened, run_in="process")
    assert await desk.counts() == {"waiting": 1}


def test_blocking_worker_has_no_loop_for_an_async_lifespan(redis_server: Server, prefix: str) -> None:
    """The worker without an event loop refuses an async lifespan, and says why."""

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield

    worker = sync.Worker("mail", print, redis_server.url, prefix=prefix, lifespan=lifespan)
    with pytest.raises(InvalidOption, match="this worker has no event loop"):
        worker.run("drained")


async def test_run_while_the_lifespan_begins(redis_server: Server, prefix: str) -> None:
    """A second run is refused, a stop and a signal are heeded, while the lifespan is still being entered."""
    entering, may_go_on = asyncio.Event(), asyncio.Event()
    left: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        entering.set()
        await may_go_on.wait()
        yield
        left.append("left")

    for end in (Worker.stop, lambda _: signal.raise_signal(signal.SIGTERM)):
        entering.clear()
        may_go_on.clear()
        worker = Worker("mail", print, redis_server.url, prefix=prefix, lifespan=lifespan)
        running = asyncio.ensure_future(worker.run())
        await happens(entering.wait())
        with pytest.raises(UsageError, match="runs already"):
            await worker.run()
        end(worker)
        await asyncio.sleep(0)
        may_go_on.set()
        await happens(running)
    assert left == ["left", "left"]


def make_one(shell: Any, kind: str, server: Server, prefix: str, **options: Any) -> Any:
    """Make a worker, or a group of one."""
    if kind == "group":
        return shell.WorkerGroup({"mail": print}, server.url, prefix=prefix, **options)
    return shell.Worker("mail", print, server.url, prefix=prefix, **options)


@pytest.mark.parametrize("kind", ["worker", "group"])
async def test_close_waits_for_the_end_of_the_lifespan(redis_server: Server, prefix: str, kind: str) -> None:
    """Who closes a worker and then ends the program cuts off nothing that the lifespan still has to do."""
    ready = asyncio.Event()
    told: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        with pytest.raises(UsageError, match="a lifespan cannot wait for its own"):
            await worker.close()
        await asyncio.sleep(0.05)
        told.append("closed")

    worker = make_one(aio, kind, redis_server, prefix, lifespan=lifespan)
    worker.on("ready", ready.set)
    running = asyncio.ensure_future(worker.run())
    await happens(ready.wait())
    await happens(worker.close())

    assert told == ["closed"]
    await happens(running)


@pytest.mark.parametrize("kind", ["worker", "group"])
def test_blocking_close_waits_for_the_end_of_the_lifespan(redis_server: Server, prefix: str, kind: str) -> None:
    """So it is without an event loop; and a second run is refused before it enters anything."""
    ready, pool = threading.Event(), Pool()
    told: list[str] = []

    @contextlib.contextmanager
    def lifespan() -> Iterator[None]:
        with pool.opened():
            yield
            with pytest.raises(UsageError, match="would wait for itself"):
                worker.close()
            time.sleep(0.05)
            told.append("closed")

    worker = make_one(sync, kind, redis_server, prefix, lifespan=lifespan)
    worker.on("ready", ready.set)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert ready.wait(DEADLINE_S)
    with pytest.raises(UsageError, match="runs"):
        worker.run()
    worker.close()

    assert told == ["closed"]
    assert pool.told == ["opened", "closed"]
    thread.join(DEADLINE_S)


@pytest.mark.parametrize("end", ["beginning", "end"])
@pytest.mark.parametrize("kind", ["worker", "group"])
@pytest.mark.parametrize("shell", [aio, sync], ids=["asyncio", "blocking"])
def test_lifespan_that_hangs_is_interrupted(redis_server: Server, prefix: str, shell: Any, kind: str, end: str) -> None:
    """A second signal breaks off a lifespan that hangs, as one whose database does not answer."""
    told: list[str] = []

    @contextlib.asynccontextmanager
    async def patient() -> AsyncIterator[None]:
        if end == "end":
            yield
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.sleep(DEADLINE_S)
        told.append("hung")

    @contextlib.contextmanager
    def blocking() -> Iterator[None]:
        if end == "end":
            yield
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        told.append("hung")

    worker = make_one(shell, kind, redis_server, prefix, lifespan=blocking if shell is sync else patient)
    if shell is sync:
        with pytest.raises(KeyboardInterrupt):
            worker.run("drained")
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(worker.run("drained"))

    assert told == []
    assert not any(one.is_running for one in getattr(worker, "workers", {"mail": worker}).values())


@pytest.mark.parametrize("make_group", [WorkerGroup, sync.WorkerGroup], ids=["asyncio", "blocking"])
async def test_group_enters_it_once(redis_server: Server, prefix: str, make_group: Any) -> None:
    """The workers of a group share one lifespan."""
    pool = Pool()
    with sync.Queue("a", redis_server.url, prefix=prefix) as a, sync.Queue("b", redis_server.url, prefix=prefix) as b:
        a.add("x")
        b.add("x")

    def work(_: Job, ctx: Any) -> None:
        ctx.shared.told.append("used")

    group = make_group({"a": work, "b": work}, redis_server.url, prefix=prefix, lifespan=pool.opened)
    if isinstance(group, WorkerGroup):
        await group.run("drained")
    else:
        await asyncio.to_thread(group.run, "drained")

    assert pool.told == ["opened", "used", "used", "closed"]


@contextlib.contextmanager
def fails_at_its(end: str) -> Iterator[None]:
    """A lifespan that fails."""
    if end == "beginning":
        raise ConnectionRefusedError("no database")
    yield
    raise ConnectionResetError("lost what was not written")


async def test_error_at_the_end_reaches_who_closes_fetches(desk: Desk) -> None:
    """What the lifespan raises at its end, of a worker that jobs are fetched from, close raises, once."""
    await desk.add()
    worker = desk.worker(None, lifespan=lambda: fails_at_its("end"))
    fetched = await happens(worker.fetch())
    await fetched.complete()
    with pytest.raises(ConnectionResetError, match="not written"):
        await happens(worker.close())
    await happens(worker.close())
    assert await desk.counts() == {"completed": 1}

    worker = desk.worker(None, lifespan=lambda: fails_at_its("end"))
    waiting = asyncio.ensure_future(worker.fetch())
    await asyncio.sleep(0)
    worker.stop()
    with pytest.raises(ConnectionResetError, match="not written"):
        await happens(waiting)
    await happens(worker.close())


async def test_error_at_the_end_leaves_the_block(redis_server: Server, prefix: str) -> None:
    """A block of such a worker raises it, in both shells."""
    async with Worker("mail", None, redis_server.url, prefix=prefix, lifespan=lambda: fails_at_its("end")) as worker:
        assert await worker.fetch(50) is None
        with pytest.raises(ConnectionResetError, match="not written"):
            await happens(worker.__aexit__(None, None, None))

    with pytest.raises(ConnectionResetError, match="not written"):  # noqa: SIM117  # the block is what raises
        with sync.Worker("mail", None, redis_server.url, prefix=prefix, lifespan=lambda: fails_at_its("end")) as block:
            assert block.fetch(50) is None


class Database:
    """Something that answers late, and in vain the first time."""

    def __init__(self) -> None:
        self.answers = threading.Event()
        self.attempts = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """A plain lifespan."""
        assert self.answers.wait(DEADLINE_S)
        self.attempts += 1
        if self.attempts == 1:
            raise ConnectionRefusedError("no database")
        yield

    @contextlib.asynccontextmanager
    async def awaited(self) -> AsyncIterator[None]:
        """A lifespan for event loops."""
        await asyncio.to_thread(self.answers.wait, DEADLINE_S)
        with self.opened():
            yield


@pytest.mark.parametrize("kind", ["asyncio", "blocking"])
async def test_error_while_nobody_fetches_reaches_the_next_fetch(redis_server: Server, prefix: str, kind: str) -> None:
    """A lifespan that fails when a fetch has given up fails the next one, and the one after begins anew."""
    database = Database()
    make_worker: Any = Worker if kind == "asyncio" else Awaited
    lifespan = database.awaited if kind == "asyncio" else database.opened
    worker = make_worker("mail", None, redis_server.url, prefix=prefix, lifespan=lifespan)

    async def has_failed() -> bool:
        return database.attempts == 1 and "echomq-fetch-mail" not in {thread.name for thread in threading.enumerate()}

    assert await happens(worker.fetch(50)) is None
    database.answers.set()
    await until(has_failed)
    with pytest.raises(ConnectionRefusedError, match="no database"):
        await happens(worker.fetch(50))

    with sync.Queue("mail", redis_server.url, prefix=prefix) as queue:
        queue.add("x")
    fetched = await happens(worker.fetch())
    await fetched.complete()
    await happens(worker.close())
