"""``ctx`` in a child process: the names of the worker's own, answered by the worker.

Plain functions get a :class:`ChildContext`, ``async def`` an :class:`AsyncChildContext`.
A job that shall end is not told so in a child: its process is killed.

Source: protocol spec 05 section 10, Job.
"""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from echomq.codec import encode_json
from echomq.current import job_logger
from echomq.job import Job

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from concurrent.futures import Future

    from typing_extensions import Unpack

    from echomq.keywords import JobKeywords

__all__ = ["Asking", "AsyncChildContext", "ChildContext"]

Asking: TypeAlias = "Callable[[str, tuple[Any, ...], dict[str, Any]], Future[Any]]"
"""Asks the worker to call a method of its own ``ctx``."""


@attrs.define(eq=False)
class ChildContext:
    """What a plain function in a child process may do for its job; waits for each answer.

    Attributes:
        job: The job, with its data as last updated.
        token: What its lock holds.
    """

    job: Job
    token: str
    _ask: Asking = attrs.field(repr=False)

    @property
    def logger(self) -> "logging.LoggerAdapter[Any]":
        """Logger whose records carry queue, job and attempt; set up logging in the module of the processor."""
        return job_logger

    def log(self, row: str) -> int | None:
        """Append a row to the job's log; see :meth:`echomq.Context.log`."""
        return cast("int | None", self.ask("log", row).result())

    def log_soon(self, row: str) -> None:
        """Append a row to the job's log without waiting for it; see :meth:`echomq.Context.log_soon`."""
        self.ask("log", row)

    def progress(self, value: Any) -> None:
        """Store how far the job has come; see :meth:`echomq.Context.progress`."""
        self.ask("progress", value).result()

    def update_data(self, data: Any) -> None:
        """Replace the job's data; see :meth:`echomq.Context.update_data`."""
        self.ask("update_data", data).result()
        self.updated(data)

    def add_child(
        self, name: str, data: object = None, *, queue: str | None = None, **options: "Unpack[JobKeywords]"
    ) -> Job:
        """Add a job that this one depends on; see :meth:`echomq.Context.add_child`."""
        return cast("Job", self.ask("add_child", name, data, queue=queue, **options).result())

    def get_children_values(self) -> dict[str, Any]:
        """Return the results of the job's completed children; see :meth:`echomq.Context.get_children_values`."""
        return cast("dict[str, Any]", self.ask("get_children_values").result())

    def extend(self, duration: int | timedelta) -> None:
        """Let the job's lock live so long from now; see :meth:`echomq.Context.extend`."""
        self.ask("extend", duration).result()

    def ask(self, method: str, *args: Any, **options: Any) -> "Future[Any]":
        """Ask the worker to do something for the job."""
        return self._ask(method, args, options)

    def updated(self, data: Any) -> None:
        """Show the job with the data that the server has now."""
        self.job = attrs.evolve(self.job, raw_data=encode_json(f"data of job {self.job.id}", data))


@attrs.define(eq=False)
class AsyncChildContext:
    """What an ``async def`` processor in a child process may do for its job: :class:`ChildContext` with ``await``."""

    _context: ChildContext

    @property
    def job(self) -> Job:
        """See :class:`ChildContext`."""
        return self._context.job

    @property
    def token(self) -> str:
        """See :class:`ChildContext`."""
        return self._context.token

    @property
    def logger(self) -> "logging.LoggerAdapter[Any]":
        """See :attr:`ChildContext.logger`."""
        return job_logger

    async def log(self, row: str) -> int | None:
        """See :meth:`ChildContext.log`."""
        return cast("int | None", await self._asked("log", row))

    def log_soon(self, row: str) -> None:
        """See :meth:`ChildContext.log_soon`."""
        self._context.log_soon(row)

    async def progress(self, value: Any) -> None:
        """See :meth:`ChildContext.progress`."""
        await self._asked("progress", value)

    async def update_data(self, data: Any) -> None:
        """See :meth:`ChildContext.update_data`."""
        await self._asked("update_data", data)
        self._context.updated(data)

    async def add_child(
        self, name: str, data: object = None, *, queue: str | None = None, **options: "Unpack[JobKeywords]"
    ) -> Job:
        """See :meth:`ChildContext.add_child`."""
        return cast("Job", await self._asked("add_child", name, data, queue=queue, **options))

    async def get_children_values(self) -> dict[str, Any]:
        """See :meth:`ChildContext.get_children_values`."""
        return cast("dict[str, Any]", await self._asked("get_children_values"))

    async def extend(self, duration: int | timedelta) -> None:
        """See :meth:`ChildContext.extend`."""
        await self._asked("extend", duration)

    async def _asked(self, method: str, *args: Any, **options: Any) -> Any:
        return await asyncio.wrap_future(self._context.ask(method, *args, **options))
