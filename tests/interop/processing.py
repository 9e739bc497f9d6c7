"""Our worker beside the others: it does what a job's data says, as ``node/peer.mjs`` and ``python/peer.py`` do."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from echomq import Job, Unrecoverable, Worker
from echomq.aio.context import Context
from support.servers import Server

__all__ = ["our_worker", "work"]


async def work(job: Job, context: Context) -> Any:
    """Do what the data of the job says."""
    plan = job.data or {}
    for row in plan.get("logs", ()):
        await context.log(row)
    for step in plan.get("progress", ()):
        await context.progress(step)
    await asyncio.sleep(plan.get("takesMs", 0) / 1000)
    if "unrecoverable" in plan:
        raise Unrecoverable(plan["unrecoverable"])
    if job.attempts_made < plan.get("failures", 0):
        raise RuntimeError(f"attempt {job.attempts_made + 1} failed")
    return plan.get("returns", {"by": "echomq", "name": job.name})


@contextlib.asynccontextmanager
async def our_worker(server: Server, prefix: str, queue: str = "mail", **options: Any) -> AsyncIterator[Worker]:
    """Run our worker on a queue for the length of an ``async with`` block."""
    async with Worker(queue, work, server.url, prefix=prefix, **options) as worker:
        running = asyncio.create_task(worker.run())
        yield worker
        await worker.close()
        await running
