"""Producers and workers of both drivers and both shells at work on one queue while something happens to its servers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs

import echomq.sync
from echomq import Queue, Worker
from echomq.errors import ConnectionLost, ServerNotReady
from support.limits import DEADLINE_S
from support.recorder import STRIKES, Row, record

__all__ = ["Load", "under_load"]

PAUSE_S = 0.002


@attrs.define
class Load:
    """What was done.

    Attributes:
        acknowledged: Ids of jobs whose add was answered.
        runs: How often the processor saw each of them.
        gaps_s: For each time that something happened, the longest time in which no add was answered.
        answered_at_s: When the last one was.
    """

    acknowledged: set[str] = attrs.field(factory=set)
    runs: Counter[str] = attrs.field(factory=Counter)
    gaps_s: list[float] = attrs.field(factory=lambda: [0.0])
    answered_at_s: float = attrs.field(factory=time.monotonic)
    _stop: threading.Event = attrs.field(factory=threading.Event)

    def answered(self, job_id: str) -> None:
        """Note an acknowledged add."""
        now_s = time.monotonic()
        self.gaps_s[-1] = max(self.gaps_s[-1], now_s - self.answered_at_s)
        self.answered_at_s = now_s
        self.acknowledged.add(job_id)

    async def produce(self, url: str, prefix: str, name: str) -> None:
        """Add jobs one after the other; what may have run is added again under the same id."""
        async with Queue("work", url, prefix=prefix) as queue:
            number = 0
            while not self._stop.is_set():
                try:
                    self.answered((await queue.add("work", number, job_id=f"{name}-{number}")).id)
                    number += 1
                except (ConnectionLost, ServerNotReady):
                    pass
                await asyncio.sleep(PAUSE_S)

    def produce_blocking(self, url: str, prefix: str, name: str) -> None:
        """The same in a thread."""
        with echomq.sync.Queue("work", url, prefix=prefix) as queue:
            number = 0
            while not self._stop.wait(PAUSE_S):
                try:
                    self.answered(queue.add("work", number, job_id=f"{name}-{number}").id)
                    number += 1
                except (ConnectionLost, ServerNotReady):
                    pass

    async def process(self, job: Any) -> str:
        """The work."""
        self.runs[job.id] += 1
        await asyncio.sleep(0)
        return "done"

    def process_blocking(self, job: Any) -> str:
        """The work in a thread."""
        self.runs[job.id] += 1
        return "done"

    async def until_more(self, count: int) -> None:
        """Wait until so many more adds were acknowledged."""
        wanted = len(self.acknowledged) + count
        give_up = time.monotonic() + 2 * DEADLINE_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < give_up, f"{len(self.acknowledged)} of {wanted} adds were answered"
            await asyncio.sleep(0.01)

    def account(self, fault: str, topology: str) -> None:
        """Keep a row for the table of faults; that nothing was lost or finished twice is checked by then."""
        record(
            Row(
                fault=fault,
                topology=topology,
                driver="both",
                workers="both",
                jobs=len(self.acknowledged),
                lost=0,
                twice=0,
                recoveries_ms=[gap_s * 1000 for gap_s in self.gaps_s],
            )
        )

    @property
    def longest_gap_s(self) -> float:
        """Longest time in which no add was answered."""
        return max(self.gaps_s)

    def stop(self) -> None:
        """Let the producers end."""
        self._stop.set()


async def under_load(
    urls: list[str],
    prefix: str,
    disturb: Callable[[], object],
    heal: Callable[[], object] | None = None,
    *,
    times: int = 1,
    loses: bool = False,
) -> Load:
    """Work, let something happen, work on, and finish.

    Args:
        urls: One for each driver.
        prefix: Of the queue, whose name is ``work``.
        disturb: Blocking; what happens.
        heal: Blocking; makes all well again, so that it can happen as often as ``ECHOMQ_FAULT_STRIKES`` says. None:
            it happens once.
        times: How often it happens at least.
        loses: What happens may lose writes that a master has acknowledged and its replica never got, so that only
            the queue's soundness is looked at, and that what was added after it is done.
    """
    load = Load()
    # A lost result leaves a job active whose lock nobody renews; it is found again when that has run out.
    locks: dict[str, Any] = {"lock_duration": 1_000, "stalled_interval": 500} if loses else {}
    options: dict[str, Any] = {"prefix": prefix, "concurrency": 5, "drain_delay": 500, **locks}
    workers = [Worker("work", load.process, url, **options) for url in urls]
    blocking = [echomq.sync.Worker("work", load.process_blocking, url, **options) for url in urls]
    running = [asyncio.create_task(worker.run()) for worker in workers]
    running += [asyncio.create_task(asyncio.to_thread(worker.run)) for worker in blocking]
    producers = [asyncio.create_task(load.produce(url, prefix, f"a{at}")) for at, url in enumerate(urls)]
    producers += [
        asyncio.create_task(asyncio.to_thread(load.produce_blocking, url, prefix, f"b{at}"))
        for at, url in enumerate(urls)
    ]
    try:
        await load.until_more(100)
        for strike in range(max(times, STRIKES) if heal else 1):
            if strike and heal:
                await asyncio.to_thread(heal)
                load.gaps_s.append(0.0)
            await asyncio.to_thread(disturb)
            if loses:
                load.acknowledged.clear()
            await load.until_more(200)
        load.stop()
        await asyncio.gather(*producers)
        await _all_done(load, urls[0], prefix, loses=loses)
    finally:
        load.stop()  # the threads of a test that failed would go on for ever
        for worker in workers:
            await worker.close(2_000)
        for other in blocking:
            await asyncio.to_thread(other.close, 2_000)
    await asyncio.gather(*running)
    return load


async def _all_done(load: Load, url: str, prefix: str, *, loses: bool) -> None:
    """Wait until each acknowledged job is completed, and nothing else is left; check the record of each."""
    async with Queue("work", url, prefix=prefix) as queue:
        give_up = time.monotonic() + 2 * DEADLINE_S
        while True:
            counts = {state.value: count for state, count in (await queue.get_job_counts()).items() if count}
            if counts.keys() == {"completed"} and (loses or counts["completed"] == len(load.acknowledged)):
                break
            assert time.monotonic() < give_up, f"{counts}; acknowledged were {len(load.acknowledged)}"
            await asyncio.sleep(0.05)
        jobs = await queue.get_jobs("completed")
    found = {job.id for job in jobs}
    assert load.acknowledged <= found if loses else load.acknowledged == found
    assert {job.attempts_made for job in jobs} == {1}
    assert set(load.runs) >= load.acknowledged
