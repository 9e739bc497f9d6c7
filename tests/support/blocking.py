"""The blocking worker in the shape of the asyncio one, so that one suite tests both.

The worker runs in a thread of its own. Its processors may be ``async`` all the same:
they run on the event loop of the test, and the job's thread waits for them.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

import attrs
from typing_extensions import Self

import echomq.sync
from echomq.job import Job
from echomq.processors import is_coroutine_function, takes_context

__all__ = ["Awaited", "AwaitedGroup", "in_thread"]


async def in_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function in a new thread, and wait for what it returns."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def run() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            outcome = function(*args, **kwargs), None
        except BaseException as error:  # noqa: BLE001  # raised again where it is awaited
            outcome = None, error
        loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    return await future


@attrs.define
class _Cancelled:
    event: threading.Event

    def is_set(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> bool:
        return bool(await in_thread(self.event.wait))


@attrs.define
class _Context:
    """A blocking ``ctx`` whose methods can be awaited."""

    context: Any

    @property
    def cancelled(self) -> _Cancelled:
        return _Cancelled(self.context.cancelled)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.context, name)
        if name in {"log", "progress", "update_data", "extend", "add_child", "get_children_values"}:
            return lambda *args, **kwargs: in_thread(found, *args, **kwargs)
        return found


def _plainly(processor: Any, loop: asyncio.AbstractEventLoop) -> Any:
    if isinstance(processor, Mapping):
        return {name: _plainly(one, loop) for name, one in processor.items()}
    if not is_coroutine_function(processor):
        return processor

    def process(job: Job, ctx: Any) -> Any:
        work = processor(job, _Context(ctx)) if takes_context(processor) else processor(job)
        return _waited_for(work, loop, ctx)

    return process


def _waited_for(work: Any, loop: asyncio.AbstractEventLoop, ctx: Any) -> Any:
    """Wait for a coroutine on another thread's loop, and cancel it when the job should end."""
    ended = threading.Event()
    outcome: list[tuple[Any, BaseException | None]] = []
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        try:
            outcome.append((await work, None))
        except BaseException as error:  # noqa: BLE001  # raised again in the job's thread
            outcome.append((None, error))

    def begin() -> None:
        tasks.append(loop.create_task(run()))
        tasks[0].add_done_callback(lambda _: ended.set())  # also of one that is cancelled before its first step

    loop.call_soon_threadsafe(begin)
    is_cancelled = False
    while not ended.wait(0.02):
        if ctx.cancelled.is_set() and not is_cancelled:
            is_cancelled = True
            loop.call_soon_threadsafe(lambda: tasks[0].cancel())
    if not outcome:
        work.close()
        raise asyncio.CancelledError
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


@attrs.define
class _Fetched:
    """A job that was fetched, whose end can be told by awaiting."""

    target: Any

    @property
    def job(self) -> Job:
        job: Job = self.target.job
        return job

    @property
    def ctx(self) -> _Context:
        return _Context(self.target.ctx)

    async def complete(self, value: Any = None) -> None:
        await in_thread(self.target.complete, value)

    async def fail(self, error: Any) -> None:
        await in_thread(self.target.fail, error)

    async def release(self) -> None:
        await in_thread(self.target.release)

    async def __aenter__(self) -> Self:
        self.target.__enter__()
        return self

    async def __aexit__(self, *error: object) -> bool:
        return bool(await in_thread(self.target.__exit__, *error))


class _Blocking:
    """Something blocking that works, awaited."""

    target: Any

    async def run(self, *args: Any, **kwargs: Any) -> None:
        """Work in a thread."""
        await in_thread(self.target.run, *args, **kwargs)

    async def close(self, *args: Any, **kwargs: Any) -> None:
        """Close."""
        await in_thread(self.target.close, *args, **kwargs)

    async def pause(self, *args: Any, **kwargs: Any) -> None:
        """Pause."""
        await in_thread(self.target.pause, *args, **kwargs)

    def run_sync(self, *args: Any, **kwargs: Any) -> None:
        """Work in the present thread."""
        self.target.run(*args, **kwargs)

    @property
    def concurrency(self) -> int:
        """Jobs at one time."""
        return int(self.target.concurrency)

    @concurrency.setter
    def concurrency(self, count: int) -> None:
        self.target.concurrency = count

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)


class Awaited(_Blocking):
    """A blocking worker that is awaited."""

    def __init__(self, queue: str, processor: Any, url: Any, **options: Any) -> None:
        self.target = echomq.sync.Worker(queue, _plainly(processor, asyncio.get_event_loop()), url, **options)

    async def fetch(self, timeout: Any = None) -> Any:
        """Fetch a job in a thread."""
        fetched = await in_thread(self.target.fetch, timeout)
        return None if fetched is None else _Fetched(fetched)


class AwaitedGroup(_Blocking):
    """A blocking group of workers that is awaited."""

    def __init__(self, processors: Any, url: Any, **options: Any) -> None:
        self.target = echomq.sync.WorkerGroup(_plainly(processors, asyncio.get_event_loop()), url, **options)
