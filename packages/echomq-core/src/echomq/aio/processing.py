"""Calls the user's function in the right place: ``async def`` on the loop, plain functions in threads.

A job in a child process is a thread here, which waits for it.

Source: design.md section 2; protocol spec 05 section 4.7.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Protocol

import attrs

from echomq.current import bind_context
from echomq.errors import UsageError
from echomq.job import Job
from echomq.processors import check_processor, is_coroutine_function, takes_context
from echomq.worker_options import RunIn

from .context import Context, Host, ThreadContext

__all__ = ["JobRunner", "Processing"]


class JobRunner(Protocol):
    """What a worker needs in order to run jobs."""

    def context(self, job: Job, token: str, host: Host) -> Context | ThreadContext:
        """Return the ``ctx`` of a job."""
        ...

    def call(self, job: Job, context: Context | ThreadContext) -> Awaitable[Any]:
        """Run a job in the present task, or in a thread."""
        ...

    def close(self) -> None:
        """Let go of what it holds."""
        ...


_MANY_THREADS = 1 << 16
"""The pool makes a thread only when none is idle, so that the worker's concurrency is the limit."""


@attrs.define(eq=False)
class Processing:
    """One worker's way to run its processor.

    Attributes:
        function: As the user gave it.
        run_in: Where it shall run; None: by its kind.
        released: Called when the worker lets go.
        in_thread: It is a plain function.
        takes_context: It wants ``ctx``.
    """

    function: Callable[..., Any]
    run_in: RunIn | None = None
    released: Callable[[], object] = lambda: None
    in_thread: bool = attrs.field(init=False)
    takes_context: bool = attrs.field(init=False)
    _threads: ThreadPoolExecutor | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Look at the function once."""
        check_processor(self.function)
        self.in_thread = not is_coroutine_function(self.function)
        self.takes_context = takes_context(self.function)
        if self.run_in == "loop" and self.in_thread:
            raise UsageError(f"run_in='loop': {self.function!r} is a plain function, which would block the loop")
        if self.run_in == "thread" and not self.in_thread:
            raise UsageError(f"run_in='thread': {self.function!r} is an async def, which needs the event loop")

    def context(self, job: Job, token: str, host: Host) -> Context | ThreadContext:
        """Return the ``ctx`` of a job."""
        context = Context(job, token, host)
        return ThreadContext(context, asyncio.get_running_loop()) if self.in_thread else context

    def call(self, job: Job, context: Context | ThreadContext) -> Awaitable[Any]:
        """Run the function for a job in the present task, or in a thread."""
        bind_context(context)
        if self.in_thread:
            return self._call_in_thread(job, context)
        result: Awaitable[Any] = self.function(job, context) if self.takes_context else self.function(job)
        return result

    async def _call_in_thread(self, job: Job, context: Context | ThreadContext) -> Any:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MANY_THREADS, thread_name_prefix="echomq-job")
        args = (job, context) if self.takes_context else (job,)
        bound = copy_context()
        result = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: bound.run(self._plain, *args))
        # A plain function may return what an async one made, such as a lambda does.
        return await result if inspect.isawaitable(result) else result

    def _plain(self, *args: Any) -> Any:
        try:
            return self.function(*args)
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
            # No future can carry the first and no task survives the others; Ctrl-C is never heard in a thread.
            raise RuntimeError(f"the processor raised {type(error).__name__}") from error

    def close(self) -> None:
        """Let go of threads and processes; a thread that is busy ends with its job."""
        self.released()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
