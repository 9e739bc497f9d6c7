"""A group of workers serves queues on all masters of a cluster."""

import asyncio
import itertools

from echomq import Job, Queue, WorkerGroup
from echomq.sync import WorkerGroup as BlockingGroup
from support.clusters import Cluster
from support.desk import happens

JOBS = 20
"""In each queue."""


def _queues(cluster: Cluster, prefix: str) -> list[str]:
    """Name two queues on each master."""
    names = [f"{{{prefix}-{number}}}" for number in range(60)]
    by_master = [[name for name in names if cluster.master(name) is master][:2] for master in cluster.masters()]
    assert all(len(of_one) == 2 for of_one in by_master)
    return list(itertools.chain(*by_master))


async def _fill(url: str, names: list[str]) -> None:
    for name in names:
        async with Queue(name, url) as queue:
            await queue.add_bulk([("work", n) for n in range(JOBS)])


async def _results(url: str, name: str) -> list[int]:
    async with Queue(name, url) as queue:
        return sorted(job.return_value for job in await queue.get_jobs("completed"))


async def test_group_over_many_slots(cluster: Cluster, driver: str, prefix: str) -> None:
    """Jobs of queues on different masters are done once each by one group, whichever shell runs it."""
    url = cluster.url(f"{driver}+cluster")
    names = _queues(cluster, prefix)

    async def double(job: Job) -> int:
        return int(job.data) * 2

    def double_plainly(job: Job) -> int:
        return int(job.data) * 2

    await _fill(url, names)
    await happens(WorkerGroup(dict.fromkeys(names, double), url, concurrency=10).run(until="drained"))
    await _fill(url, names)
    blocking = BlockingGroup(dict.fromkeys(names, double_plainly), url, concurrency=4)
    await happens(asyncio.to_thread(blocking.run, until="drained"))

    for name in names:
        assert await _results(url, name) == sorted(2 * n for n in range(JOBS) for _ in range(2))
