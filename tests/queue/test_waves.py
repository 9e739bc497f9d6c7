"""Single adds of many tasks leave together, and nobody can tell but by the speed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Generator, Iterable
from typing import Any

import attrs
import pytest

from echomq import ConnectionLost, Job, Parent, ParentNotFound, Queue, add, connect, plugins
from echomq.errors import NotEncodable, PluginError
from echomq.hookspecs import hookimpl
from echomq.middleware import Middleware
from support.proxy import proxy_to
from support.servers import Server
from support.stored import Stored, until


@attrs.define(eq=False)
class Seen:
    """A connection that notes the scripts it is asked to run.

    Attributes:
        inner: The connection.
        scripts: Names, in order.
    """

    inner: Any
    scripts: list[str] = attrs.field(factory=list)

    async def send(self, request: Any, **others: Any) -> Any:
        """Note a script, and send."""
        if hasattr(request, "script"):
            self.scripts.append(request.script)
        return await self.inner.send(request, **others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.fixture
async def seen(server: Server) -> AsyncIterator[Seen]:
    """A connection to each server that notes the scripts."""
    connection = connect(server.url)
    yield Seen(connection)
    await connection.close()


@pytest.fixture
async def queue(seen: Seen, prefix: str) -> AsyncIterator[Queue]:
    """A queue on that connection."""
    async with Queue("mail", seen, prefix=prefix) as queue:
        yield queue


async def test_adds_of_one_turn_leave_together(queue: Queue, seen: Seen, stored: Stored) -> None:
    """A hundred adds at once take a few calls; each gets its own job, and they wait in the order they were made."""
    jobs = await asyncio.gather(*(queue.add("send", number) for number in range(100)))

    assert [job.id for job in jobs] == [str(number) for number in range(1, 101)]
    assert [job.data for job in jobs] == list(range(100))
    assert stored.ids("wait") == [str(number) for number in range(100, 0, -1)]
    assert [stored.job(job.id)["data"] for job in jobs] == [str(number) for number in range(100)]
    assert seen.scripts.count("addJobs") == 4
    assert len(seen.scripts) <= 6


async def test_adds_without_a_queue_leave_together(seen: Seen, stored: Stored, prefix: str) -> None:
    """Adds of one turn by a connection alone leave together, those of each queue, and keep their order."""
    adds = [add(f"mail{number % 2}", "send", number, connection=seen, prefix=prefix) for number in range(100)]
    jobs = await asyncio.gather(*adds)

    assert [job.id for job in jobs] == [str(number // 2 + 1) for number in range(100)]
    assert [job.data for job in jobs] == list(range(100))
    assert [stored.client.llen(f"{prefix}:mail{number}:wait") for number in range(2)] == [50, 50]
    assert len(seen.scripts) <= 8


async def test_lone_adds_go_as_they_are(queue: Queue, seen: Seen) -> None:
    """Adds one after the other are the contract's own call each, and so is a single one beside one under way."""
    for number in range(3):
        await queue.add("send", number)
    first = asyncio.ensure_future(queue.add("send", 3))
    await asyncio.sleep(0)
    await asyncio.gather(first, queue.add("send", 4))

    assert seen.scripts == ["addStandardJob"] * 5


async def test_jobs_of_all_kinds_at_once(queue: Queue, stored: Stored, prefix: str) -> None:
    """Jobs of all kinds added at once end where they belong, and an error reaches only who made it."""
    outcomes = await asyncio.gather(
        queue.add("a"),
        *(queue.add("b", number) for number in range(4)),
        queue.add("c", job_id="mine"),
        queue.add("d", parent=Parent("ghost", f"{prefix}:mail")),
        *(queue.add("e", number, delay=60_000) for number in range(4)),
        queue.add("f", priority=3),
        queue.add("g", lifo=True),
        queue.add("h", deduplication="same"),
        queue.add("i", deduplication="same"),
        queue.add("j", extra={"big": 2**70}),
        *(queue.add("k", number) for number in range(3)),
        return_exceptions=True,
    )

    assert [getattr(one, "id", type(one)) for one in outcomes] == [
        *("1", "2", "3", "4", "5", "mine", ParentNotFound, "7", "8", "9", "10", "11", "12", "13", "13"),
        *(NotEncodable, "15", "16", "17"),
    ]
    assert stored.ids("wait") == ["17", "16", "15", "13", "mine", "5", "4", "3", "2", "1", "12"]
    assert stored.ids("delayed") == ["7", "8", "9", "10"]
    assert stored.ids("prioritized") == ["11"]


async def test_order_of_mixed_kinds(server: Server, prefix: str, stored: Stored) -> None:
    """Adds of one turn wait in the order they were made, whether they can travel together or not."""
    async with Queue("mail", server.url, prefix=prefix) as queue:
        await queue.add("first")
        own: list[dict[str, Any]] = [{} if number % 7 else {"job_id": f"own-{number}"} for number in range(80)]
        jobs = await asyncio.gather(*(queue.add("send", number, **given) for number, given in enumerate(own)))

    assert [job.data for job in jobs] == list(range(80))
    assert stored.ids("wait")[-2::-1] == [job.id for job in jobs]


async def test_large_data_leave_apart(queue: Queue, seen: Seen, stored: Stored) -> None:
    """Adds of one turn leave together only as long as their data are no more than a call should carry."""
    jobs = await asyncio.gather(*(queue.add("send", "x" * 400_000) for _ in range(10)))

    assert stored.ids("wait") == [job.id for job in reversed(jobs)]
    assert seen.scripts == ["addStandardJob", *["addJobs"] * 3]


async def _cancelled_at_once(adds: Iterable[Awaitable[Job]], numbers: Iterable[int]) -> list[Any]:
    """Begin adds, cancel some in the same turn of the loop, and return what became of each."""
    tasks = [asyncio.ensure_future(add) for add in adds]
    for number in numbers:
        asyncio.get_running_loop().call_soon(tasks[number].cancel)
    return list(await asyncio.gather(*tasks, return_exceptions=True))


@pytest.mark.parametrize("cancelled", [1, 2, 4])
async def test_cancelled_before_it_left(queue: Queue, stored: Stored, cancelled: int) -> None:
    """An add that is cancelled in the turn it was made adds nothing, and the others do not notice."""
    outcomes = await _cancelled_at_once([queue.add("send", number) for number in range(5)], [cancelled])

    assert [number for number, one in enumerate(outcomes) if isinstance(one, asyncio.CancelledError)] == [cancelled]
    rest = [one.data for one in outcomes if isinstance(one, Job)]
    assert [int(stored.job(job_id)["data"]) for job_id in stored.ids("wait")[::-1]] == rest


async def test_all_cancelled_before_they_left(queue: Queue, seen: Seen, stored: Stored) -> None:
    """Where all but one of the adds of a turn are cancelled, the others are not sent, and the next add works."""
    await _cancelled_at_once([queue.add("send", number) for number in range(5)], range(1, 5))
    job = await queue.add("send", "last")

    assert stored.ids("wait") == [job.id, "1"]
    assert seen.scripts == ["addStandardJob"] * 2


async def test_cancelled_under_way(server: Server, prefix: str, stored: Stored) -> None:
    """A cancelled add that has left does not take the answers of the others with it, whoever began."""
    with proxy_to(server.host, server.port) as proxy:
        async with Queue("mail", proxy.url, prefix=prefix) as queue:
            await queue.add("first")
            proxy.hold("down")
            tasks = [asyncio.ensure_future(queue.add("send", number)) for number in range(5)]
            await until(lambda: stored.client.llen(stored.key("wait")) == 6)
            tasks[1].cancel()
            tasks[3].cancel()
            proxy.release("down")
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [getattr(one, "data", None) for one in outcomes] == [0, None, 2, None, 4]


async def test_lost_answer(server: Server, prefix: str, stored: Stored) -> None:
    """Where the link breaks before the answer, each add says that it may have run, by an error of its own."""
    with proxy_to(server.host, server.port) as proxy:
        async with Queue("mail", proxy.url, prefix=prefix) as queue:
            await queue.add("first")
            proxy.hold("down")
            adding = asyncio.gather(*(queue.add("send", number) for number in range(5)), return_exceptions=True)
            await until(lambda: stored.client.llen(stored.key("wait")) == 6)
            proxy.cut()
            outcomes = await adding
            proxy.release("down")
            last = await queue.add("last")

    assert all(isinstance(one, ConnectionLost) and one.may_have_run for one in outcomes)
    assert len({id(one) for one in outcomes}) == 5
    assert last.id == "7"


async def test_link_lost_before_they_left(server: Server, prefix: str) -> None:
    """Adds that nothing was written of when the link broke wait for the next link, as ever."""
    with proxy_to(server.host, server.port) as proxy:
        async with Queue("mail", proxy.url, prefix=prefix) as queue:
            await queue.add("first")
            proxy.cut()
            jobs = await asyncio.gather(*(queue.add("send", number) for number in range(40)))

    assert [job.id for job in jobs] == [str(number) for number in range(2, 42)]


def test_one_loop_after_the_other(server: Server, prefix: str) -> None:
    """A queue whose adds were cut off with their loop works in the next one."""
    queue = Queue("mail", server.url, prefix=prefix)

    async def add(count: int) -> list[Job]:
        return list(await asyncio.gather(*(queue.add("send", number) for number in range(count))))

    async def leave() -> None:
        adding = [asyncio.ensure_future(queue.add("send")) for _ in range(40)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in adding)

    assert len(asyncio.run(add(40))) == 40
    asyncio.run(leave())
    assert len({job.id for job in asyncio.run(add(40))}) == 40
    asyncio.run(queue.close())


async def test_layers_around_each(queue: Queue, seen: Seen) -> None:
    """Plugins see each add of a turn by itself, in and out; what a required one raises hits only its job."""
    told: list[str] = []

    def around(job: Job) -> Generator[Job, Any, None]:
        if job.data == 3:
            raise ZeroDivisionError("three")
        added = yield attrs.evolve(job, raw_data=f'"{job.data}"')
        told.append(f"{added.id} {added.data}")

    class Layers:
        @hookimpl
        def echomq_register_middleware(self) -> Middleware:
            return Middleware(around_add=around, required=True)

    plugins.register(Layers(), "around")
    try:
        outcomes = await asyncio.gather(*(queue.add("send", n) for n in range(6)), return_exceptions=True)
    finally:
        plugins.unregister("around")

    assert told == ["1 0", "2 1", "3 2", "4 4", "5 5"]
    assert [getattr(one, "data", type(one)) for one in outcomes] == ["0", "1", "2", PluginError, "4", "5"]
    assert "addJobs" in seen.scripts


async def test_layers_see_errors(queue: Queue, prefix: str) -> None:
    """A layer around an add that the server declined is told so, also beside others."""
    told: list[str] = []

    def around(job: Job) -> Generator[Job, Any, None]:
        try:
            yield job
        except ParentNotFound:
            told.append(job.name)
            raise

    class Layers:
        @hookimpl
        def echomq_register_middleware(self) -> Middleware:
            return Middleware(around_add=around)

    plugins.register(Layers(), "around")
    try:
        adds = [*(queue.add("send") for _ in range(4)), queue.add("lost", parent=Parent("ghost", f"{prefix}:mail"))]
        outcomes = await asyncio.gather(*adds, return_exceptions=True)
    finally:
        plugins.unregister("around")

    assert told == ["lost"]
    assert [type(one) for one in outcomes] == [Job] * 4 + [ParentNotFound]
