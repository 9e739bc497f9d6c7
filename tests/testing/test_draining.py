"""Draining: everything that is due runs here and now, and what fails is raised."""

import pytest

from echomq import FlowNode, FlowProducer, Job, Queue, Unrecoverable
from echomq.errors import UsageError
from echomq.processors import Processor
from echomq.tasks import Tasks
from echomq_testing import TestServer, drain, sync
from echomq_testing.plugin import NewQueue, NewQueueSync


async def test_order_and_results(echomq_queue: NewQueue) -> None:
    """Jobs run one after the other, in the order of the queue; the drain tells what they returned."""
    queue, running = echomq_queue(), []
    await queue.add_bulk([("double", n) for n in range(5)])

    async def double(job: Job) -> int:
        running.append(job.id)
        assert len(await queue.get_jobs("active")) == 1
        return int(job.data) * 2

    drained = await drain(queue, double)

    assert drained.results == (0, 2, 4, 6, 8)
    assert [job.id for job in drained.completed] == running
    assert drained.failed == ()


async def test_jobs_that_add_jobs(echomq_queue: NewQueue) -> None:
    """What running jobs add runs too."""
    queue = echomq_queue()
    await queue.add("count", 3)

    async def count(job: Job) -> None:
        if job.data:
            await queue.add("count", job.data - 1)

    assert [job.data for job in (await drain(queue, count)).completed] == [3, 2, 1, 0]


async def test_first_failure_is_raised(echomq_queue: NewQueue) -> None:
    """The error of the first job that failed is raised, the very object, when all jobs have run."""
    queue, ran = echomq_queue(), []
    await queue.add_bulk([("work", n) for n in range(4)])

    async def work(job: Job) -> None:
        ran.append(job.data)
        if job.data % 2:
            raise ValueError(f"odd: {job.data}")

    with pytest.raises(ValueError, match="odd: 1"):
        await drain(queue, work)
    assert ran == [0, 1, 2, 3]


async def test_failures_are_collected(echomq_queue: NewQueue) -> None:
    """Failures can be collected in place of being raised."""
    queue = echomq_queue()
    await queue.add_bulk([("work", n) for n in range(3)])

    async def work(job: Job) -> None:
        raise Unrecoverable(f"never {job.data}")

    drained = await drain(queue, work, raises=False)

    assert [str(failure.error) for failure in drained.failed] == ["never 0", "never 1", "never 2"]


async def test_retries_that_succeed(echomq_queue: NewQueue) -> None:
    """A job that succeeds at a later attempt has not failed."""
    queue = echomq_queue()
    await queue.add("work", attempts=3)

    async def work(job: Job) -> int:
        if job.attempts_made < 2:
            raise ConnectionError
        return job.attempts_made

    drained = await drain(queue, work)

    assert (drained.results, drained.failed) == ((2,), ())


def processor(name: str, queue: Queue) -> Processor:
    """A processor that tells its name and what its children returned."""

    async def run(job: Job) -> str:
        values = sorted((await queue.get_children_values(job.id)).values())
        return f"{name}({', '.join(values)})"

    return run


async def test_flows_over_queues(echomq_server: TestServer, echomq_queue: NewQueue, echomq_prefix: str) -> None:
    """A flow over several queues runs from its leaves to its root, whatever order the queues are named in."""
    parents, children = echomq_queue("parents"), echomq_queue("children")
    async with FlowProducer(echomq_server.url, prefix=echomq_prefix) as flows:
        leaves = [FlowNode(queue="children", name=f"leaf-{n}") for n in range(2)]
        middle = FlowNode(queue="parents", name="middle", children=leaves)
        await flows.add(FlowNode(queue="children", name="root", children=[middle]))

    drained = await drain({parents: processor("p", parents), children: processor("c", children)})

    assert drained.results[-1] == "c(p(c(), c()))"
    assert [job.name for job in drained.completed] == ["leaf-0", "leaf-1", "middle", "root"]


async def test_tasks(echomq_server: TestServer, echomq_prefix: str) -> None:
    """All queues of a registry of tasks are drained."""
    tasks = Tasks(echomq_server.url, prefix=echomq_prefix)

    @tasks.task(queue="emails")
    async def welcome(to: str) -> str:
        await report.enqueue(1)
        return f"to {to}"

    @tasks.task(queue="reports")
    def report(pages: int) -> int:
        return pages

    await welcome.enqueue("ada")

    assert (await drain(tasks)).results == ("to ada", 1)
    await tasks.close()


async def test_paused_queue(echomq_queue: NewQueue) -> None:
    """A paused queue keeps its jobs, and the drain ends."""
    queue = echomq_queue()
    await queue.add("work")
    await queue.pause()

    assert (await drain(queue, processor("x", queue))).completed == ()


def test_without_a_loop(echomq_queue_sync: NewQueueSync) -> None:
    """The twin does the same, failures included."""
    queue = echomq_queue_sync()
    queue.add_bulk([("work", n) for n in range(3)])

    def work(job: Job) -> int:
        if job.data == 2:
            raise ValueError("two")
        return int(job.data)

    drained = sync.drain(queue, work, raises=False)

    assert drained.results == (0, 1)
    assert [str(failure.error) for failure in drained.failed] == ["two"]
    queue.add("work", 2)
    with pytest.raises(ValueError, match="two"):
        sync.drain(queue, work)


def test_tasks_without_a_loop(echomq_server: TestServer, echomq_prefix: str) -> None:
    """Tasks that are plain functions are drained without an event loop."""
    tasks = Tasks(echomq_server.url, prefix=echomq_prefix)

    @tasks.task(queue="reports")
    def report(pages: int) -> int:
        return pages * 2

    report.enqueue_sync(4)

    assert sync.drain(tasks).results == (8,)
    tasks.close_sync()


async def test_misuse(echomq_queue: NewQueue, echomq_queue_sync: NewQueueSync) -> None:
    """What cannot be drained is refused at once."""
    with pytest.raises(UsageError, match="needs a processor"):
        await drain(echomq_queue())
    with pytest.raises(UsageError, match=r"expected echomq\.Queue or Tasks"):
        await drain(echomq_queue_sync(), lambda _: 1)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="leave the second argument out"):
        await drain({echomq_queue(): lambda _: 1}, lambda _: 1)
