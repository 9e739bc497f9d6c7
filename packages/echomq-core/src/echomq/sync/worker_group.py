"""Several queues, one pool of slots, one connection, blocking; the twin of :mod:`echomq.aio.worker_group`.

Source: :mod:`echomq.scheduling.weights` tells whose turn it is.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from echomq.errors import UsageError
from echomq.keys import DEFAULT_PREFIX
from echomq.shares import Pool, weights_of
from echomq.worker_options import worker_options

from .connecting import connect
from .errands import Errands
from .interrupts import on_interrupt
from .lifespan import entered
from .run import is_open
from .turns import Turn
from .worker import Worker
from .working import work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import Connection, ConnectionSource
    from echomq.keywords import WorkerKeywords
    from echomq.moments import Duration
    from echomq.processors import Processors

    from .shift import Shift

__all__ = ["WorkerGroup"]

AnyListener = TypeVar("AnyListener", bound="Callable[..., Any]")


class WorkerGroup:
    """Takes the jobs of several queues, and runs so many at one time over all of them.

    While slots are free, any queue may use them. When there are more jobs than slots, queues start jobs in
    proportion to their weights, and none waits for ever.

    Args:
        processors: Name of each queue -> its processor, or its processors by names of jobs; see :class:`Worker`.
        connection: See :class:`Worker`; shared by all queues.
        weights: How many jobs a queue starts while another of weight 1 starts one; 1 where nothing is said.
        prefix: Name space of the queues.
        **options: See :class:`~echomq.options.WorkerOptions`; those of each queue's worker, but ``concurrency``
            counts over all queues.

    Raises:
        UsageError: As :class:`Worker`; or there is no queue, or a weight for one that is not there.

    Attributes:
        workers: Of each queue, for what concerns one alone: its events, pausing, cancelling.
    """

    def __init__(
        self,
        processors: Mapping[str, Processors],
        connection: ConnectionSource = None,
        *,
        weights: Mapping[str, int] | None = None,
        prefix: str = DEFAULT_PREFIX,
        **options: Unpack[WorkerKeywords],
    ) -> None:
        checked = weights_of(processors, weights or {})
        self._is_owner = not is_open(connection)
        self._connection: Connection = connect(connection) if self._is_owner else connection
        common = worker_options(**options)
        self._lifespan = common.lifespan
        self._pool = Pool.of(common.concurrency, checked)
        self.workers: Mapping[str, Worker] = {
            queue: Worker(queue, processor, self._connection, prefix=prefix, **options)
            for queue, processor in processors.items()
        }
        self._lock = threading.Lock()
        self._shifts: dict[str, Shift] = {}
        self._is_used = False
        self._is_stopped = False
        self._in_lifespan = False
        self._runner: int | None = None
        self._over = threading.Event()
        self._over.set()

    def __enter__(self) -> Self:
        """Give the group; nothing works until :meth:`run`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the group; after an exception without waiting for running jobs, which wait again."""
        self.close(None if kind is None else 0)

    @property
    def concurrency(self) -> int:
        """Jobs at one time over all queues; may be changed while the group runs."""
        return self._pool.capacity

    @concurrency.setter
    def concurrency(self, count: int) -> None:
        for worker in self.workers.values():
            worker.concurrency = count
        with self._lock:
            self._pool.resize(count)

    @overload
    def on(self, event: str, listener: AnyListener) -> AnyListener: ...

    @overload
    def on(self, event: str) -> Callable[[AnyListener], AnyListener]: ...

    def on(self, event: str, listener: Callable[..., Any] | None = None) -> Any:
        """Call a listener at a local event of any of the workers; see :meth:`Worker.on`."""
        if listener is None:
            return lambda function: self.on(event, function)
        for worker in self.workers.values():
            worker.on(event, listener)
        return listener

    def off(self, event: str, listener: Callable[..., Any]) -> None:
        """Call a listener no longer."""
        for worker in self.workers.values():
            worker.off(event, listener)

    def run(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work until the group is closed; once only. One that was stopped or closed before ends at once.

        Args:
            until: ``"drained"`` also ends when there is nothing to do in any of the queues.
            handle_signals: As :meth:`Worker.run`.

        Raises:
            UsageError: It runs or ran before, or ``until`` is something else.
            ConnectionClosed: The connection's owner closed it.
            KeyboardInterrupt: Ctrl-C, where it is not handled; running jobs were told to end and wait again.
        """
        if self._is_used:
            raise UsageError(f"the group of queues {', '.join(self.workers)} runs, or ran before; make another")
        self._is_used = True
        self._runner = threading.get_ident()
        if handle_signals is None:
            handle_signals = threading.current_thread() is threading.main_thread()
        with ExitStack() as stack:
            if handle_signals:
                stack.enter_context(on_interrupt(self._interrupted))
            # Whoever waits for the end also waits for that of the lifespan.
            stack.callback(self._end)
            stack.callback(setattr, self, "_in_lifespan", False)
            self._in_lifespan = True
            shared = stack.enter_context(entered(self._lifespan))
            for worker in self.workers.values():
                worker.lend(shared)
            self._over.clear()
            self._in_lifespan = False
            try:
                # A job of one queue may add to another that has come to its end already.
                while not self._is_stopped and self._round(until) and until:
                    pass
            finally:
                self._in_lifespan = True

    def _end(self) -> None:
        try:
            if self._is_owner:
                self._connection.close()
        finally:
            self._over.set()

    def _round(self, until: Literal["drained"] | None) -> bool:
        """Let all workers run to their end; tells whether any had something to do."""
        before, errands = self._pool.started, Errands()
        self._shifts = {}
        try:
            for queue, worker in self.workers.items():
                if worker._is_closed:  # by itself
                    continue
                turn = Turn(self._pool.shares[queue], self._lock)
                self._shifts[queue] = worker.begin(errands, until, turn)
            work(list(self._shifts.values()), errands)
        finally:
            for queue, shift in self._shifts.items():
                self.workers[queue].end(shift)
        return self._pool.started > before

    def stop(self, timeout: Duration | None = None) -> None:
        """Begin to close, and return at once; see :meth:`Worker.stop`."""
        self._is_stopped = True
        for worker in self.workers.values():
            worker.stop(timeout)

    def close(self, timeout: Duration | None = None) -> None:
        """Take no more jobs, let running ones end, then let go of the server; see :meth:`Worker.close`."""
        self._refuse_own_thread("close", "stop()")
        self.stop(timeout)
        for worker in self.workers.values():
            worker.close(timeout)
        self._over.wait()
        if self._is_owner and not self._is_used:
            self._connection.close()

    def pause(self, *, wait: bool = True) -> None:
        """Take no jobs in this group until :meth:`resume`; see :meth:`Worker.pause`."""
        if wait:
            self._refuse_own_thread("pause", "pause(wait=False)")
        for worker in self.workers.values():
            worker.pause(wait=False)
        for shift in list(self._shifts.values()) if wait else ():
            shift.slots.idle()

    def resume(self) -> None:
        """Take jobs again."""
        for worker in self.workers.values():
            worker.resume()

    def _interrupted(self, force: bool) -> None:
        self.stop(0 if force else None)
        if force and self._in_lifespan:
            raise KeyboardInterrupt  # of a lifespan that hangs nobody knows how long it will

    def _refuse_own_thread(self, what: str, instead: str) -> None:
        in_run = not self._over.is_set() and self._runner == threading.get_ident()
        if in_run or any(shift.is_own_thread() for shift in list(self._shifts.values()) if not shift.is_over):
            raise UsageError(
                f"this thread runs the group or one of its jobs, and would wait for itself: {what} was called in a "
                f"job or a listener; call {instead} instead"
            )
