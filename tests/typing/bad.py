"""User code that must not type-check; never run.

Each mistake is marked with the kind of error it must cause. mypy, which is strict
about marks that are not needed, complains if one of them passes.
"""

from datetime import datetime

import echomq
import echomq.sync
from echomq import Backoff, Deduplication, FlowNode, Job, Keep, Queue, QueueEvents, RateLimit, Worker, chain, events


async def produce(queue: Queue) -> None:
    """Make mistakes in adding."""
    await queue.add("send", dealy=5)  # type: ignore[call-arg]
    await queue.add("send", delay="5s")  # type: ignore[arg-type]
    await queue.add("send", delay=1.5)  # type: ignore[arg-type]
    await queue.add("send", priority="high")  # type: ignore[arg-type]
    await queue.add("send", attempts=None, lifo="yes")  # type: ignore[arg-type]
    await queue.add("send", job_id=7)  # type: ignore[arg-type]
    await queue.add("send", backoff="exponential")  # type: ignore[arg-type]
    await queue.add("send", repeat={"every": 5})  # type: ignore[call-arg]
    await queue.add(7)  # type: ignore[arg-type]
    await queue.add_bulk(["send"])  # type: ignore[list-item]
    await queue.add_bulk([("send", None, {1: 2})])  # type: ignore[dict-item]
    await queue.clean("1h")  # type: ignore[arg-type]
    job: Job = await queue.get_job("7")  # type: ignore[assignment]
    print(job.dta)  # type: ignore[attr-defined]
    queue.add("send")  # type: ignore[unused-coroutine]
    Queue("mail", default_job_options={"attemps": 3})  # type: ignore[arg-type]


async def stateless() -> None:
    """Make mistakes without a queue."""
    await echomq.add("mail", "send")  # type: ignore[call-arg]
    await echomq.add("mail", "send", connection="redis://localhost", prio=1)  # type: ignore[call-arg]
    echomq.sync.add("mail", "send", connection="redis://localhost", delay="5")  # type: ignore[arg-type]


def options() -> None:
    """Make mistakes in values."""
    Keep(age=5)  # type: ignore[call-arg]
    Keep(count="5")  # type: ignore[arg-type]
    Backoff("fixed", delay="5")  # type: ignore[arg-type]
    Deduplication()  # type: ignore[call-arg]
    RateLimit(10)  # type: ignore[call-arg]
    RateLimit(10, datetime.now)  # type: ignore[arg-type]


def no_arguments() -> str:
    """Take no job."""
    return "nothing"


async def processor(job: Job) -> str:
    """Process a job."""
    return job.id


def work() -> None:
    """Make mistakes with workers."""
    Worker("mail", no_arguments)  # type: ignore[arg-type]
    Worker("mail", "processor.py")  # type: ignore[arg-type]
    Worker("mail", processor, concurency=5)  # type: ignore[call-arg]
    Worker("mail", processor, concurrency="5")  # type: ignore[arg-type]
    Worker("mail", processor).run_sync(until="done")  # type: ignore[arg-type]


def tell(event: events.Completed) -> None:
    """Listen to one kind of event."""


def listen(log: QueueEvents, event: events.Event) -> None:
    """Make mistakes with events."""
    log.on(int, print)  # type: ignore[type-var]
    log.on(events.Failed, tell)  # type: ignore[arg-type]
    print(event.job_id)  # type: ignore[union-attr]


async def manage(queue: Queue) -> None:
    """Make mistakes with families, schedulers and results."""
    chain("a", "b")  # type: ignore[arg-type]
    FlowNode("mail", "send")  # type: ignore[call-arg]
    await queue.get_dependencies("1", "all")  # type: ignore[arg-type]
    await queue.upsert_job_scheduler("s", every="1s")  # type: ignore[arg-type]
    await queue.upsert_job_scheduler("s", pattern="* * * * *")  # type: ignore[call-arg]
    await queue.upsert_job_scheduler("s", every=5, options={"atempts": 3})  # type: ignore[arg-type]
    await queue.result("1", timeout=1.5)  # type: ignore[arg-type]
