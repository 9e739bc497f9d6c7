"""One measured run of EchoMQ; task and result as in bullmq_node.mjs."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from echomq import FlowNode, FlowProducer, Job, Queue, Worker, plugins

Task = dict[str, Any]


class Meter:
    """Times a run from its first job's start to its last one's end, and notes what it is asked for."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.done = 0
        self.late_ms: list[float] = []
        self.rss_kib: dict[str, int] = {}
        self.begun: tuple[float, float] | None = None
        self.finished: asyncio.Future[dict[str, float]] = asyncio.get_running_loop().create_future()

    def used(self) -> dict[str, float]:
        """Seconds on the wall and of processor since the first job began."""
        assert self.begun is not None
        return {"seconds": time.perf_counter() - self.begun[0], "cpu_seconds": time.process_time() - self.begun[1]}

    async def process(self, job: Job) -> int:
        """Run one job."""
        if self.begun is None:
            self.begun = (time.perf_counter(), time.process_time())
        if at := job.data.get("at"):
            self.late_ms.append(time.time() * 1000 - at)
        if self.task["sleep_ms"]:
            await asyncio.sleep(self.task["sleep_ms"] / 1000)
        return int(job.data["n"]) * 2

    def completed(self, *_: object) -> None:
        """Count a job whose result is stored."""
        self.done += 1
        if self.done in self.task.get("marks", ()):
            pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
            self.rss_kib[str(self.done)] = pages * 4
        if self.done == self.task["count"]:
            self.finished.set_result(self.used())

    def worker(self) -> Worker:
        """Make the worker of this run."""
        worker = Worker(self.task["queue"], self.process, self.task["url"], concurrency=self.task["concurrency"])
        worker.on("completed", self.completed)
        return worker


async def work(task: Task) -> Task:
    """Drain the queue."""
    meter = Meter(task)
    worker = meter.worker()
    running = asyncio.ensure_future(worker.run())
    used = await meter.finished
    await worker.close()
    await running
    return {**used, "latencies_ms": meter.late_ms, "rss_kib": meter.rss_kib}


async def serve(task: Task) -> Task:
    """Work beside other processes until a line on standard input says stop."""
    meter = Meter({**task, "count": -1})
    worker = meter.worker()
    ready = asyncio.Event()
    worker.on("ready", ready.set)
    running = asyncio.ensure_future(worker.run())
    await ready.wait()
    cpu = time.process_time()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    cpu = time.process_time() - cpu
    await worker.close()
    await running
    return {"seconds": 0, "cpu_seconds": cpu, "done": meter.done}


async def latency(task: Task) -> Task:
    """Add a job to an idle worker, again and again."""
    meter = Meter({**task, "count": task["count"] + 5})
    worker = meter.worker()
    running = asyncio.ensure_future(worker.run())
    async with Queue(task["queue"], task["url"]) as queue:
        await asyncio.sleep(0.5)
        for n in range(task["count"] + 5):
            await queue.add("job", {"n": n, "at": time.time() * 1000})
            while meter.done <= n:
                await asyncio.sleep(0.002)
        used = await meter.finished
    await worker.close()
    await running
    return {**used, "latencies_ms": meter.late_ms[5:]}


async def watch(task: Task) -> Task:
    """Run what schedulers make for some seconds, and note how late each job starts."""
    late_ms: list[float] = []

    async def process(job: Job) -> int:
        late_ms.append(time.time() * 1000 - job.timestamp_ms - job.options.delay)
        return 0

    worker = Worker(task["queue"], process, task["url"], concurrency=task["concurrency"])
    running = asyncio.ensure_future(worker.run())
    await asyncio.sleep(2)
    late_ms.clear()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(task["seconds"])
    used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    noted = list(late_ms)
    await worker.close()
    await running
    return {**used, "latencies_ms": noted, "done": len(noted)}


async def flow(task: Task) -> Task:
    """Add one parent with its children, then run them all."""
    finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def process(job: Job) -> int:
        if job.name == "parent":
            finished.set_result(None)
        return 1

    children = [FlowNode(queue=task["queue"], name="child", data={"n": n}) for n in range(task["count"])]
    wall, cpu = time.perf_counter(), time.process_time()
    async with FlowProducer(task["url"]) as producer:
        await producer.add(FlowNode(queue=task["queue"], name="parent", data={}, children=children))
        added = time.perf_counter() - wall
        worker = Worker(task["queue"], process, task["url"], concurrency=task["concurrency"])
        running = asyncio.ensure_future(worker.run())
        await finished
        used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
        await worker.close()
        await running
    return {**used, "add_seconds": added}


async def add(task: Task) -> Task:
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
        used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return {**used, "latencies_ms": latencies}


MODES = {"work": work, "serve": serve, "latency": latency, "watch": watch, "flow": flow, "add": add, "bulk": add}


def leave_plugins_out() -> None:
    """Use none of the environment's plugins but the drivers: what others put around each job is not EchoMQ's cost."""
    for name in set(plugins.installed().names) - {"redis", "valkey"}:
        plugins.unregister(name)


def main() -> None:
    """Do what the first argument says, in the event loop it names, and print the result."""
    leave_plugins_out()
    given = json.loads(sys.argv[1])
    work = MODES[given["mode"]](given)
    if given.get("loop") == "uvloop":
        import uvloop

        result = uvloop.run(work)
    else:
        result = asyncio.run(work)
    print(json.dumps({"count": given["count"], "latencies_ms": [], **result}))


if __name__ == "__main__":
    main()
