"""Tasks on a real server."""

from collections.abc import AsyncIterator

import attrs
import pytest

from echomq import Job
from echomq.tasks import Tasks
from support.desk import happens
from support.servers import Server


@attrs.define
class Office:
    """Tasks, and someone who does them.

    Attributes:
        tasks: To be filled by the test.
    """

    tasks: Tasks

    async def work(self, queue: str = "emails", concurrency: int = 5) -> None:
        """Run all jobs there are."""
        worker = self.tasks.worker(queue, concurrency=concurrency, drain_delay=100)
        await happens(worker.run("drained"))

    async def add(self, name: str, data: object, **options: int) -> str:
        """Add a job as a producer in another language would, who knows nothing of tasks."""
        return (await self.tasks.queue("emails").add(name, data, attempts=options.get("attempts", 0))).id

    async def job(self, job_id: str) -> Job:
        """Read a job."""
        found = await self.tasks.queue("emails").get_job(job_id)
        assert found is not None
        return found


@pytest.fixture
async def office(redis_server: Server, prefix: str) -> AsyncIterator[Office]:
    """Tasks on a fresh prefix."""
    async with Tasks(redis_server.url, prefix=prefix) as tasks:
        yield Office(tasks)
