"""arq: see harness.py."""

from __future__ import annotations

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from harness import TASK, async_job, main


class Peer:
    """arq with its defaults."""

    async def open(self) -> None:
        self.settings = RedisSettings(port=TASK["port"])
        self.pool = await create_pool(self.settings)

    async def add(self, n: int, at: float, delay_s: float) -> None:
        await self.pool.enqueue_job("job", n, at, _defer_by=delay_s or None)

    async def work(self, concurrency: int) -> None:
        async def job(_context: object, n: int, at: float) -> int:
            return await async_job(n, at)

        functions = [func(job, name="job")]
        worker = Worker(functions, redis_settings=self.settings, max_jobs=concurrency, handle_signals=False)
        await worker.async_run()

    async def results(self) -> list[int]:
        return [stored.result for stored in await self.pool.all_job_results()]


main(Peer())
