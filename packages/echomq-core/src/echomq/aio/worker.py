"""The worker for asyncio.

Nothing works until the host calls :meth:`Worker.run`. What a worker decides is
in :mod:`echomq.scheduling`; :mod:`echomq.aio.shift` carries one run out.

Source: design.md section 5; protocol spec 05 sections 4 and 10.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import attrs

from echomq.errors import UsageError
from echomq.hash_slots import check_queue
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.listening import EVENTS
from echomq.moments import Duration, duration_ms
from echomq.options import WorkerOptions, worker_options
from echomq.scheduling import messages
from echomq.surroundings import within_surroundings

from . import steering
from .connecting import connect
from .interrupts import on_interrupt
from .lifespan import entered
from .listeners import Listeners
from .manual import Manual
from .outlasting import outlasting
from .plugged import plug_in, with_backoffs
from .routing import job_runner
from .run import is_open, refuse_loop
from .shift import Shift

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import AsyncConnection, ConnectionSource
    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors

    from .manual import FetchedJob
    from .processing import JobRunner
    from .shares import Access

__all__ = ["EVENTS", "Worker"]

AnyListener = TypeVar("AnyListener", bound=Callable[..., Any])


class Worker:
    """Takes the jobs of one queue and processes them.

    Args:
        queue: Name of the queue.
        processor: ``processor(job)`` or ``processor(job, ctx)``; or a mapping, with one for each name of a
            job. ``async def`` runs on the event loop, a plain function in a thread, both in a child process
            if the option ``run_in`` says so. What it returns is the
            job's result, any JSON value; what it raises fails the attempt, but the signals of
            :mod:`echomq.signals` steer. None: jobs are fetched by hand, see :meth:`fetch`.
        connection: A URL, options, a ready client, or an open connection, which is not closed here.
            None takes the URL from ``ECHOMQ_URL``.
        prefix: Name space of the queue.
        **options: See :class:`~echomq.options.WorkerOptions`; times in milliseconds or ``timedelta``.

    Raises:
        UsageError: The processor cannot be called, an option is wrong, or there is no such connection.
    """

    def __init__(
        self,
        queue: str,
        processor: Processors | None,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        **options: Unpack[WorkerKeywords],
    ) -> None:
        self.keys = Keys(queue, prefix)
        self.options: WorkerOptions = with_backoffs(within_surroundings(worker_options(**options)))
        self._source = connection
        self._listeners = Listeners(tuple(EVENTS))
        manual = Manual()
        self._manual = manual if processor is None else None
        runner: JobRunner = manual if processor is None else job_runner(processor, self.options)
        self._processing = plug_in(runner, self.keys, self._listeners)
        self._shift: Shift | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gone: asyncio.Event | None = None
        self._runner: asyncio.Task[Any] | None = None
        self._share: Access | None = self._manual
        self._fetching: asyncio.Task[None] | None = None
        self._is_paused = False
        self._is_closed = False
        self._has_run = False
        self._begins = False
        self._in_lifespan = False
        self._lent: tuple[Any] | None = None
        self._wish: messages.Closed | None = None
        """An end that was asked for while no run was under way; the next run begins with it."""
        # Making a connection touches nothing, and refuses here what would otherwise fail in run.
        if (connection if is_open(connection) else connect(connection)).is_cluster:
            check_queue(self.keys)

    async def __aenter__(self) -> Self:
        """Give the worker; nothing works until :meth:`run`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the worker; after an exception without waiting for running jobs, which wait again."""
        await self.close(None if kind is None else 0)

    @property
    def is_running(self) -> bool:
        """Whether :meth:`run` is at work."""
        return self._shift is not None

    @property
    def is_paused(self) -> bool:
        """Whether this worker takes no jobs; see :meth:`pause`."""
        return self._is_paused

    @property
    def silent_for_s(self) -> float | None:
        """Seconds since the server last answered; None while the worker does not run.

        An idle worker hears from its server after each wait (``drain_delay``), a busy one with each job
        and each renewal of locks: much more than that means that it is cut off. For health checks.
        """
        return None if self._shift is None else time.monotonic() - self._shift.answered_at_s

    @property
    def concurrency(self) -> int:
        """Jobs at one time; may be changed while the worker runs, in any thread."""
        return self.options.concurrency

    @concurrency.setter
    def concurrency(self, count: int) -> None:
        self.options = attrs.evolve(self.options, concurrency=count)
        steering.tell(self, messages.ConcurrencyChanged(count))

    @overload
    def on(self, event: str, listener: AnyListener) -> AnyListener: ...

    @overload
    def on(self, event: str) -> Callable[[AnyListener], AnyListener]: ...

    def on(self, event: str, listener: Callable[..., Any] | None = None) -> Any:
        """Call a listener, plain or ``async``, at a local event; also as a decorator, ``@worker.on("failed")``.

        What a listener raises is logged and told as ``error``; it never reaches a job.

        Args:
            event: One of :data:`EVENTS`, which tells the arguments.
            listener: Whom to call.

        Returns:
            The listener, or the decorator.

        Raises:
            UnknownOption: There is no such event.
        """
        if listener is None:
            return lambda function: self.on(event, function)
        self._listeners.add(event, listener)
        return listener

    def off(self, event: str, listener: Callable[..., Any]) -> None:
        """Call a listener no longer."""
        self._listeners.remove(event, listener)

    async def run(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work until the worker is closed; one that was stopped or closed before its first run ends at once.

        Args:
            until: ``"drained"`` also ends when no job waits or runs here and no delayed one is
                due within ``drain_delay``.
            handle_signals: Close at SIGTERM and Ctrl-C, and force the end at the second. None: if this
                is the main thread.

        Raises:
            UsageError: The worker runs already, or ran and was closed, or ``until`` is something else.
            ConnectionClosed: The connection's owner closed it.
            CancelledError: The task was cancelled; running jobs were cancelled too and wait again.
        """
        if self._manual is not None:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has no processor: pass a function or call fetch")
        await self._work(until, handle_signals=handle_signals)

    async def _work(self, until: Literal["drained"] | None, *, handle_signals: bool | None) -> None:
        if until not in (None, "drained"):
            raise UsageError(f"until: expected 'drained' or None, not {until!r}")
        if self._shift is not None or self._begins:
            is_left = self._loop is not None and self._loop.is_closed()
            problem = "ran in an event loop that was closed under it; make another"
            raise UsageError(
                f"the worker of queue {self.keys.queue!r} "
                f"{problem if is_left else 'runs already; make another, or raise concurrency'}"
            )
        # A group that is closed between two of its rounds ends the one that begins.
        if self._is_closed and (self._wish is None or (self._has_run and self._lent is None)):
            raise self._was_closed()
        self._has_run = True
        owned = not is_open(self._source)
        connection = connect(self._source) if owned else self._source
        if handle_signals is None:
            handle_signals = threading.current_thread() is threading.main_thread()
        self._loop, self._gone = asyncio.get_running_loop(), asyncio.Event()
        self._runner = asyncio.current_task()
        async with AsyncExitStack() as stack:
            if handle_signals:
                stack.enter_context(on_interrupt(partial(steering.interrupted, self)))
            # Whoever waits for the end also waits for that of the lifespan.
            stack.push_async_callback(self._end, connection if owned else None)
            stack.callback(setattr, self, "_in_lifespan", False)
            (shared,) = self._lent or (await self._share_among_jobs(stack),)
            self._shift = Shift(
                keys=self.keys,
                options=self.options,
                processing=self._processing,
                listeners=self._listeners,
                connection=connection,
                until_drained=until == "drained",
                is_paused=self._is_paused,
                share=self._share,
                shared=shared,
            )
            if self._manual is not None:
                self._manual.watch(self._shift.slots.held)
            # What other threads wished since the shift was made, and before it could be seen.
            if self._shift.is_paused is not self._is_paused:
                steering.tell(self, messages.Paused() if self._is_paused else messages.Resumed())
            if self._shift.options is not self.options:
                steering.tell(self, messages.ConcurrencyChanged(self.options.concurrency))
            wish, self._wish = self._wish, None
            if wish is not None:
                self._shift.happened(wish)
            try:
                await self._shift.work()
            finally:
                self._in_lifespan = True

    def _was_closed(self) -> UsageError:
        return UsageError(f"the worker of queue {self.keys.queue!r} was closed; make another")

    async def _share_among_jobs(self, stack: AsyncExitStack) -> Any:
        self._begins = self._in_lifespan = True
        try:
            return await stack.enter_async_context(entered(self.options.lifespan))
        finally:
            self._begins = self._in_lifespan = False

    async def _end(self, connection: AsyncConnection | None) -> None:
        try:
            if connection is not None:
                await outlasting(connection.close())
        finally:
            has_worked, self._shift = self._shift is not None, None
            if self._gone is not None:
                self._gone.set()
            if has_worked:
                self._listeners.call("closed")

    async def fetch(self, timeout: Duration | None = None) -> FetchedJob | None:
        """Take a job by hand; for a worker without a processor.

        From the first call on the worker works behind the scenes, until :meth:`close`: it renews locks, recovers
        stalled jobs, and repeats what an outage breaks off. It takes nothing that nobody has asked for, and
        holds no more than ``concurrency`` jobs.

        Args:
            timeout: Longest wait for a job, in ms or as ``timedelta``; None: as long as it takes.

        Returns:
            The job; None if there was none in time, or the worker was closed.

        Raises:
            UsageError: The worker has a processor, or was closed before, or fetches in another event loop.
            ConnectionClosed: The connection's owner closed it.
            Exception: What the lifespan raised, now or since the last call.
        """
        if self._manual is None:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has a processor, which gets its jobs; call run")
        if self._is_closed:
            raise self._was_closed()
        limit_ms = None if timeout is None else duration_ms("timeout", timeout, minimum=1)
        steering.tell_end_of_fetching(self)
        fetching = self._fetching
        if fetching is None or fetching.get_loop().is_closed():
            fetching = self._fetching = asyncio.ensure_future(self._work(None, handle_signals=False))
        if fetching.get_loop() is not asyncio.get_running_loop():
            raise UsageError(
                f"the worker of queue {self.keys.queue!r} fetches in another event loop; make one for each"
            )
        asked = self._manual.ask()
        try:
            limit_s = None if limit_ms is None else limit_ms / 1000
            either: set[asyncio.Future[Any]] = {asked, fetching}
            await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if asked.done() and (fetched := asked.result()) is not None:
                fetched.abandon()
            raise
        finally:
            self._manual.withdraw(asked)
        if fetching.done() and not asked.done():
            if self._fetching is fetching:
                self._fetching = None
            fetching.result()
        return asked.result() if asked.done() else None

    def run_sync(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work in an event loop made for it; for programs that have none. Arguments as :meth:`run`."""
        refuse_loop("run_sync", "await run()")
        asyncio.run(self.run(until, handle_signals=handle_signals))

    def join(self, share: Access) -> None:
        """Take jobs only with slots of a pool that several workers share; what :class:`WorkerGroup` does."""
        self._share = share

    def lend(self, shared: Any) -> None:
        """Give jobs what was made elsewhere, in place of a lifespan of their own; what :class:`WorkerGroup` does."""
        self._lent = (shared,)

    # What may be wanted of it, each explained there.

    cancel = steering.cancel
    cancel_all = steering.cancel_all
    stop = steering.stop
    close = steering.close
    pause = steering.pause
    resume = steering.resume
