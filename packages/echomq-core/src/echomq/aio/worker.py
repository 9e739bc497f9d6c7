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
from contextlib import ExitStack
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

from .connecting import connect
from .interrupts import on_interrupt
from .listeners import Listeners
from .manual import Manual
from .plugged import plug_in, with_backoffs
from .routing import job_runner
from .run import is_open
from .shift import Shift

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import ConnectionSource
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
        self._share: Access | None = self._manual
        self._fetching: asyncio.Task[None] | None = None
        self._is_paused = False
        self._is_closed = False
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
        self._tell(messages.ConcurrencyChanged(count))

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
        """Work until the worker is closed.

        Args:
            until: ``"drained"`` also ends when no job waits or runs here and no delayed one is
                due within ``drain_delay``.
            handle_signals: Close at SIGTERM and Ctrl-C, and force the end at the second. None: if this
                is the main thread.

        Raises:
            UsageError: The worker runs already or was closed, or ``until`` is something else.
            ConnectionClosed: The connection's owner closed it.
            CancelledError: The task was cancelled; running jobs were cancelled too and wait again.
        """
        if self._manual is not None:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has no processor to run; call fetch")
        await self._work(until, handle_signals=handle_signals)

    async def _work(self, until: Literal["drained"] | None, *, handle_signals: bool | None) -> None:
        if until not in (None, "drained"):
            raise UsageError(f"until: expected 'drained' or None, not {until!r}")
        if self._shift is not None:
            raise UsageError(
                f"the worker of queue {self.keys.queue!r} runs already; make another, or raise concurrency"
            )
        if self._is_closed:
            raise UsageError(f"the worker of queue {self.keys.queue!r} was closed; make another")
        owned = not is_open(self._source)
        connection = connect(self._source) if owned else self._source
        if handle_signals is None:
            handle_signals = threading.current_thread() is threading.main_thread()
        self._loop, self._gone = asyncio.get_running_loop(), asyncio.Event()
        with ExitStack() as stack:
            if handle_signals:
                stack.enter_context(on_interrupt(self._interrupted))
            self._shift = Shift(
                keys=self.keys,
                options=self.options,
                processing=self._processing,
                listeners=self._listeners,
                connection=connection,
                until_drained=until == "drained",
                is_paused=self._is_paused,
                share=self._share,
            )
            if self._manual is not None:
                self._manual.watch(self._shift.slots.held)
            try:
                await self._shift.work()
            finally:
                self._shift = None
                if owned:
                    await connection.close()
                self._gone.set()
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
            UsageError: The worker has a processor, or was closed before.
            ConnectionClosed: The connection's owner closed it.
        """
        if self._manual is None:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has a processor, which gets its jobs; call run")
        if self._is_closed:
            raise UsageError(f"the worker of queue {self.keys.queue!r} was closed; make another")
        limit_ms = None if timeout is None else duration_ms("timeout", timeout, minimum=1)
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.ensure_future(self._work(None, handle_signals=False))
        asked = self._manual.ask()
        try:
            limit_s = None if limit_ms is None else limit_ms / 1000
            either: set[asyncio.Future[Any]] = {asked, self._fetching}
            await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if asked.done() and (fetched := asked.result()) is not None:
                fetched.abandon()
            raise
        finally:
            self._manual.withdraw(asked)
        if self._fetching.done() and not asked.done():
            self._fetching.result()
        return asked.result() if asked.done() else None

    def run_sync(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work in an event loop made for it; for programs that have none. Arguments as :meth:`run`."""
        asyncio.run(self.run(until, handle_signals=handle_signals))

    def cancel(self, job_id: str, reason: str | None = None) -> bool:
        """Stop a job that this worker runs, and let it fail for good, whatever attempts are left.

        A coroutine is cancelled, a thread finds ``ctx.cancelled`` set, a process is killed.
        :meth:`Queue.cancel <echomq.Queue.cancel>` does the same from any process. Call it in the worker's
        event loop.

        Args:
            job_id: The job.
            reason: What it fails with; None: "cancelled".

        Returns:
            False if it does not run here, or its code has ended already.
        """
        return self._shift is not None and self._shift.slots.cancel(job_id, reason)

    def cancel_all(self, reason: str | None = None) -> int:
        """Stop all jobs that this worker runs, as :meth:`cancel` does; returns how many."""
        held = [] if self._shift is None else list(self._shift.slots.held)
        return sum(self.cancel(job.job_id, reason) for job in held)

    def join(self, share: Access) -> None:
        """Take jobs only with slots of a pool that several workers share; what :class:`WorkerGroup` does."""
        self._share = share

    def stop(self, timeout: Duration | None = None) -> None:
        """Begin to close, and return at once; safe in listeners and jobs, and in other threads.

        Args:
            timeout: As :meth:`close`.
        """
        limit_ms = self._timeout_ms(timeout)
        if self._shift is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._shift.happened, messages.Closed(limit_ms))

    async def close(self, timeout: Duration | None = None) -> None:
        """Take no more jobs, let running ones end and store their results, then let go of the server.

        Args:
            timeout: Longest wait for running jobs, in ms or as ``timedelta``. What has not ended then is
                cancelled and given back to wait at once, without using an attempt; a thread cannot be
                stopped, so it is only asked to end. None: the option ``close_timeout``.

        Raises:
            UsageError: A job of this worker calls it, and would wait for itself, or the worker runs in
                another event loop; use :meth:`stop`.
        """
        shift, gone = self._shift, self._gone
        if shift is None or gone is None:
            self._is_closed = True
            return
        self._refuse_to_wait(shift, "close", "worker.stop()")
        self._is_closed = True
        shift.happened(messages.Closed(self._timeout_ms(timeout)))
        await gone.wait()

    async def pause(self, *, wait: bool = True) -> None:
        """Take no jobs in this worker until :meth:`resume`; other workers go on.

        Args:
            wait: Return when the running jobs have ended. False also works in jobs and in other threads.

        Raises:
            UsageError: It would wait for the job that calls it, or in another event loop than the worker's.
        """
        shift = self._shift
        if shift is not None and wait:
            self._refuse_to_wait(shift, "pause", "worker.pause(wait=False)")
        self._is_paused = True
        self._tell(messages.Paused())
        if shift is not None and wait:
            await shift.slots.idle()
        self._announce("paused")

    def resume(self) -> None:
        """Take jobs again; safe in other threads."""
        self._is_paused = False
        self._tell(messages.Resumed())
        self._announce("resumed")

    def _refuse_to_wait(self, shift: Shift, what: str, instead: str) -> None:
        if any(held.task is asyncio.current_task() for held in list(shift.slots.held)):
            raise UsageError(f"a job cannot wait for its own worker to {what}; call {instead} instead")
        if self._loop is not asyncio.get_running_loop():
            raise UsageError(
                f"the worker runs in another event loop, where it can be waited for to {what}; call {instead} here"
            )

    def _tell(self, event: messages.Happened) -> None:
        if self._shift is not None:
            self._in_loop(self._shift.happened, event)

    def _announce(self, event: str) -> None:
        self._in_loop(self._listeners.call, event)

    def _in_loop(self, call: Callable[..., None], *args: Any) -> None:
        """Call something where the worker runs, whatever thread this is."""
        if self._shift is None or self._loop is None or self._loop is _running_loop():
            call(*args)
        else:
            self._loop.call_soon_threadsafe(call, *args)

    def _timeout_ms(self, timeout: Duration | None) -> int | None:
        return self.options.close_timeout if timeout is None else duration_ms("timeout", timeout)

    def _interrupted(self, force: bool) -> None:
        if self._shift is not None:
            self._shift.happened(messages.Closed(0 if force else self.options.close_timeout))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # a thread without one
        return None
