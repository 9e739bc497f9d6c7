"""saq: see harness.py."""

from __future__ import annotations

import time

from harness import TASK, async_job, main
from saq import Queue, Worker


class Peer:
    """saq with its defaults."""

    async def open(self) -> None:
        self.queue = Queue.from_url(TASK["url"], name=TASK["queue"])
        await self.queue.connect()
        self.keys: list[str] = []

    async def add(self, n: int, at: float, delay_s: float) -> None:
        job = await self.queue.enqueue("job", n=n, at=at, scheduled=int(time.time() + delay_s) if delay_s else 0)
        self.keys.append(job.key)

    async def work(self, concurrency: int) -> None:
        async def job(_context: object, *, n: int, at: float) -> int:
            return await async_job(n, at)

        await Worker(self.queue, functions=[("job", job)], concurrency=concurrency).start()

    async def results(self) -> list[int]:
        stored = await self.queue.jobs(self.keys)
        return [job.result for job in stored if job is not None and job.status == "complete"]


main(Peer())
