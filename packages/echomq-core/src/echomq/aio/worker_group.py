"""Several queues, one pool of slots, one connection.

Source: :mod:`echomq.scheduling.weights` tells whose turn it is.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from echomq.errors import UsageError
from echomq.keys import DEFAULT_PREFIX
from echomq.shares import Pool, weights_of
from echomq.worker_options import worker_options

from .connecting import connect
from .interrupts import on_interrupt
from .lifespan import entered
from .outlasting import outlasting
from .run import is_open, refuse_loop
from .shares import Share
from .steering import refuse_to_close, refuse_to_wait
from .worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import AsyncConnection, ConnectionSource
    from echomq.keywords import WorkerKeywords
    from echomq.moments import Duration
    from echomq.processors import Processors

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
        self._connection: AsyncConnection = connect(connection) if self._is_owner else connection
        common = worker_options(**options)
        self._lifespan = common.lifespan
        self._pool = Pool.of(common.concurrency, checked)
        self.workers: Mapping[str, Worker] = {
            queue: Worker(queue, processor, self._connection, prefix=prefix, **options)
            for queue, processor in processors.items()
        }
        for queue, worker in self.workers.items():
            worker.join(Share(self._pool.shares[queue]))
        self._is_used = False
        self._is_stopped = False
        self._in_lifespan = False
        self._runner: asyncio.Task[Any] | None = None
        self._over: asyncio.Event | None = None

    async def __aenter__(self) -> Self:
        """Give the group; nothing works until :meth:`run`."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the group; after an exception without waiting for running jobs, which wait again."""
        await self.close(None if kind is None else 0)

    @property
    def concurrency(self) -> int:
        """Jobs at one time over all queues; may be changed while the group runs."""
        return self._pool.capacity

    @concurrency.setter
    def concurrency(self, count: int) -> None:
        for worker in self.workers.values():
            worker.concurrency = count
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

    async def run(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work until the group is closed; once only. One that was stopped or closed before ends at once.

        Args:
            until: ``"drained"`` also ends when there is nothing to do in any of the queues.
            handle_signals: As :meth:`Worker.run`.

        Raises:
            UsageError: It runs or ran before, or ``until`` is something else.
            ConnectionClosed: The connection's owner closed it.
            CancelledError: The task was cancelled; running jobs were cancelled too and wait again.
        """
        if self._is_used:
            raise UsageError(f"the group of queues {', '.join(self.workers)} runs, or ran before; make another")
        self._is_used = True
        self._runner = asyncio.current_task()
        if handle_signals is None:
            handle_signals = threading.current_thread() is threading.main_thread()
        async with AsyncExitStack() as stack:
            if handle_signals:
                stack.enter_context(on_interrupt(self._interrupted))
            # Whoever waits for the end also waits for that of the lifespan.
            stack.push_async_callback(self._end)
            stack.callback(setattr, self, "_in_lifespan", False)
            self._in_lifespan = True
            shared = await stack.enter_async_context(entered(self._lifespan))
            for worker in self.workers.values():
                worker.lend(shared)
            self._over, self._in_lifespan = asyncio.Event(), False
            try:
                # A job of one queue may add to another that has come to its end already.
                while not self._is_stopped and await self._round(until) and until:
                    pass
            finally:
                self._in_lifespan = True

    async def _end(self) -> None:
        try:
            if self._is_owner:
                await outlasting(self._connection.close())
        finally:
            if self._over is not None:
                self._over.set()

    async def _round(self, until: Literal["drained"] | None) -> bool:
        """Let all workers run to their end; tells whether any had something to do."""
        before = self._pool.started
        tasks = [
            asyncio.ensure_future(worker.run(until, handle_signals=False))
            for worker in self.workers.values()
            if not worker._is_closed  # by itself
        ]
        if not tasks:
            return False
        try:
            done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        except asyncio.CancelledError:
            await _cancelled(tasks)
            raise
        if rest:  # one has failed
            await _cancelled(rest)
        for task in done:
            task.result()
        return self._pool.started > before

    def run_sync(self, until: Literal["drained"] | None = None, *, handle_signals: bool | None = None) -> None:
        """Work in an event loop made for it; for programs that have none. Arguments as :meth:`run`."""
        refuse_loop("run_sync", "await run()")
        asyncio.run(self.run(until, handle_signals=handle_signals))

    def stop(self, timeout: Duration | None = None) -> None:
        """Begin to close, and return at once; see :meth:`Worker.stop`."""
        self._is_stopped = True
        for worker in self.workers.values():
            worker.stop(timeout)

    async def close(self, timeout: Duration | None = None) -> None:
        """Take no more jobs, let running ones end, then let go of the server; see :meth:`Worker.close`."""
        for worker in self.workers.values():
            refuse_to_close(worker, "group.stop()")
        if self._over is not None and not self._over.is_set() and self._runner is asyncio.current_task():
            raise UsageError("a lifespan cannot wait for its own group to close; call group.stop() instead")
        self._is_stopped = True
        await asyncio.gather(*(worker.close(timeout) for worker in self.workers.values()))
        if self._over is not None:
            await self._over.wait()
        if self._is_owner and not self._is_used:
            await self._connection.close()

    async def pause(self, *, wait: bool = True) -> None:
        """Take no jobs in this group until :meth:`resume`; see :meth:`Worker.pause`."""
        for worker in self.workers.values() if wait else ():
            refuse_to_wait(worker, "pause", "group.pause(wait=False)")
        await asyncio.gather(*(worker.pause(wait=wait) for worker in self.workers.values()))

    def resume(self) -> None:
        """Take jobs again."""
        for worker in self.workers.values():
            worker.resume()

    def _interrupted(self, force: bool) -> None:
        self.stop(0 if force else None)
        if force and self._in_lifespan and self._runner is not None:
            self._runner.cancel()  # of a lifespan that hangs nobody knows how long it will


async def _cancelled(tasks: Any) -> None:
    for task in tasks:
        task.cancel()
    await outlasting(asyncio.wait(tasks))
