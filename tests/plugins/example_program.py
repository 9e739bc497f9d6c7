"""A program on the example's plugins: nothing in it names them but a URL and a backoff type."""

import asyncio
import sys

import echomq
import echomq.sync
from echomq import Backoff, Job


async def work(job: Job) -> str:
    """Fail twice, then do it."""
    if job.attempts_made < 2:
        raise ValueError("not yet")
    return "done"


async def main(url: str, prefix: str) -> None:
    """Add a job from each shell, and do both."""
    with echomq.sync.Queue("mail", url, prefix=prefix) as blocking:
        jobs = [blocking.add("blocking", attempts=3, backoff=Backoff("fibonacci", 10))]
    async with echomq.Queue("mail", url, prefix=prefix) as queue:
        jobs.append(await queue.add("async", attempts=3, backoff=Backoff("fibonacci", 10)))
        await echomq.Worker("mail", work, url, prefix=prefix, drain_delay=100).run("drained")
        for job in jobs:
            found = await queue.get_job(job.id)
            assert found is not None
            print(found.name, found.return_value)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
