"""taskiq with taskiq-redis: see harness.py."""

from __future__ import annotations

from harness import TASK, all_of, async_job, main
from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker


class Peer:
    """taskiq on a Redis stream, results kept in Redis."""

    async def open(self) -> None:
        self.backend = RedisAsyncResultBackend(TASK["url"], keep_results=True)
        self.broker = RedisStreamBroker(TASK["url"], queue_name=TASK["queue"]).with_result_backend(self.backend)
        self.task = self.broker.register_task(async_job, task_name="job")
        self.ids: list[str] = []
        await self.broker.startup()

    async def add(self, n: int, at: float, _delay_s: float) -> None:
        self.ids.append((await self.task.kiq(n, at)).task_id)

    async def work(self, concurrency: int) -> None:
        await run_receiver_task(self.broker, max_async_tasks=concurrency)

    async def results(self) -> list[int]:
        async def read(task_id: str) -> int | None:
            if not await self.backend.is_result_ready(task_id):
                return None
            return (await self.backend.get_result(task_id)).return_value

        return await all_of(read, self.ids)


main(Peer())
