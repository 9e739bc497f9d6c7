"""Workers in the background of a test, for asyncio; the twin is :mod:`echomq_testing.working_sync`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from echomq import Worker

from .outcomes import Outcomes

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq import Queue
    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors

__all__ = ["Workers"]

_CLOSE_MS = 5_000


class Workers:
    """Workers that run as long as a block: an async context manager.

    At its end they are closed; what still runs after 5 s is cancelled. What failed in them is raised.
    """

    def __init__(self) -> None:
        self._running: dict[Worker, asyncio.Task[None]] = {}
        self._outcomes = Outcomes()

    def start(
        self, queue: Queue, processor: Processors, *, raises: bool = True, **options: Unpack[WorkerKeywords]
    ) -> Worker:
        """Start a worker.

        Args:
            queue: Whose jobs it runs, on the same connection.
            processor: As of :class:`echomq.Worker`.
            raises: False where jobs of it are meant to fail.
            **options: See :class:`~echomq.options.WorkerOptions`.

        Returns:
            The worker; it runs already, or is about to.
        """
        worker = Worker(queue.name, processor, queue.connection, prefix=queue.keys.prefix, **options)
        if raises:
            self._outcomes.listen(worker)
        self._running[worker] = asyncio.ensure_future(worker.run(handle_signals=False))
        return worker

    async def close(self) -> None:
        """Close all workers.

        Raises:
            AssertionError: A job failed whose worker should raise that, or a worker ended by an error.
        """
        running, self._running = self._running, {}
        for worker in running:
            worker.stop(_CLOSE_MS)
        await asyncio.gather(*running.values(), return_exceptions=True)
        for task in running.values():
            ended = None if task.cancelled() else task.exception()
            if ended is not None:
                raise AssertionError(f"a worker of this test ended by an error: {ended!r}") from ended
        self._outcomes.check()

    async def __aenter__(self) -> Self:
        """Give what starts workers."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all workers; an error of the block goes before theirs."""
        try:
            await self.close()
        except AssertionError:
            if error is None:
                raise
