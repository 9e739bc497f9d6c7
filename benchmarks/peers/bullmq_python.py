"""One measured run of BullMQ for Python; task and result as in bullmq_node.mjs."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bullmq import FlowProducer, Job, Queue, Worker


class Meter:
    """Times a run from its first job's start to its last one's end."""

    def __init__(self, task: dict) -> None:
        self.task = task
        self.done = 0
        self.late_ms: list[float] = []
        self.begun: tuple[float, float] | None = None
        self.finished = asyncio.get_running_loop().create_future()

    async def process(self, job: Job, _token: str) -> int:
        """Run one job."""
        if self.begun is None:
            self.begun = (time.perf_counter(), time.process_time())
        if at := job.data.get("at"):
            self.late_ms.append(time.time() * 1000 - at)
        if self.task["sleep_ms"]:
            await asyncio.sleep(self.task["sleep_ms"] / 1000)
        return job.data["n"] * 2

    def completed(self, *_: object) -> None:
        """Count a job whose result is stored."""
        self.done += 1
        if self.done == self.task["count"]:
            used = {"seconds": time.perf_counter() - self.begun[0], "cpu_seconds": time.process_time() - self.begun[1]}
            self.finished.set_result(used)

    def worker(self) -> Worker:
        """Make the worker of this run."""
        worker = Worker(self.task["queue"], self.process, options(self.task))
        worker.on("completed", self.completed)
        return worker


def options(task: dict) -> dict:
    """What a worker is given."""
    connection = {"host": "127.0.0.1", "port": task["port"], "socket_timeout": None}
    return {"connection": connection, "concurrency": task["concurrency"]}


async def work(task: dict) -> dict:
    """Drain the queue."""
    meter = Meter(task)
    worker = meter.worker()
    used = await meter.finished
    await worker.close()
    return {**used, "latencies_ms": meter.late_ms}


async def serve(task: dict) -> dict:
    """Work beside other processes until a line on standard input says stop."""
    meter = Meter({**task, "count": -1})
    worker = meter.worker()
    await asyncio.sleep(1)
    cpu = time.process_time()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    cpu = time.process_time() - cpu
    await worker.close()
    return {"seconds": 0, "cpu_seconds": cpu, "done": meter.done}


async def latency(task: dict) -> dict:
    """Add a job to an idle worker, again and again."""
    meter = Meter({**task, "count": task["count"] + 5})
    worker = meter.worker()
    queue = Queue(task["queue"], {"connection": {"host": "127.0.0.1", "port": task["port"]}})
    await asyncio.sleep(0.5)
    for n in range(task["count"] + 5):
        await queue.add("job", {"n": n, "at": time.time() * 1000})
        while meter.done <= n:
            await asyncio.sleep(0.002)
    used = await meter.finished
    await worker.close()
    await queue.close()
    return {**used, "latencies_ms": meter.late_ms[5:]}


async def flow(task: dict) -> dict:
    """Add one parent with its children, then run them all."""
    finished = asyncio.get_running_loop().create_future()

    async def process(job: Job, _token: str) -> int:
        if job.name == "parent":
            finished.set_result(None)
        return 1

    children = [{"name": "child", "queueName": task["queue"], "data": {"n": n}} for n in range(task["count"])]
    wall, cpu = time.perf_counter(), time.process_time()
    producer = FlowProducer({"host": "127.0.0.1", "port": task["port"]})
    await producer.add({"name": "parent", "queueName": task["queue"], "data": {}, "children": children})
    added = time.perf_counter() - wall
    worker = Worker(task["queue"], process, options(task))
    await finished
    used = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    await worker.close()
    await producer.close()
    return {**used, "add_seconds": added}


async def add(task: dict) -> dict:
    """Add jobs one by one, some in flight at once, or in bulk."""
    queue = Queue(task["queue"], {"connection": {"host": "127.0.0.1", "port": task["port"]}})
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
            await queue.addBulk([{"name": "job", "data": {"n": start + i}, "opts": {}} for i in range(1000)])
    else:
        await asyncio.gather(*(lane() for _ in range(task["concurrency"])))
    result = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    await queue.close()
    return {**result, "latencies_ms": latencies}


MODES = {"work": work, "serve": serve, "latency": latency, "flow": flow, "add": add, "bulk": add}

if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"count": given["count"], "latencies_ms": [], **asyncio.run(MODES[given["mode"]](given))}))
