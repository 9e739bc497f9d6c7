"""A worker in a process of its own, to be killed: ``python process.py URL PREFIX OPTIONS``.

Each run of a job is noted in the list ``<prefix>:runs``, by another connection,
so that the test sees every run whatever becomes of its result. The line
``ready`` on standard output says that the worker works.
"""

import asyncio
import json
import sys

import redis.asyncio
import redis.exceptions

from echomq import Job, Worker


async def main(url: str, prefix: str, options: str) -> None:
    """Work until killed, or until told to end by a signal."""
    notes = redis.asyncio.Redis.from_url(url, protocol=2)
    given = json.loads(options)
    sleep_s = given.pop("sleep_ms", 0) / 1000

    async def note(job_id: str) -> None:
        while True:
            try:
                await notes.rpush(f"{prefix}:runs", job_id)
            except redis.exceptions.ConnectionError:
                await asyncio.sleep(0.05)
            else:
                return

    async def work(job: Job) -> int:
        await note(job.id)
        await asyncio.sleep(sleep_s)
        return int(job.data) * 2

    worker = Worker("work", work, url, prefix=prefix, **given)
    worker.on("ready", lambda: print("ready", flush=True))
    await worker.run()
    await notes.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
