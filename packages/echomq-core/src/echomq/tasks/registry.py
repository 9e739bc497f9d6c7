"""The tasks of a program, and the workers that run them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

import echomq.sync
from echomq.aio import Queue, Worker, connect
from echomq.aio.run import is_open
from echomq.checks import whole
from echomq.errors import InvalidOption, UsageError
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.plans import checked_defaults
from echomq.processors import is_coroutine_function
from echomq.worker_options import error_types

from .signature import signature_of
from .task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.driver import AsyncConnection, Connection, ConnectionSource
    from echomq.keywords import JobKeywords, WorkerKeywords
    from echomq.worker_options import ErrorTypes

__all__ = ["Tasks"]

P = ParamSpec("P")
R = TypeVar("R")


class TaskDecorator(Protocol):
    """Makes a task of a function; what callers get back is what the function returns, awaited."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


class Tasks:
    """The tasks of a program: defined once, called in one place, run in another.

    Making one touches no socket and no event loop.

    Args:
        connection: A URL, options, a ready client, or an open connection, which is not closed here.
            None takes the URL from ``ECHOMQ_URL`` when it is first needed.
        prefix: Name space of all queues.

    Attributes:
        overrides: Provider -> what runs in its place; for tests.
    """

    def __init__(self, connection: ConnectionSource = None, *, prefix: str = DEFAULT_PREFIX) -> None:
        Keys("any", prefix)  # refuses a bad prefix here
        self.prefix = prefix
        self.overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        self._source = connection
        self._by_queue: dict[str, dict[str, Task[..., Any, Any]]] = {}
        self._processors: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._connection: AsyncConnection | None = None
        self._blocking: Connection | None = None
        self._queues: dict[str, Queue] = {}
        self._queues_sync: dict[str, echomq.sync.Queue] = {}

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        retries: int | None = None,
        unrecoverable: ErrorTypes = (),
        **options: Unpack[JobKeywords],
    ) -> TaskDecorator:
        """Make a task of a function, plain or ``async``: a decorator.

        Args:
            queue: Name of the queue its jobs go to.
            name: Name of the jobs; None: the function's.
            retries: How often a failed job runs again; the option ``attempts`` less one.
            unrecoverable: Classes of errors after which no other attempt follows, such as ``ValueError``.
            **options: Of each job; see :class:`~echomq.options.JobOptions`.

        Returns:
            The decorator.

        Raises:
            UsageError: An option is wrong; by the decorator: the function cannot be a task, or the
                queue has a task of that name.
        """
        Keys(queue, self.prefix)
        if retries is not None:
            if options.get("attempts") is not None:
                raise InvalidOption("retries", "does not go with attempts, which is one more; choose one")
            options["attempts"] = whole("retries", retries, 0) + 1
        checked_defaults(options)
        final = error_types(unrecoverable)

        def decorate(function: Callable[..., Any]) -> Task[..., Any, Any]:
            chosen = function.__name__ if name is None else name
            known = self._by_queue.setdefault(queue, {})
            if chosen in known:
                raise UsageError(f"queue {queue!r} has a task called {chosen!r} already; give one of them a name=")
            signature = signature_of(chosen, function)
            task: Task[..., Any, Any] = Task(
                function=function,
                name=chosen,
                queue=queue,
                signature=signature,
                tasks=self,
                unrecoverable=final,
                options=options,
            )
            known[chosen] = task
            self._processors.setdefault(queue, {})[chosen] = task.processor()
            return task

        return decorate  # type: ignore[return-value]  # one function stands for both overloads

    def worker(self, queue: str, **options: Unpack[WorkerKeywords]) -> Worker:
        """Return a worker that runs all tasks of a queue, those too that are defined later.

        Args:
            queue: Name of the queue.
            **options: See :class:`~echomq.options.WorkerOptions`.

        Raises:
            UsageError: No task of that queue is defined, or an option is wrong.
        """
        return Worker(queue, self._processors_of(queue), self._source, prefix=self.prefix, **options)

    def worker_sync(self, queue: str, **options: Unpack[WorkerKeywords]) -> echomq.sync.Worker:
        """Return a worker without an event loop that runs all tasks of a queue, none of which is ``async``.

        Args:
            queue: Name of the queue.
            **options: See :class:`~echomq.options.WorkerOptions`.

        Raises:
            UsageError: No task of that queue is defined, one is an ``async def``, or an option is wrong.
        """
        processors = self._processors_of(queue)
        waiting = [name for name, processor in processors.items() if is_coroutine_function(processor)]
        if waiting:
            raise UsageError(
                f"tasks of queue {queue!r} are async def ({', '.join(waiting)}) and need an event loop; run them by "
                f"tasks.worker({queue!r}), or put them into another queue"
            )
        with self._lock:
            if hasattr(self._source, "blocking_twin") and self._blocking is None:
                self._blocking = self._connect_sync()
            source = self._blocking if hasattr(self._source, "blocking_twin") else self._source
        return echomq.sync.Worker(queue, processors, source, prefix=self.prefix, **options)

    @property
    def queue_names(self) -> tuple[str, ...]:
        """Names of the queues that have tasks, in the order in which they got the first."""
        return tuple(self._by_queue)

    def _processors_of(self, queue: str) -> dict[str, Any]:
        if queue not in self._processors:
            known = ", ".join(sorted(self._processors)) or "none"
            raise UsageError(f"no task of queue {queue!r} is defined (queues with tasks: {known}); import its module")
        return self._processors[queue]

    def queue(self, name: str) -> Queue:
        """Return a queue on the connection of these tasks; always the same object."""
        with self._lock:
            if self._connection is None:
                self._connection = self._source if is_open(self._source) else connect(self._source)
            if name not in self._queues:
                self._queues[name] = Queue(name, self._connection, prefix=self.prefix)
            return self._queues[name]

    def queue_sync(self, name: str) -> echomq.sync.Queue:
        """Return the blocking twin of a queue; threads may share it."""
        with self._lock:
            if self._blocking is None:
                self._blocking = self._connect_sync()
            if name not in self._queues_sync:
                self._queues_sync[name] = echomq.sync.Queue(name, self._blocking, prefix=self.prefix)
            return self._queues_sync[name]

    def _connect_sync(self) -> Connection:
        source: Any = self._source
        if hasattr(source, "blocking_twin"):
            twin: Connection = source.blocking_twin()
            return twin
        return source if hasattr(source, "send_batch") else echomq.sync.connect(source)

    async def close(self) -> None:
        """Close what was opened here. Twice does no harm."""
        for queue in self._queues.values():
            await queue.close()
        if self._connection is not None and self._connection is not self._source:
            await self._connection.close()
        self.close_sync()

    def close_sync(self) -> None:
        """Close what was opened here for code without an event loop. Twice does no harm."""
        for queue in self._queues_sync.values():
            queue.close()
        if self._blocking is not None and self._blocking is not self._source:
            self._blocking.close()

    async def __aenter__(self) -> Self:
        """Give the tasks; nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        await self.close()
