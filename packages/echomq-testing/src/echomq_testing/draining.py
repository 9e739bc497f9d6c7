"""Runs what is in queues until nothing is due, for asyncio; the twin is :mod:`echomq_testing.draining_sync`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from echomq import JobState, Queue, Worker
from echomq.clock import wall_ms
from echomq.tasks import Tasks

from .clock import is_stopped
from .outcomes import Drained, Outcomes
from .sources import LOOK_S, drain_options, processors_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Unpack

    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors

__all__ = ["drain"]


async def drain(
    what: Queue | Mapping[Queue, Processors] | Tasks,
    processor: Processors | None = None,
    /,
    *,
    raises: bool = True,
    **options: Unpack[WorkerKeywords],
) -> Drained:
    """Run the jobs of queues here and now, one after the other, until none is due.

    Jobs that those jobs add run too, and so do parents once their children have ended. What is delayed stays, also
    what waits for its next attempt; so does what a rate limit holds back, and what is in a paused queue.

    Args:
        what: A queue; queues and their processors, for flows; or tasks, with all their queues.
        processor: Of the queue; as of :class:`echomq.Worker`.
        raises: Whether to raise what failed.
        **options: Of the workers; see :class:`~echomq.options.WorkerOptions`. ``concurrency`` is 1 and
            ``drain_delay`` 1 ms, if nothing is said.

    Returns:
        The jobs that completed and those that failed.

    Raises:
        Exception: With ``raises``, what the code of the first job raised whose last attempt failed, after all ran.
        UsageError: A processor or an option is wrong.
    """
    outcomes = Outcomes()
    workers = _workers(what, processor, drain_options(options))
    for worker in workers:
        outcomes.listen(worker)
    try:
        held_back: set[Worker] = set()
        ended = -1
        while ended < outcomes.ended:
            ended = outcomes.ended
            for worker, queue in workers.items():
                if worker not in held_back and not await _run(worker, queue):
                    held_back.add(worker)
    finally:
        for worker in workers:
            await worker.close(0)
    if raises:
        outcomes.raise_first()
    return outcomes.drained()


def _workers(what: Any, processor: Processors | None, options: WorkerKeywords) -> dict[Worker, Queue]:
    if isinstance(what, Tasks):
        return {what.worker(name, **options): what.queue(name) for name in what.queue_names}
    return {
        Worker(queue.name, one, queue.connection, prefix=queue.keys.prefix, **options): queue
        for queue, one in processors_of(what, processor, Queue).items()
    }


async def _run(worker: Worker, queue: Queue) -> bool:
    """Work until nothing is due; return False if the rest needs time to pass."""
    is_free = True
    running = asyncio.ensure_future(worker.run("drained", handle_signals=False))
    try:
        while not (await asyncio.wait({running}, timeout=LOOK_S))[0]:
            if is_free and await _is_held_back(worker, queue):
                is_free = False
                worker.stop()
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    return is_free


async def _is_held_back(worker: Worker, queue: Queue) -> bool:
    """Tell whether the worker waits only for time to pass: for a rate limit, or for a clock that stands still."""
    limiter = worker.options.limiter
    counts = await queue.get_job_counts("active", "waiting", "prioritized")
    if counts[JobState.ACTIVE]:
        return False
    if await queue.get_rate_limit_ttl(limiter.max if limiter else 0) > 0:
        return True
    return is_stopped() and not any(counts.values()) and not await queue.count_due(wall_ms() + 1)
