"""Queues, and workers, that live as long as a web application: for FastAPI, Starlette, Litestar, and their like.

None of these frameworks is imported. What they share is enough: an application
takes an async context manager for its lifespan, and calls functions for what its
handlers need.

Source: features.md, "FastAPI / Starlette / Litestar lifespan".
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import attrs

from .aio import Queue, Worker, WorkerGroup, connect
from .aio.run import is_open
from .driver import AsyncConnection, ConnectionSource
from .errors import UsageError
from .keys import DEFAULT_PREFIX, Keys
from .moments import Duration, duration_ms

__all__ = ["MakeWorker", "Queues"]

_log = logging.getLogger("echomq.web")

MakeWorker: TypeAlias = Callable[[AsyncConnection], Worker | WorkerGroup]
"""Makes a worker for the connection that an application's queues use."""


class Queues:
    """Queues of a web application, open while it runs.

    Made once, where the application is made; nothing is connected before the first request. It may serve several
    applications, and several event loops: each has queues and a connection of its own.

    Args:
        connection: A URL, options, or None, which takes the URL from ``ECHOMQ_URL``.
        prefix: Name space of the queues.
        workers: Each is called with the connection when the application starts, and returns a worker that runs
            in the application's process until it stops. Such a worker handles no signals: the server does.
        close_timeout: How long the stop of the application waits for running jobs, in ms or as ``timedelta``; what
            has not ended then is given back to the queue. None: as the option ``close_timeout`` of each worker says.

    Raises:
        UsageError: The connection is wrong, or one that is open, which belongs to one event loop.
    """

    def __init__(
        self,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        workers: Iterable[MakeWorker] = (),
        close_timeout: Duration | None = None,
    ) -> None:
        if is_open(connection):
            raise UsageError("connection: an open one belongs to one event loop; pass its URL or options")
        self._source = connection
        self._prefix = Keys("queue", prefix).prefix
        self._workers = tuple(workers)
        self._close_timeout = None if close_timeout is None else duration_ms("close_timeout", close_timeout)
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Open] = WeakKeyDictionary()

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:  # noqa: ARG002  # frameworks pass it
        """Open the queues for the length of an ``async with`` block, and run the workers meanwhile.

        Pass this method as the ``lifespan`` of the application, or enter it in a lifespan of your own. At the end
        workers close first, then the queues, then the connection. Entered again in the same event loop, it shares
        what is open.

        Args:
            app: The application; any.

        Raises:
            UsageError: A worker cannot be made so.
        """
        loop = asyncio.get_running_loop()
        here = self._open.get(loop)
        if here is None:
            here = self._open[loop] = _Open(connect(self._source), self._prefix)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._leave, loop, here)
            here.users += 1
            if here.users == 1:
                for make in self._workers:
                    here.start(make(here.connection))
            yield

    async def _leave(self, loop: asyncio.AbstractEventLoop, here: "_Open") -> None:
        here.users -= 1
        if not here.users:
            self._open.pop(loop, None)
            await here.close(self._close_timeout)

    def get(self, name: str) -> Queue:
        """Return a queue of the application that runs in this event loop; always the same one.

        Args:
            name: Its name.

        Raises:
            InvalidOption: No queue can be called so.
            UsageError: No event loop runs here, or the lifespan has not begun in it, or is over.
        """
        try:
            here = self._open.get(asyncio.get_running_loop())
        except RuntimeError:
            raise UsageError(
                f"queue {name!r} belongs to an event loop, and none runs in this thread; in a plain function, which "
                "frameworks run in a thread, use echomq.sync.Queue"
            ) from None
        if here is None:
            raise UsageError(
                f"queue {name!r} is not open: the lifespan has not begun in this event loop, or is over; next step: "
                "pass queues.lifespan to the application, and in tests enter the client by a with block"
            )
        return here.queue(name)

    def queue(self, name: str) -> Callable[[], Awaitable[Queue]]:
        """Return a dependency that gives a queue: for ``Depends`` of FastAPI, or ``Provide`` of Litestar.

        Args:
            name: Name of the queue.

        Raises:
            InvalidOption: No queue can be called so.
        """
        Keys(name, self._prefix)

        async def get_queue() -> Queue:
            return self.get(name)

        return get_queue


@attrs.define(eq=False)
class _Open:
    """What is open in one event loop.

    Attributes:
        connection: Of all queues, and the workers.
        prefix: Of the queues.
        users: Lifespans that are under way.
    """

    connection: AsyncConnection
    prefix: str
    users: int = 0
    _queues: dict[str, Queue] = attrs.field(init=False, factory=dict)
    _runs: list[tuple[Worker | WorkerGroup, "asyncio.Task[Any]"]] = attrs.field(init=False, factory=list)

    def queue(self, name: str) -> Queue:
        """Return a queue, which is made if it is not there."""
        if name not in self._queues:
            self._queues[name] = Queue(name, self.connection, prefix=self.prefix)
        return self._queues[name]

    def start(self, made: object) -> None:
        """Let a worker work from now on.

        Raises:
            UsageError: It is no worker for asyncio.
        """
        if not isinstance(made, (Worker, WorkerGroup)):
            if isinstance(made, Coroutine):
                made.close()
            raise UsageError(
                f"workers: expected plain functions that make a Worker or WorkerGroup of echomq, not {made!r}"
            )
        run = asyncio.ensure_future(made.run(handle_signals=False))
        run.add_done_callback(_tell_end)
        self._runs.append((made, run))

    async def close(self, timeout_ms: int | None) -> None:
        """Let all go: workers, queues, connection."""
        try:
            await asyncio.gather(*(worker.close(timeout_ms) for worker, _ in self._runs))
            if self._runs:
                await asyncio.wait([run for _, run in self._runs])
        except asyncio.CancelledError:  # of who waits for the jobs; they go back while there is a connection
            for _, run in self._runs:
                run.cancel()
            await asyncio.wait([run for _, run in self._runs])
            raise
        finally:
            for queue in self._queues.values():
                await queue.close()
            await self.connection.close()


def _tell_end(run: "asyncio.Task[Any]") -> None:
    if not run.cancelled() and (error := run.exception()) is not None:
        _log.error("a worker of the application has ended: %s", error, exc_info=error)
