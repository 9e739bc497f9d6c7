"""A small program as users write them: it names no driver, so that it runs with whichever is installed."""

import asyncio
import os

from echomq import Job, JobState, Queue, Worker

PREFIX = os.environ["PREFIX"]  # the server comes from ECHOMQ_URL


async def square(job: Job) -> int:
    """Do one job."""
    return int(job.data) ** 2


async def main() -> None:
    """Add three jobs, do them, and print what became of them."""
    async with Queue("numbers", prefix=PREFIX) as queue:
        added = [await queue.add("square", number) for number in (1, 2, 3)]
        async with Worker("numbers", square, prefix=PREFIX) as worker:
            await worker.run(until="drained")
        for job in added:
            done = await queue.get_job(job.id)
            print(done.return_value if done else None)
        counts = await queue.get_job_counts(JobState.COMPLETED)
        print(f"completed:{counts[JobState.COMPLETED]}")


asyncio.run(main())
