"""A queue as tests of workers use it: adds jobs, looks at them, and waits for what must happen."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import attrs

from echomq import Keys, Worker, connect
from echomq.calls.add import add_job
from echomq.calls.query import get_counts, get_job, get_logs
from echomq.driver import AsyncConnection
from echomq.job import Job
from echomq.options import job_options
from echomq.states import JobState
from support.limits import DEADLINE_S
from support.requests import command

__all__ = ["Desk", "at_desk", "at_work", "gathered", "happens", "until"]

STATES = [state for state in JobState if state is not JobState.UNKNOWN]


@attrs.define
class Desk:
    """One queue on one server.

    Attributes:
        url: Of the server.
        keys: Names of the queue's keys.
        connection: For what tests do to it.
        make_worker: Makes its workers.
        made: All that it made.
    """

    url: str
    keys: Keys
    connection: AsyncConnection
    make_worker: Callable[..., Any] = Worker
    made: list[Worker] = attrs.field(factory=list)

    async def add(self, data: Any = None, **options: Any) -> str:
        """Add a job and return its id."""
        job = Job.from_options(self.keys, "work", data, job_options(**options), time.time_ns() // 1_000_000)
        return await self.connection.send(add_job(job))

    async def add_many(self, count: int, **options: Any) -> list[str]:
        """Add jobs whose data are their numbers."""
        return await asyncio.gather(*(self.add(number, **options) for number in range(count)))

    async def job(self, job_id: str) -> Job:
        """Read a job."""
        found = await self.connection.send(get_job(self.keys, job_id))
        assert found is not None, f"job {job_id} does not exist"
        return found

    async def counts(self) -> dict[str, int]:
        """How many jobs are in which state; those with none left out."""
        counts = await self.connection.send(get_counts(self.keys, STATES))
        return {state.value: count for state, count in counts.items() if count}

    async def logs(self, job_id: str) -> list[str]:
        """The log rows of a job."""
        return await self.connection.send(get_logs(self.keys, job_id))

    async def do(self, *parts: Any) -> Any:
        """Run a plain command."""
        return await self.connection.send(command(*parts))

    def worker(self, processor: Any, **options: Any) -> Worker:
        """A worker of this queue."""
        self.made.append(self.make_worker(self.keys.queue, processor, self.url, prefix=self.keys.prefix, **options))
        return self.made[-1]

    @contextlib.asynccontextmanager
    async def working(self, processor: Any, *, ready: bool = True, **options: Any) -> AsyncIterator[Worker]:
        """A worker that works for the length of a ``with`` block, and is closed after it."""
        async with at_work(self.worker(processor, **options), ready=ready) as worker:
            yield worker

    async def until_counts(self, **expected: int) -> None:
        """Wait until the jobs are in these states, and no other."""
        wanted = {name.replace("_", "-"): count for name, count in expected.items()}

        async def reached() -> bool:
            return await self.counts() == wanted

        try:
            await until(reached)
        except TimeoutError:
            raise TimeoutError(f"{await self.counts()}, expected {wanted}") from None


@contextlib.asynccontextmanager
async def at_work(worker: Worker, *, ready: bool = True) -> AsyncIterator[Worker]:
    """A worker of the test's own that works for the length of a ``with`` block, and is closed after it.

    Args:
        worker: It.
        ready: Wait until it is.
    """
    is_ready = gathered(worker, "ready", 1)
    running = asyncio.ensure_future(worker.run())
    try:
        if ready:
            await happens(is_ready)
        yield worker
    finally:
        await worker.close(1_000)
        await happens(running)


@contextlib.asynccontextmanager
async def at_desk(url: str, prefix: str, make_worker: Callable[..., Any] = Worker) -> AsyncIterator[Desk]:
    """Open a queue; workers that a failed test leaves at work are ended with it."""
    connection = connect(url)
    desk = Desk(url, Keys("work", prefix), connection, make_worker)
    try:
        yield desk
    finally:
        for worker in desk.made:
            if worker.is_running:
                await worker.close(0)
        await connection.close()


def gathered(
    worker: Worker, event: str, count: int, then: Callable[[], object] | None = None
) -> "asyncio.Future[list[Any]]":
    """A future of the first ``count`` events of a name: of what their listeners were told."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()
    future: asyncio.Future[list[Any]] = loop.create_future()
    told: list[Any] = []

    def settle() -> None:
        if not future.done():
            future.set_result(told)

    def listen(*args: Any) -> None:
        told.append(args)
        if len(told) == count:
            settle() if threading.get_ident() == home else loop.call_soon_threadsafe(settle)
            if then is not None:
                then()

    worker.on(event, listen)
    return future


async def happens(awaited: Any, within_s: float = DEADLINE_S) -> Any:
    """Wait for something that must happen in time."""
    return await asyncio.wait_for(awaited, within_s)


async def until(reached: Callable[[], Awaitable[bool]], within_s: float = DEADLINE_S) -> None:
    """Wait until a question to the server is answered with yes.

    Raises:
        TimeoutError: It was not, in time.
    """
    deadline = time.monotonic() + within_s
    while not await reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not reached within {within_s} s")
        await asyncio.sleep(0.01)
