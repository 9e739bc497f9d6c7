"""One measured run of EchoMQ; task and result as in bullmq_node.mjs."""

import asyncio
import json
import sys
import time

from echomq import Job, Queue, Worker


async def work(task: dict) -> dict:
    """Drain the queue and time it from the first job's start to the last one's end."""
    started: list[float] = []
    finished = asyncio.get_running_loop().create_future()
    done = 0

    async def process(job: Job) -> int:
        if not started:
            started.extend((time.perf_counter(), time.process_time()))
        if task["sleep_ms"]:
            await asyncio.sleep(task["sleep_ms"] / 1000)
        return job.data["n"] * 2

    def completed(*_: object) -> None:
        nonlocal done
        done += 1
        if done == task["count"]:
            finished.set_result((time.perf_counter() - started[0], time.process_time() - started[1]))

    worker = Worker(task["queue"], process, task["url"], concurrency=task["concurrency"])
    worker.on("completed", completed)
    running = asyncio.ensure_future(worker.run())
    seconds, cpu = await finished
    await worker.close()
    await running
    return {"seconds": seconds, "cpu_seconds": cpu, "latencies_ms": []}


async def add(task: dict) -> dict:
    """Add jobs one by one, some in flight at once, or in bulk."""
    async with Queue(task["queue"], task["url"]) as queue:
        await queue.add("warm-up", {"n": -1})
        latencies: list[float] = []
        numbers = iter(range(task["count"]))

        async def lane() -> None:
            for n in numbers:
                begun = time.perf_counter()
                await queue.add("job", {"n": n})
                latencies.append((time.perf_counter() - begun) * 1000)

        wall, cpu = time.perf_counter(), time.process_time()
        if task["mode"] == "bulk":
            for start in range(0, task["count"], 1000):
                await queue.add_bulk([("job", {"n": start + i}) for i in range(1000)])
        else:
            await asyncio.gather(*(lane() for _ in range(task["concurrency"])))
        result = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return {**result, "latencies_ms": latencies}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"count": given["count"], **asyncio.run(work(given) if given["mode"] == "work" else add(given))}))
