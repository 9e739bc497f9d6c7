"""One task: a function whose calls can be jobs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar

import attrs

from echomq.errors import UsageError
from echomq.signals import Unrecoverable

from .depends import run_plainly_with, run_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Unpack

    from echomq.job import Job
    from echomq.keywords import JobKeywords
    from echomq.moments import Duration

    from .registry import Tasks
    from .signature import Signature

__all__ = ["Enqueued", "Prepared", "Task"]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")

Described: TypeAlias = tuple[str, dict[str, Any], Mapping[str, Any]]
"""Name, data and options of a job: an item for ``add_bulk``."""


@attrs.frozen
class Enqueued(Generic[R]):
    """A job that will run a task.

    Attributes:
        id: Its id.
    """

    id: str
    _task: Task[..., Any, R]

    async def result(self, *, timeout: Duration | None = None) -> R:
        """Wait for the result, as the type that the task promises.

        Args:
            timeout: Longest wait, in ms or as ``timedelta``; None: as long as it takes.

        Raises:
            JobFailed: It failed, and no attempt is left; tells why.
            JobRemoved: It does not exist, and nothing is known of its end.
            ResultTimeout: It did not end in time.
            ProtocolError: The result is of another type; tells where.
        """
        task = self._task
        return task.read_result(await task.tasks.queue(task.queue).result(self.id, timeout=timeout))

    def result_sync(self, *, timeout: Duration | None = None) -> R:
        """Wait for the result without an event loop; as :meth:`result`."""
        task = self._task
        return task.read_result(task.tasks.queue_sync(task.queue).result(self.id, timeout=timeout))


@attrs.frozen
class Prepared(Generic[P, R]):
    """A task with options for the jobs that its calls become."""

    _task: Task[P, Any, R]
    _options: Mapping[str, Any]

    def options(self, **options: Unpack[JobKeywords]) -> Prepared[P, R]:
        """Return the same with these options too."""
        return Prepared(self._task, {**self._options, **options})

    def new_job(self, *args: P.args, **kwargs: P.kwargs) -> Described:
        """Return the call as an item for ``add_bulk`` of its queue.

        Raises:
            InvalidOption: The arguments do not fit; tells which.
        """
        task = self._task
        return task.name, task.signature.data(args, kwargs), self._options

    async def delay(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Let a worker make this call.

        Returns:
            The job, whose result can be waited for.

        Raises:
            UsageError: The arguments or options are not acceptable; nothing was sent.
            DriverError: The server was not reached within the deadline, or refused.
        """
        name, data, options = self.new_job(*args, **kwargs)
        job = await self._task.tasks.queue(self._task.queue).add(name, data, **options)
        return Enqueued(job.id, self._task)

    enqueue = delay

    def delay_sync(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Let a worker make this call, from code without an event loop; as :meth:`delay`."""
        name, data, options = self.new_job(*args, **kwargs)
        job = self._task.tasks.queue_sync(self._task.queue).add(name, data, **options)
        return Enqueued(job.id, self._task)

    enqueue_sync = delay_sync


@attrs.define(eq=False, slots=False, kw_only=True)
class Task(Generic[P, T, R]):
    """A function whose calls can be jobs. Calling it calls the function, here and now.

    Attributes:
        function: The function.
        name: Name of its jobs; workers find the function by it.
        queue: Name of the queue they go to.
        signature: What it takes and gives.
        tasks: Where it belongs.
        unrecoverable: Classes of errors after which no other attempt follows.
    """

    function: Callable[P, T]
    name: str
    queue: str
    signature: Signature = attrs.field(repr=False)
    tasks: Tasks = attrs.field(repr=False)
    unrecoverable: tuple[type[Exception], ...] = attrs.field(repr=False)
    _options: Mapping[str, Any] = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        """Look like the function."""
        update_wrapper(self, self.function, updated=())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function; nothing is queued."""
        return self.function(*args, **kwargs)

    def options(self, **options: Unpack[JobKeywords]) -> Prepared[P, R]:
        """Return the task with options for its jobs, in place of those it was defined with.

        Args:
            **options: See :class:`~echomq.options.JobOptions`; times in milliseconds or ``timedelta``.
        """
        return Prepared(self, {**self._options, **options})

    def new_job(self, *args: P.args, **kwargs: P.kwargs) -> Described:
        """See :meth:`Prepared.new_job`."""
        return self.options().new_job(*args, **kwargs)

    async def delay(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """See :meth:`Prepared.delay`."""
        return await self.options().delay(*args, **kwargs)

    enqueue = delay

    def delay_sync(self, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """See :meth:`Prepared.delay_sync`."""
        return self.options().delay_sync(*args, **kwargs)

    enqueue_sync = delay_sync

    def enqueued(self, job_id: str) -> Enqueued[R]:
        """Return a job of this task by its id, so that its result can be waited for."""
        return Enqueued(job_id, self)

    def result_of(self, job: Job) -> R:
        """Return the result of a completed job, as the type that the task promises.

        Raises:
            UsageError: It has none.
            ProtocolError: The result is of another type; tells where.
        """
        if job.raw_return_value is None:
            raise UsageError(f"job {job.id} has no result")
        return self.read_result(job.return_value)

    def read_result(self, value: Any) -> R:
        """Return the result that decoded JSON stands for.

        Raises:
            ProtocolError: It is of another type; tells where.
        """
        result: R = self.signature.result(value)
        return result

    def processor(self) -> Callable[[Job], Any]:
        """Return what a worker runs for a job of this task."""
        return self._process if inspect.iscoroutinefunction(self.function) else self._process_in_thread

    async def _process(self, job: Job) -> Any:
        function: Any = self.function
        signature = self.signature
        arguments = signature.arguments(job)
        try:
            if signature.needs:
                result = await run_with(signature.needs, self.tasks.overrides, function, arguments)
            else:
                result = await function(**arguments)
        except self.unrecoverable as error:
            raise _final(error) from error
        return signature.result_json(result)

    def _process_in_thread(self, job: Job) -> Any:
        signature = self.signature
        arguments = signature.arguments(job)
        try:
            result = run_plainly_with(signature.needs, self.tasks.overrides, self.function, arguments)
        except self.unrecoverable as error:
            raise _final(error) from error
        return signature.result_json(result)


def _final(error: Exception) -> Unrecoverable:
    """The signal that says so, since a worker runs many tasks and knows no error's meaning for one of them."""
    return Unrecoverable(f"{type(error).__name__}: {error}".rstrip(": "))
