"""The worker without an event loop; the twin of :mod:`echomq.aio.worker`.

Nothing works until the host calls :meth:`Worker.run`. What a worker decides is
in :mod:`echomq.scheduling`; :mod:`echomq.sync.shift` carries one run out.

Source: design.md section 5; protocol spec 05 sections 4 and 10.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import attrs

from echomq.errors import UsageError
from echomq.hash_slots import check_queue
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.listening import EVENTS, Listening
from echomq.moments import Duration, duration_ms
from echomq.options import WorkerOptions, worker_options
from echomq.processes.pool import ProcessPool
from echomq.processors import is_coroutine_function
from echomq.scheduling import messages
from echomq.surroundings import within_surroundings

from . import steering
from .connecting import connect
from .errands import Errands
from .interrupts import on_interrupt
from .lifespan import entered
from .manual import Manual
from .plugged import plug_in, with_backoffs
from .processing import JobRunner, job_runner
from .run import is_open
from .shift import Shift
from .working import work

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import ConnectionSource
    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors

    from .manual import FetchedJob
    from .turns import Access

__all__ = ["Worker"]

AnyListener = TypeVar("AnyListener", bound=Callable[..., Any])


class Worker:
    """Takes the jobs of one queue and processes them in threads, or in child processes.

    Args:
        queue: Name of the queue.
        processor: ``processor(job)`` or ``processor(job, ctx)``; or a mapping, with one for each name of a
            job. What it returns is the job's result, any JSON value; what it raises fails the attempt, but
            the signals of :mod:`echomq.signals` steer. ``async def`` only in child processes (``run_in="process"``).
            None: jobs are fetched by hand, see :meth:`fetch`.
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
        if self.options.run_in == "loop":
            raise UsageError("run_in='loop': this worker has no event loop; run it by echomq.Worker, or in threads")
        self._pool: ProcessPool | None = None
        self._manual: Manual | None = None
        runner: JobRunner
        if processor is None:
            runner = self._manual = Manual(queue, self._work_for_fetches)
        elif self.options.run_in == "process":
            self._pool = ProcessPool(processor, self.options.max_jobs_per_child)
            runner = job_runner(self._pool.run)
        else:
            runner = job_runner(processor)
        self._source = connection
        self._listening = Listening(tuple(EVENTS), self._refuse_awaitable)
        self._run = plug_in(runner, self.keys, self._listening)
        self._life = threading.Lock()
        self._shift: Shift | None = None
        self._gone = threading.Event()
        self._gone.set()
        self._is_paused = False
        self._is_closed = False
        self._has_run = False
        self._begins = False
        self._in_lifespan = False
        self._shared: Any = None
        self._wish: messages.Closed | None = None
        """An end that was asked for while no run was under way; the next run begins with it."""
        # Making a connection touches nothing, and refuses here what would otherwise fail in run.
        if (connection if is_open(connection) else connect(connection)).is_cluster:
            check_queue(self.keys)

    def __enter__(self) -> Self:
        """Give the worker; nothing works until :meth:`run`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the worker; after an exception without waiting for running jobs, which wait again."""
        self.close(None if kind is None else 0)

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
        shift = self._shift
        return None if shift is None else time.monotonic() - shift.answered_at_s

    @property
    def concurrency(self) -> int:
        """Jobs at one time; may be changed while the worker runs."""
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
        """Call a listener, a plain function, at a local event; also as a decorator, ``@worker.on("failed")``.

        What a listener raises is logged and told as ``error``; it never reaches a job. Listeners of ``active`` and
        ``progress`` are called in the thread of their job, those of ``completed`` and ``failed`` in a thread of
        jobs, all others in the one that runs the worker, which does nothing else meanwhile.

        Args:
            event: One of :data:`~echomq.listening.EVENTS`, which tells the arguments.
            listener: Whom to call.

        Returns:
            The listener, or the decorator.

        Raises:
            UnknownOption: There is no such event.
            UsageError: The listener is an ``async def``.
        """
        if listener is None:
            return lambda function: self.on(event, function)
        if is_coroutine_function(listener):
            raise UsageError(f"listener of {event!r}: {listener!r} is an async def, and this worker has no event loop")
        self._listening.add(event, listener)
        return listener

    def off(self, event: str, listener: Callable[..., Any]) -> None:
        """Call a listener no longer."""
        self._listening.remove(event, listener)

    def run(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work until the worker is closed, from another thread, by a signal, or by :meth:`stop`.

        One that was stopped or closed before its first run ends at once, without a job.

        Args:
            until: ``"drained"`` also ends when no job waits or runs here and no delayed one is
                due within ``drain_delay``.
            handle_signals: Close at SIGTERM and Ctrl-C, and force the end at the second. None: if this
                is the main thread.

        Raises:
            UsageError: The worker runs already, or ran and was closed, or ``until`` is something else.
            ConnectionClosed: The connection's owner closed it.
            KeyboardInterrupt: Ctrl-C, where it is not handled; running jobs were told to end and wait again.
        """
        if handle_signals is None:
            handle_signals = threading.current_thread() is threading.main_thread()
        with ExitStack() as stack:
            if handle_signals:
                stack.enter_context(on_interrupt(partial(steering.interrupted, self)))
            self._work(stack, until)

    def _work(self, stack: ExitStack, until: Literal["drained"] | None, turn: Manual | None = None) -> None:
        with self._life:
            self._refuse_to_begin(until, turn, self._begins)
            if self._is_closed and self._has_run:
                raise self._was_closed()
            self._begins = self._has_run = True
        try:
            # Whoever waits for the end also waits for that of the lifespan.
            ends = stack.enter_context(ExitStack())
            stack.callback(setattr, self, "_in_lifespan", False)
            self._in_lifespan = True
            self.lend(stack.enter_context(entered(self.options.lifespan)))
            self._in_lifespan = False
            errands = Errands()
            shift = self.begin(errands, until, turn)
            ends.callback(self.end, shift)
        finally:
            self._begins = False
        if turn is not None:
            turn.watch(shift.slots.held)
        try:
            work([shift], errands)
        finally:
            self._in_lifespan = True

    def begin(self, errands: Errands, until: Literal["drained"] | None, turn: Access | None = None) -> Shift:
        """Set up a run, which the caller then works off; what :class:`WorkerGroup` does.

        Args:
            errands: Of the thread that does so.
            until: As :meth:`run`.
            turn: Who says when slots may be used; None: always.

        Raises:
            UsageError: As :meth:`run`.
        """
        with self._life:
            self._refuse_to_begin(until, turn)
            shift = Shift(
                keys=self.keys,
                options=self.options,
                run=self._run,
                listening=self._listening,
                connection=self._source if is_open(self._source) else connect(self._source),
                until_drained=until == "drained",
                errands=errands,
                turn=turn,
                is_paused=self._is_paused,
                shared=self._shared,
            )
            self._gone.clear()
            self._shift = shift
        # What was wished since the shift was made, and before it could be seen.
        if shift.is_paused is not self._is_paused:
            steering.tell(self, messages.Paused() if self._is_paused else messages.Resumed())
        if shift.options is not self.options:
            steering.tell(self, messages.ConcurrencyChanged(self.options.concurrency))
        wish, self._wish = self._wish, None
        if wish is not None:
            shift.happened(wish)
        return shift

    def _refuse_to_begin(self, until: object, turn: Access | None, begins: bool = False) -> None:
        if until not in (None, "drained"):
            raise UsageError(f"until: expected 'drained' or None, not {until!r}")
        if self._manual is not None and turn is not self._manual:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has no processor: pass a function or call fetch")
        if self._shift is not None or begins:
            raise UsageError(
                f"the worker of queue {self.keys.queue!r} runs already; make another, or raise concurrency"
            )
        if self._is_closed and self._wish is None:
            raise self._was_closed()

    def _was_closed(self) -> UsageError:
        return UsageError(f"the worker of queue {self.keys.queue!r} was closed; make another")

    def end(self, shift: Shift) -> None:
        """Let go of a run that has ended; what :class:`WorkerGroup` does."""
        if self._pool is not None:
            self._pool.close()
        if shift.connection is not self._source:
            shift.connection.close()
        self._gone.set()
        self._shift = None
        self._listening.call("closed")

    def fetch(self, timeout: Duration | None = None) -> FetchedJob | None:
        """Take a job by hand; for a worker without a processor. Safe in any thread.

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
            Exception: What the lifespan raised, now or since the last call.
        """
        if self._manual is None:
            raise UsageError(f"the worker of queue {self.keys.queue!r} has a processor, which gets its jobs; call run")
        if self._is_closed:
            raise self._was_closed()
        limit_ms = None if timeout is None else duration_ms("timeout", timeout, minimum=1)
        return self._manual.fetch(None if limit_ms is None else limit_ms / 1000)

    def _work_for_fetches(self, manual: Manual) -> None:
        with ExitStack() as stack:
            self._work(stack, None, manual)

    def lend(self, shared: Any) -> None:
        """Give jobs what was made elsewhere, in place of a lifespan of their own; what :class:`WorkerGroup` does."""
        self._shared = shared

    # What may be wanted of it, each explained there.

    cancel = steering.cancel
    cancel_all = steering.cancel_all
    stop = steering.stop
    close = steering.close
    pause = steering.pause
    resume = steering.resume

    def _refuse_awaitable(self, event: str, answer: Any) -> None:
        if hasattr(answer, "close"):
            answer.close()
        self._listening.failed(event, UsageError(f"a listener of {event!r} gave {answer!r}, which nobody awaits here"))
