"""streaQ: see harness.py."""

from __future__ import annotations

from datetime import timedelta

from harness import TASK, all_of, async_job, main
from streaq import TaskStatus, Worker


def _worker() -> tuple[Worker, object]:
    worker = Worker(
        redis_url=TASK["url"], queue_name=TASK["queue"], concurrency=TASK["concurrency"], handle_signals=False
    )
    return worker, worker.task(name="job")(async_job)


class Peer:
    """streaQ with its defaults; one object adds, another works."""

    async def open(self) -> None:
        self.producer, self.job = _worker()
        await self.producer.__aenter__()
        self.ids: list[str] = []

    async def add(self, n: int, at: float, delay_s: float) -> None:
        task = self.job.enqueue(n, at)
        self.ids.append((await (task.start(delay=timedelta(seconds=delay_s)) if delay_s else task)).id)

    async def add_bulk(self, numbers: range) -> None:
        await self.producer.enqueue_many([self.job.enqueue(n) for n in numbers])

    async def work(self, _concurrency: int) -> None:
        await _worker()[0].run_async()

    async def results(self) -> list[int]:
        async def read(task_id: str) -> int | None:
            if await self.producer.status_by_id(task_id) != TaskStatus.DONE:
                return None
            return (await self.producer.result_by_id(task_id)).result

        return await all_of(read, self.ids)


main(Peer())
