"""What a processor is given beside its job: ``ctx``.

``async def`` processors get a :class:`Context`, plain functions in threads a
:class:`ThreadContext`, the same names without ``await``. Whatever they send is
repeated through outages: a broken link does not fail a job.

Source: protocol spec 05 section 10, Job.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from uuid import uuid4

import attrs

from echomq import middleware, plugins
from echomq.call import Command, ScriptCall
from echomq.calls import family as family_calls
from echomq.calls.change import add_log, update_data, update_progress
from echomq.calls.locks import extend_lock
from echomq.clock import wall_ms
from echomq.current import bound_context, job_logger
from echomq.errors import EchoMQError, LockMissing, UsageError
from echomq.extensions import report
from echomq.job import Job
from echomq.keys import Keys
from echomq.moments import duration_ms
from echomq.options import Parent
from echomq.plans import draft

from .log_rows import LogRows

if TYPE_CHECKING:
    import logging

    from typing_extensions import Unpack

    from echomq.keywords import JobKeywords

__all__ = ["Context", "Host", "ThreadContext", "current_context"]

T = TypeVar("T")


def current_context() -> "Context | ThreadContext | None":
    """Return the context of the job that this code runs for; None outside of jobs."""
    return cast("Context | ThreadContext | None", bound_context())


class Host(Protocol):
    """What a context needs of its worker."""

    async def send_for_job(self, call: ScriptCall[T] | Command[T]) -> T | None:
        """Send a call until it is answered; None if only the reply to a first try was lost."""
        ...

    def tell(self, event: str, *args: Any) -> None:
        """Call the listeners of a local event."""
        ...

    def in_loop(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function in the worker's event loop: at once there, soon from other threads."""
        ...

    @property
    def shared(self) -> Any:
        """What the lifespan of the worker gave."""
        ...

    def time_left_ms(self) -> int | None:
        """Return how long running jobs may go on; None: to their end."""
        ...


@attrs.define(eq=False)
class Context:
    """What an ``async def`` processor may do for its job.

    Attributes:
        job: The job, with its data as last updated.
        token: What its lock holds.
        rows: Those of its log that are on their way, if there were any.
    """

    job: Job
    token: str
    _host: Host = attrs.field(repr=False)
    _is_cancelled: bool = attrs.field(init=False, repr=False, default=False)
    _cancelled: asyncio.Event | None = attrs.field(init=False, repr=False, default=None)
    rows: LogRows | None = attrs.field(init=False, repr=False, default=None)

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the job should end: it is cancelled or took too long, its lock is lost, or its worker closes now."""
        if self._cancelled is None:
            self._cancelled = asyncio.Event()
            if self._is_cancelled:
                self._cancelled.set()
        return self._cancelled

    @property
    def shared(self) -> Any:
        """What the worker's ``lifespan`` gave, the same for all its jobs; None without one."""
        return self._host.shared

    @property
    def time_left_ms(self) -> int | None:
        """How long the job may still run because its worker closes; None as long as no end is set."""
        return self._host.time_left_ms()

    @property
    def logger(self) -> "logging.LoggerAdapter[Any]":
        """Logger whose records carry queue, job and attempt; :data:`job_logger` does the same anywhere below."""
        return job_logger

    def replace_job(self, job: Job) -> None:
        """Show the processor this job; what layers of plugins around it call."""
        self.job = job

    def cancel(self) -> None:
        """Set ``cancelled``; what the worker calls."""
        self._is_cancelled = True
        if self._cancelled is not None:
            self._cancelled.set()

    async def log(self, row: str) -> int | None:
        """Append a row to the job's log and return the number of rows; None if that reply was lost.

        Raises:
            InvalidOption: ``row`` is no text.
            JobNotFound: The job was removed.
        """
        return await self._host.send_for_job(add_log(self.job.keys, self.job.id, row, self.job.options.keep_logs))

    def log_soon(self, row: str) -> None:
        """Append a row to the job's log without waiting for it; for code that cannot ``await``.

        Rows are stored in order, and before the attempt ends; one that cannot be stored is warned about.
        """
        self._host.in_loop(self._add_row, row)

    def _add_row(self, row: str) -> None:
        if self.rows is None:
            self.rows = LogRows(self.job.id, self.log)
        self.rows.add(row)

    async def progress(self, value: Any) -> None:
        """Store how far the job has come, any JSON value, and announce it.

        Raises:
            NotEncodable: The value is not JSON.
            JobNotFound: The job was removed.
        """
        await self._host.send_for_job(update_progress(self.job.keys, self.job.id, value))
        self._host.tell("progress", self.job, value)

    async def update_data(self, data: Any) -> None:
        """Replace the job's data: the next attempt sees the new ones, and ``ctx.job`` at once.

        Raises:
            NotEncodable: The data is not JSON.
            JobNotFound: The job was removed.
        """
        call = update_data(self.job.keys, self.job.id, data)
        await self._host.send_for_job(call)
        self.job = attrs.evolve(self.job, raw_data=str(call.args[0]))

    async def add_child(
        self, name: str, data: object = None, *, queue: str | None = None, **options: "Unpack[JobKeywords]"
    ) -> Job:
        """Add a job that this one depends on; raise :class:`~echomq.WaitForChildren` to run again after all of them.

        Args:
            name: What kind of work the child is.
            data: Any JSON value.
            queue: Name of the child's queue; None: that of this job.
            **options: See :class:`~echomq.options.JobOptions`; a ``job_id`` keeps a second attempt from
                adding the child again.

        Raises:
            UsageError: An option or the data is not acceptable.
            ParentConflict: There is a job of that id with another parent.
            ParentNotFound: The job was removed.
        """
        own = self.job.keys
        family = {**options, "parent": Parent(self.job.id, own.qualified_name)}
        child = draft(Keys(queue or own.queue, own.prefix), name, data, family, {}, wall_ms())
        if not child.id:
            child = attrs.evolve(child, id=str(uuid4()))  # made here, so that a lost reply adds no second child
        return await self._add(child)

    async def get_children_values(self) -> dict[str, Any]:
        """Return the results of the job's completed children, by the keys of the children.

        Raises:
            ProtocolError: Another client stored a result that is not JSON.
        """
        return await self._host.send_for_job(family_calls.get_children_values(self.job.keys, self.job.id)) or {}

    async def _add(self, child: Job) -> Job:
        plan = middleware.add(plugins.extensions().add_layers, child, report)
        call: Any = next(plan)
        try:
            added = await self._host.send_for_job(call)
            plan.send(added or child.id)
        except EchoMQError as error:
            plan.throw(error)
        except StopIteration as end:
            job: Job = end.value
            return job
        raise AssertionError("an add is one call")

    async def extend(self, duration: int | timedelta) -> None:
        """Let the job's lock live so long from now; only needed where locks are not renewed.

        Raises:
            LockMissing: The lock is lost.
        """
        lock_ms = duration_ms("duration", duration, minimum=1)
        if not await self._host.send_for_job(extend_lock(self.job.keys, self.job.id, self.token, lock_ms)):
            raise LockMissing("extendLock", self.job.id)


@attrs.define(eq=False)
class ThreadContext:
    """What a plain function in a thread may do for its job: :class:`Context` without ``await``.

    Attributes:
        cancelled: Set when the job should end; nobody can stop a thread, so long work should look at it.
        began_at_s: From when its limit of time counts, on the monotonic clock.
    """

    _context: Context
    _loop: asyncio.AbstractEventLoop = attrs.field(repr=False)
    _loop_thread: int = attrs.field(init=False, repr=False, factory=threading.get_ident)
    cancelled: threading.Event = attrs.field(init=False, repr=False, factory=threading.Event)
    began_at_s: float = attrs.field(init=False, repr=False, factory=time.monotonic)
    _over: str | None = attrs.field(init=False, repr=False, default=None)
    _on_cancel: Callable[[], object] | None = attrs.field(init=False, repr=False, default=None)

    @property
    def job(self) -> Job:
        """See :class:`Context`."""
        return self._context.job

    @property
    def token(self) -> str:
        """See :class:`Context`."""
        return self._context.token

    @property
    def shared(self) -> Any:
        """See :attr:`Context.shared`."""
        return self._context.shared

    @property
    def rows(self) -> LogRows | None:
        """See :class:`Context`."""
        return self._context.rows

    @property
    def time_left_ms(self) -> int | None:
        """See :attr:`Context.time_left_ms`."""
        return self._context.time_left_ms

    @property
    def logger(self) -> "logging.LoggerAdapter[Any]":
        """See :attr:`Context.logger`."""
        return job_logger

    def replace_job(self, job: Job) -> None:
        """See :meth:`Context.replace_job`."""
        self._context.replace_job(job)

    def cancel(self) -> None:
        """Set ``cancelled``; what the worker calls."""
        self.cancelled.set()
        if self._on_cancel is not None:
            self._on_cancel()

    def begins_at(self, moment_s: float) -> None:
        """Let the limit of time count from then; what runs the job's process calls this."""
        self.began_at_s = moment_s

    def when_cancelled(self, function: Callable[[], object] | None) -> None:
        """Call a function when ``cancelled`` gets set, or at once if it is; what runs the job's process calls this."""
        self._on_cancel = function
        if function is not None and self.cancelled.is_set():
            function()

    def cut_off(self, why: str) -> None:
        """Refuse all further calls: the attempt is over, whatever its thread does; what the worker calls."""
        self._over = why

    def log(self, row: str) -> int | None:
        """See :meth:`Context.log`."""
        return self.wait_for(self._context.log(row))

    def log_soon(self, row: str) -> None:
        """See :meth:`Context.log_soon`.

        Raises:
            UsageError: The attempt is over; whatever its thread does has no effect.
        """
        self._refuse_late()
        self._context.log_soon(row)

    def progress(self, value: Any) -> None:
        """See :meth:`Context.progress`."""
        self.wait_for(self._context.progress(value))

    def update_data(self, data: Any) -> None:
        """See :meth:`Context.update_data`."""
        self.wait_for(self._context.update_data(data))

    def add_child(
        self, name: str, data: object = None, *, queue: str | None = None, **options: "Unpack[JobKeywords]"
    ) -> Job:
        """See :meth:`Context.add_child`."""
        return self.wait_for(self._context.add_child(name, data, queue=queue, **options))

    def get_children_values(self) -> dict[str, Any]:
        """See :meth:`Context.get_children_values`."""
        return self.wait_for(self._context.get_children_values())

    def extend(self, duration: int | timedelta) -> None:
        """See :meth:`Context.extend`."""
        self.wait_for(self._context.extend(duration))

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the worker's event loop, and wait for what it gives.

        Raises:
            UsageError: This is the thread of that loop, or the attempt was stopped and is over.
        """
        try:
            self._refuse_late()
        except UsageError:
            work.close()
            raise
        if threading.get_ident() == self._loop_thread:
            work.close()
            raise UsageError("this ctx would block the event loop it waits for; make the processor an async def")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _refuse_late(self) -> None:
        if self._over is not None:
            raise UsageError(f"this attempt is over: {self._over}")
