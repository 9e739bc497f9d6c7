"""A process with BullMQ for Python that does what the tests tell it, in the same words as ``node/peer.mjs``."""

import asyncio
import json
import sys
from typing import Any

from bullmq import FlowProducer, Job, Queue, QueueEvents, Worker

HOST, PORT, PREFIX = sys.argv[1], int(sys.argv[2]), sys.argv[3]
# A blocking read must outlast the client's own idea of how long a reply may take.
SETTINGS = {"connection": {"host": HOST, "port": PORT, "socket_timeout": None}, "prefix": PREFIX}
FORWARDED = ("active", "completed", "failed", "progress", "error")
SHOWN = ("id", "name", "data", "progress", "returnvalue", "failedReason", "attemptsMade", "priority", "delay")

objects: dict[str, Any] = {}


def say(message: dict[str, Any]) -> None:
    """Print one line of JSON."""
    sys.stdout.write(json.dumps(message, default=plain) + "\n")
    sys.stdout.flush()


def plain(value: Any) -> Any:
    """Turn a job or an error into plain JSON."""
    return {name: getattr(value, name, None) for name in SHOWN} if isinstance(value, Job) else str(value)


async def work(job: Job, _token: str) -> Any:
    """Do what the job's data says, as the other workers of these tests do."""
    plan = job.data or {}
    for row in plan.get("logs", ()):
        await job.log(row)
    for step in plan.get("progress", ()):
        await job.updateProgress(step)
    if plan.get("takesMs"):
        await asyncio.sleep(plan["takesMs"] / 1000)
    if job.attemptsMade < plan.get("failures", 0):
        raise RuntimeError(f"attempt {job.attemptsMade + 1} failed")
    return plan.get("returns", {"by": "bullmq-python", "name": job.name})


def listen(worker: Worker | QueueEvents, handle: str, event: str) -> None:
    """Pass an event of a worker on."""
    worker.on(event, lambda *seen: say({"from": handle, "event": event, "args": list(seen)}))


async def perform(request: dict[str, Any]) -> Any:
    """Do one request and return its value."""
    if "open" not in request:
        target = objects[request["on"]]
        if request["call"] == "getJob":
            return await Job.fromId(target, *request["args"])
        return await getattr(target, request["call"])(*request["args"])
    name, options = [*request["args"], {}][:2]
    if request["open"] == "Queue":
        objects[request["as"]] = Queue(name, {**SETTINGS, **options})
        return None
    if request["open"] == "FlowProducer":
        objects[request["as"]] = FlowProducer(SETTINGS["connection"], {"prefix": PREFIX})
        return None
    if request["open"] == "QueueEvents":
        source = objects[request["as"]] = QueueEvents(name, {**SETTINGS, **options})
    else:
        source = objects[request["as"]] = Worker(name, work, {**SETTINGS, **options})
    for event in FORWARDED:
        listen(source, request["as"], event)
    return None


async def answer(request: dict[str, Any]) -> None:
    """Do one request and print its answer."""
    try:
        say({"id": request["id"], "value": await perform(request)})
    except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
        say({"id": request["id"], "error": str(error)})


async def main() -> None:
    """Answer requests until standard input ends."""
    reader = asyncio.StreamReader(limit=1 << 26)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    async for line in reader:
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
