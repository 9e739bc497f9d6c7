"""Workers in the background of a test, blocking; the twin of :mod:`echomq_testing.working`."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from echomq.sync import Worker

from .outcomes import Outcomes

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors
    from echomq.sync import Queue

__all__ = ["Workers"]

_CLOSE_MS = 5_000
_MOST = 64


class Workers:
    """Workers that run as long as a block, each in a thread: a context manager.

    At its end they are closed; what still runs after 5 s is told to end. What failed in them is raised.
    """

    def __init__(self) -> None:
        self._running: dict[Worker, Future[None]] = {}
        self._outcomes = Outcomes()
        self._threads = ThreadPoolExecutor(_MOST, thread_name_prefix="worker-of-a-test")

    def start(
        self, queue: Queue, processor: Processors, *, raises: bool = True, **options: Unpack[WorkerKeywords]
    ) -> Worker:
        """Start a worker, in a thread of its own.

        Args:
            queue: Whose jobs it runs, on the same server.
            processor: As of :class:`echomq.sync.Worker`.
            raises: False where jobs of it are meant to fail.
            **options: See :class:`~echomq.options.WorkerOptions`.

        Returns:
            The worker; it runs already, or is about to.
        """
        worker = Worker(queue.name, processor, queue.connection, prefix=queue.keys.prefix, **options)
        if raises:
            self._outcomes.listen(worker)
        self._running[worker] = self._threads.submit(worker.run, handle_signals=False)
        return worker

    def close(self) -> None:
        """Close all workers.

        Raises:
            AssertionError: A job failed whose worker should raise that, or a worker ended by an error.
        """
        running, self._running = self._running, {}
        for worker in running:
            worker.stop(_CLOSE_MS)
        ends = [future.exception() for future in running.values()]
        self._threads.shutdown()
        for ended in ends:
            if ended is not None:
                raise AssertionError(f"a worker of this test ended by an error: {ended!r}") from ended
        self._outcomes.check()

    def __enter__(self) -> Self:
        """Give what starts workers."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all workers; an error of the block goes before theirs."""
        try:
            self.close()
        except AssertionError:
            if error is None:
                raise
