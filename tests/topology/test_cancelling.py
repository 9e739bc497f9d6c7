"""Jobs are cancelled on clusters as elsewhere."""

import asyncio

from echomq import Cancellation, Job, Queue, Worker
from support.clusters import Cluster
from support.desk import gathered, happens


async def test_cancelling_on_a_cluster(cluster: Cluster, driver: str, tagged: str) -> None:
    """On a cluster, jobs that wait and jobs that run are cancelled from elsewhere."""
    url = cluster.url(f"{driver}+cluster")

    async def hold(_: Job) -> None:
        await asyncio.Event().wait()

    async with Queue("mail", url, prefix=tagged) as queue:
        waiting, running = await queue.add("work", delay=60_000), await queue.add("work")
        worker = Worker("mail", hold, url, prefix=tagged)
        active = gathered(worker, "active", 1)
        work = asyncio.ensure_future(worker.run())
        await happens(active)

        assert await queue.cancel(waiting.id, "enough") is Cancellation.FAILED
        assert await queue.cancel(running.id, "enough") is Cancellation.STOPPED
        await worker.close()
        await happens(work)
        failed = await queue.get_jobs("failed")

    assert {job.id: job.failed_reason for job in failed} == {waiting.id: "enough", running.id: "enough"}
