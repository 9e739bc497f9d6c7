"""Several queues share one pool of slots and one connection."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import attrs
import pytest
import pytest_asyncio

from echomq import InvalidOption, Job, Queue, UsageError, WorkerGroup, connect
from echomq.driver import AsyncConnection
from support.blocking import AwaitedGroup
from support.desk import happens, until
from support.limits import at_once, best_of
from support.requests import command
from support.servers import Server


@attrs.define
class Desks:
    """Queues on one server."""

    url: str
    prefix: str
    connection: AsyncConnection
    make_group: Callable[..., Any]

    def queue(self, name: str) -> Queue:
        """One of them."""
        return Queue(name, self.connection, prefix=self.prefix)

    async def add(self, name: str, count: int) -> None:
        """Add jobs to one."""
        await self.queue(name).add_bulk([("work", number) for number in range(count)])

    def group(self, processors: Any, **options: Any) -> WorkerGroup:
        """A group of workers."""
        group: WorkerGroup = self.make_group(processors, self.url, prefix=self.prefix, **options)
        return group

    async def completed(self, name: str) -> int:
        """Jobs of one that are done."""
        return (await self.queue(name).get_job_counts("completed"))["completed"]  # type: ignore[index]

    async def until_completed(self, **expected: int) -> None:
        """Wait until so many jobs of each are done."""

        async def are_done() -> bool:
            return {name: await self.completed(name) for name in expected} == expected

        await until(are_done)


@pytest_asyncio.fixture(params=[WorkerGroup, AwaitedGroup], ids=["asyncio", "blocking"])
async def desks(request: pytest.FixtureRequest, redis_server: Server, prefix: str) -> AsyncIterator[Desks]:
    """Empty queues, for the group of each shell."""
    connection = connect(redis_server.url)
    yield Desks(redis_server.url, prefix, connection, request.param)
    await connection.close()


@contextlib.asynccontextmanager
async def _working(group: WorkerGroup) -> AsyncIterator[WorkerGroup]:
    running = asyncio.ensure_future(group.run())
    try:
        yield group
    finally:
        await group.close(1_000)
        await happens(running)


def _noting(order: list[str]) -> Callable[[Job], Any]:
    async def note(job: Job) -> None:
        order.append(job.queue_name)
        await asyncio.sleep(0)

    return note


async def test_all_queues_are_served_until_drained(desks: Desks) -> None:
    """A group runs the jobs of all its queues, also those that jobs of one add to another, and ends when drained."""
    order: list[str] = []

    async def pass_on(job: Job) -> None:
        order.append(job.queue_name)
        await desks.queue("second").add("work")

    for name in ("first", "second"):
        await desks.add(name, 3)
    await desks.group({"first": pass_on, "second": _noting(order)}, concurrency=4).run("drained")

    assert Counter(order) == {"first": 3, "second": 6}


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_queues_take_turns_by_weight(desks: Desks, concurrency: int) -> None:
    """Where all queues have jobs, each starts as many as its weight, and none has to wait for another's end."""
    order: list[str] = []
    names = ("heavy", "light", "tiny")
    for name in names:
        await desks.add(name, 60)
    group = desks.group(dict.fromkeys(names, _noting(order)), weights={"heavy": 3, "light": 2}, concurrency=concurrency)
    await group.run("drained")
    counts = Counter(order[10:70])  # the first takes find some queues not heard of yet

    assert abs(counts["heavy"] - 30) <= 6
    assert abs(counts["light"] - 20) <= 6
    assert abs(counts["tiny"] - 10) <= 6
    assert len(order) == 180


async def test_slots_are_shared(desks: Desks) -> None:
    """Never more jobs run than the group's concurrency says, over all queues, and one queue alone may use all."""
    now = most = 0

    async def count(_: Job) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1

    names = [f"queue{number}" for number in range(5)]
    for name in names:
        await desks.add(name, 12)
    group = desks.group(dict.fromkeys(names, count), concurrency=3)
    await group.run("drained")
    assert most == 3

    all_slots = asyncio.Event()

    async def fill(_: Job) -> None:
        nonlocal now
        now += 1
        if now == 8:
            all_slots.set()
        await happens(all_slots.wait())

    await desks.add("queue0", 30)
    await desks.group(dict.fromkeys(names, fill), concurrency=8).run("drained")
    assert now == 30


async def test_idle_queue_is_heard_beside_a_busy_one(desks: Desks) -> None:
    """A job of a queue that had none starts after a job or two of the queue that keeps all slots."""
    order: list[str] = []
    done = asyncio.Event()

    async def work(job: Job) -> None:
        order.append(job.queue_name)
        await asyncio.sleep(0.01)
        if job.queue_name == "quiet":
            done.set()

    async def overtakers() -> int:
        done.clear()
        before = len(order)
        await desks.queue("quiet").add("work")
        await happens(done.wait())
        return len(order) - before

    await desks.add("busy", 2_000)
    async with _working(desks.group({"busy": work, "quiet": work})):
        for _ in range(3):
            await best_of(overtakers, 12)

    assert len(order) < 2_000


async def test_few_connections(desks: Desks) -> None:
    """A group has one connection for calls, and one for each queue that waits."""
    before = len((await desks.connection.send(command("CLIENT", "LIST"))).splitlines())
    names = [f"queue{number}" for number in range(4)]
    async with _working(desks.group(dict.fromkeys(names, _noting([])), concurrency=50)):
        for name in names:
            await desks.add(name, 20)
        await desks.until_completed(**dict.fromkeys(names, 20))

        async def are_few() -> bool:  # a job that a busy machine holds up has its worker listen for cancellations
            clients = len((await desks.connection.send(command("CLIENT", "LIST"))).splitlines())
            return clients - before == 1 + len(names)

        await until(are_few)


async def test_group_is_steered_as_one(desks: Desks) -> None:
    """Listeners hear all queues, pausing pauses all, concurrency changes for all, and an idle group closes at once."""
    told: list[str] = []
    group = desks.group({"first": _noting([]), "second": _noting([])}, concurrency=2, drain_delay=30_000)
    group.on("completed", lambda job, _: told.append(job.queue_name))
    async with _working(group):
        for name in ("first", "second"):
            await desks.add(name, 2)
        await desks.until_completed(first=2, second=2)
        await group.pause()
        await desks.add("first", 3)
        group.concurrency = 5
        assert group.workers["second"].concurrency == 5
        assert group.workers["first"].is_paused
        assert await desks.completed("first") == 2
        group.resume()
        await desks.until_completed(first=5)
        with at_once():
            await group.close()

    assert Counter(told) == {"first": 5, "second": 2}
    with pytest.raises(UsageError, match="another"):
        await group.run()


async def test_closing_while_a_queue_waits_for_its_turn(desks: Desks) -> None:
    """A close waits for the job that runs, not for the turn of queues that wait, whose jobs stay where they are."""
    started, let_go = asyncio.Event(), asyncio.Event()

    async def hold(_: Job) -> None:
        started.set()
        await let_go.wait()

    await desks.add("first", 1)
    async with _working(desks.group({"first": hold, "second": hold}, drain_delay=30_000)) as group:
        await happens(started.wait())
        await desks.add("second", 1)
        closing = asyncio.ensure_future(group.close())
        await asyncio.sleep(0)
        let_go.set()
        with at_once():
            await happens(closing)

    assert (await desks.queue("second").count(), await desks.completed("first")) == (1, 1)


async def test_mistakes_are_refused(desks: Desks) -> None:
    """A group without queues, with a weight for none of them, or a weight below 1, is refused."""
    with pytest.raises(UsageError, match="processors"):
        desks.group({})
    with pytest.raises(UsageError, match="'other'"):
        desks.group({"first": _noting([])}, weights={"other": 2})
    with pytest.raises(InvalidOption, match=r"weights\['first'\]"):
        desks.group({"first": _noting([])}, weights={"first": 0})


async def test_scope_that_cancels_again_and_again(redis_server: Server, prefix: str) -> None:
    """A scope of anyio, which cancels a task whenever it waits, ends a group as one cancellation does."""
    inside = asyncio.Queue[str]()

    async def forever(job: Job) -> None:
        inside.put_nowait(job.id)
        await asyncio.Event().wait()

    async with Queue("one", redis_server.url, prefix=prefix) as queue:
        await queue.add_bulk([("work", number) for number in range(2)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(WorkerGroup({"one": forever}, redis_server.url, prefix=prefix, concurrency=2).run)
            await happens(inside.get())
            await happens(inside.get())
            tasks.cancel_scope.cancel()

        assert await queue.get_job_counts("waiting", "active") == {"waiting": 2, "active": 0}
