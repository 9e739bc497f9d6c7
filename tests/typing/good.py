"""User code that must type-check under mypy --strict; never run."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import echomq
import echomq.sync
from echomq import (
    Backoff,
    Deduplication,
    Delay,
    FlowNode,
    FlowProducer,
    FlowTree,
    FlowView,
    Job,
    JobState,
    Keep,
    Parent,
    Queue,
    QueueEvents,
    QueueEventsProducer,
    RateLimit,
    Unrecoverable,
    Worker,
    chain,
    events,
)
from echomq.aio.context import Context, ThreadContext


async def produce(queue: Queue) -> None:
    """Say everything that may be said about a job."""
    job: Job = await queue.add("send", {"to": "ada"})
    await queue.add("send", job_id="mine", delay=5_000, attempts=3, backoff=Backoff("exponential", 1_000))
    await queue.add("send", delay=timedelta(minutes=5), backoff=timedelta(seconds=1))
    await queue.add("send", timestamp=datetime.now(timezone.utc), priority=1, lifo=False)
    await queue.add("send", remove_on_complete=True, remove_on_fail=Keep(age_s=3_600, count=100))
    await queue.add("send", deduplication="ada", keep_logs=10)
    await queue.add("send", deduplication=Deduplication(id="ada", ttl=timedelta(seconds=5)))
    await queue.add("send", parent=Parent(job.id, "bull:mail"), ignore_dependency_on_failure=True)
    jobs: list[Job] = await queue.add_bulk([("send", 1), ("send", 2, {"delay": 5})], atomic=False)
    state: JobState = await queue.get_job_state(jobs[0].id)
    counts: dict[JobState, int] = await queue.get_job_counts("waiting", JobState.FAILED)
    found: Job | None = await queue.get_job("mine")
    if found is not None:
        when: datetime | None = found.finished_on
        print(found.data["to"], found.return_value, when, state, counts)
    await queue.set_global_rate_limit(RateLimit(10, timedelta(seconds=1)))


async def stateless() -> None:
    """Use no object but a connection."""
    connection = echomq.connect("redis://localhost")
    job: Job = await echomq.add("mail", "send", connection=connection, prefix="bull", delay=5)
    jobs: list[Job] = await echomq.add_bulk("mail", [("send", None)], connection=connection)
    print(job.id, jobs)
    await connection.close()


def blocking() -> None:
    """Do the same without an event loop."""
    with echomq.sync.Queue("mail", default_job_options={"attempts": 3}) as queue:
        job: Job = queue.add("send", delay=timedelta(seconds=1))
        jobs: list[Job] = queue.get_jobs("waiting", start=0, end=9, ascending=True)
        print(job.id, jobs)
    echomq.sync.add("mail", "send", connection="redis://localhost", priority=5)


async def process(job: Job, ctx: Context) -> Mapping[str, Any]:
    """Process in the event loop."""
    await ctx.log("begun")
    await ctx.progress({"done": 1})
    if job.attempts_made > 3:
        raise Unrecoverable("enough")
    return {"done": True}


async def process_alone(job: Job) -> str:
    """Process without a context."""
    return str(job.data)


def process_in_a_thread(job: Job, ctx: ThreadContext) -> int:
    """Process in a thread."""
    ctx.progress(50)
    if ctx.cancelled.is_set():
        raise Delay(timedelta(seconds=5))
    return job.priority


async def work() -> None:
    """Say everything that may be said about a worker."""
    async with Worker("mail", process, "redis://localhost", concurrency=50, drain_delay=timedelta(seconds=5)) as worker:

        @worker.on("failed")
        def failed(job: Job, error: BaseException) -> None:
            print(job.id, error)

        failed(Job.__new__(Job), ValueError())  # the decorator keeps the signature
        worker.concurrency = 10
        await worker.run(until="drained")
    Worker("mail", process_alone, limiter=RateLimit(10, 1_000), metrics=60)
    Worker("mail", process_in_a_thread, limiter={"max": 10, "duration": 1_000}).run_sync()


if __name__ == "__main__":
    asyncio.run(work())


def tell(event: events.Completed) -> None:
    """Listen to one kind of event."""
    result: object = event.return_value
    assert result != event.job_id


async def follow(log: QueueEvents, producer: QueueEventsProducer) -> None:
    """Read and publish events."""
    log.on(events.Completed, tell)
    log.on("invoice-sent", print)
    async for event in log:
        event_id: str = event.id
        match event:
            case events.Failed(job_id=job_id, reason=reason):
                assert job_id + reason
            case events.Own(name=name, fields=fields):
                await producer.publish(name, {**fields, "after": event_id, "number": 7})
            case _:
                break


async def flow(flows: FlowProducer, queue: Queue) -> None:
    """Add a flow and look at it."""
    first, last = FlowNode(queue="mail", name="a"), FlowNode(queue="mail", name="b", options={"attempts": 3})
    tree: FlowTree = await flows.add(chain(first, last))
    view: FlowView | None = await flows.get_flow("mail", tree.job.id, depth=3)
    assert view is None or view.is_stuck
    values: dict[str, Any] = await queue.get_children_values(tree.job.id)
    page = await queue.get_dependencies(tree.job.id, "processed", cursor="0")
    assert values.keys() == page.items.keys()


async def schedule(queue: Queue) -> None:
    """Make job schedulers, and wait for a result."""
    job: Job | None = await queue.upsert_job_scheduler("a", every=timedelta(hours=1), options={"attempts": 3})
    await queue.upsert_job_scheduler("b", cron="0 4 * * *", tz="Europe/Berlin", start=datetime.now(timezone.utc))
    ids: list[str] = [scheduler.id for scheduler in await queue.get_job_schedulers()]
    assert ids
    if job is not None:
        result: object = await queue.result(job.id, timeout=timedelta(seconds=5))
        assert result
