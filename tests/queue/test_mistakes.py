"""Mistakes of a user: each is a clear error at once, and none of them waits for ever."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import echomq
import echomq.sync
from echomq import (
    ConnectionClosed,
    FlowNode,
    InvalidOption,
    Job,
    JobFailed,
    JobRemoved,
    Parent,
    Queue,
    QueueEvents,
    ResultTimeout,
    ServerRefused,
    UsageError,
)
from support.desk import at_desk, gathered, happens
from support.limits import AT_ONCE_S, at_once
from support.servers import Server
from support.shells import Shell
from support.stored import Stored


@pytest.fixture
def nowhere(shell: Shell) -> Queue:
    """A queue whose server is never asked."""
    return shell.queue("mail", "redis://127.0.0.1:1")


USES: dict[str, Callable[[Queue], Awaitable[Any]]] = {
    "add": lambda queue: queue.add("send"),
    "add_bulk": lambda queue: queue.add_bulk([("send", 1), ("send", 2)]),
    "add_bulk_atomic": lambda queue: queue.add_bulk([("send", 1)], atomic=True),
    "get_job": lambda queue: queue.get_job("1"),
    "result": lambda queue: queue.result("1"),
    "result_within": lambda queue: queue.result("1", timeout=60_000),
    "upsert": lambda queue: queue.upsert_job_scheduler("beat", every=1_000),
    "pause": lambda queue: queue.pause(),
    "clean": lambda queue: queue.clean(),
    "search": lambda queue: queue.search(),
    "workers": lambda queue: queue.get_workers(),
    "walk": lambda queue: anext(aiter(queue.iter_jobs())),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_closed_queue(shell: Shell, redis_server: Server, prefix: str, shared: bool, use: str) -> None:
    """A closed queue refuses whatever is asked of it, also where its connection is shared and stays open."""
    connection = shell.connect(redis_server.url)
    queue = shell.queue("mail", connection if shared else redis_server.url, prefix=prefix)
    await queue.add("send")
    await queue.close()
    await queue.close()

    with at_once(), pytest.raises(ConnectionClosed, match="make another one"):
        await USES[use](queue)

    async with shell.queue("mail", connection, prefix=prefix) as other:
        assert await other.count() == 1
    await shell.close(connection)


async def test_closed_producers(shell: Shell, redis_server: Server, prefix: str) -> None:
    """Producers of flows and of events can be closed twice, and refuse to be used afterwards."""
    flows = shell.flows(redis_server.url, prefix=prefix)
    events = shell.producer("mail", redis_server.url, prefix=prefix)
    for producer in (flows, events, flows, events):
        await producer.close()

    with at_once(), pytest.raises(ConnectionClosed, match="FlowProducer was closed"):
        await flows.add(FlowNode(queue="mail", name="send"))
    with at_once(), pytest.raises(ConnectionClosed, match="QueueEventsProducer of queue 'mail' was closed"):
        await events.publish("sent")


async def test_closed_reader(shell: Shell, redis_server: Server, prefix: str) -> None:
    """A reader of events can be closed twice and from another task, and reads no more."""
    log = shell.events("mail", redis_server.url, prefix=prefix)
    await log.ready()
    reading = asyncio.ensure_future(log.run())
    await asyncio.sleep(0)
    await log.close()
    await log.close()

    await happens(reading, AT_ONCE_S)
    with at_once(), pytest.raises(ConnectionClosed, match="closed"):
        await log.run()
    with at_once(), pytest.raises(ConnectionClosed, match="closed"):
        await log.ready()


async def test_queue_closed_under_a_wait(shell: Shell, redis_server: Server, prefix: str) -> None:
    """Whoever waits for a result when the queue is closed is told so."""
    queue = shell.queue("mail", redis_server.url, prefix=prefix)
    job = await queue.add("send")
    waiting = asyncio.ensure_future(queue.result(job.id))
    with pytest.raises(ResultTimeout):
        await queue.result(job.id, timeout=300)  # by now the other one waits, too

    await queue.close()

    with at_once(), pytest.raises(ConnectionClosed):
        await waiting


@pytest.mark.parametrize("job_id", [None, 7, "", "meta"])
async def test_result_of_no_job(nowhere: Queue, job_id: Any) -> None:
    """A result of something that is no id is refused, not waited for."""
    with at_once(), pytest.raises(InvalidOption, match="job_id"):
        await nowhere.result(job_id)


async def test_result_of_a_job_that_is_gone(queue: Queue) -> None:
    """The result of a job that never was, or was removed, is an error and not a wait."""
    job = await queue.add("send")
    await queue.remove(job.id)

    for job_id in ("ghost", job.id):
        with at_once(), pytest.raises(JobRemoved):
            await queue.result(job_id)


async def test_result_where_events_cannot_be_read(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """Where the user's rights do not allow to read events, waiting for a result says so."""
    stored.client.execute_command("ACL", "SETUSER", "few", "on", ">pass", "~*", "&*", "+@all", "-xread", "-xrevrange")

    async with shell.queue("mail", server.url.replace("://", "://few:pass@"), prefix=prefix) as queue:
        job = await queue.add("send")
        with at_once(), pytest.raises(ServerRefused, match=r"(?i)permission"):
            await queue.result(job.id)

    stored.client.execute_command("ACL", "DELUSER", "few")


async def test_result_without_a_log(shell: Shell, redis_server: Server, prefix: str) -> None:
    """Where the event log is kept empty, so that no event tells of a job's end, its result comes all the same."""
    async with shell.queue("mail", redis_server.url, prefix=prefix, max_events=0) as queue:
        job = await queue.add("send")
        waiting = asyncio.ensure_future(queue.result(job.id))
        with pytest.raises(ResultTimeout):
            await queue.result(job.id, timeout=200)
        with contextlib.closing(redis_server.client(decode_responses=True)) as client:
            Stored(client, f"{prefix}:mail").finish(job.id, "completed", 1_700_000_000_000)

        assert await happens(waiting) is None


def test_next_loop(redis_server: Server, prefix: str) -> None:
    """A queue whose event loop has ended goes on in the next one, whatever was under way in the first."""
    queue = Queue("mail", redis_server.url, prefix=prefix)

    async def first() -> Job:
        job = await queue.add("send")
        waiting = asyncio.ensure_future(queue.result(job.id))
        with pytest.raises(ResultTimeout):
            await queue.result(job.id, timeout=50)
        waiting.cancel()
        return job

    async def second(job: Job) -> int:
        await queue.add("send")
        with pytest.raises(ResultTimeout):
            await queue.result(job.id, timeout=100)
        count = await queue.count()
        await queue.close()
        return count

    job = asyncio.run(first())
    with at_once():
        assert asyncio.run(second(job)) == 2


def test_two_loops_at_once(redis_server: Server, prefix: str) -> None:
    """A queue that is used from two loops that both run tells the second one so."""
    queue = Queue("mail", redis_server.url, prefix=prefix)
    told: list[BaseException] = []

    def other() -> None:
        try:
            asyncio.run(queue.add("send"))
        except UsageError as error:
            told.append(error)

    async def main() -> None:
        await queue.add("send")
        with at_once():
            await asyncio.to_thread(other)
        await queue.close()

    asyncio.run(main())
    assert "open one connection for each loop" in str(told[0])


async def test_closed_in_another_loop(redis_server: Server, prefix: str) -> None:
    """Whoever reads or waits in one event loop ends when another thread's loop closes what it uses."""
    queue = Queue("mail", redis_server.url, prefix=prefix)
    log = QueueEvents("mail", redis_server.url, prefix=prefix, block=60_000)
    job = await queue.add("send")
    seen = asyncio.Event()
    log.on("waiting", lambda _: seen.set())
    await log.ready()
    reading, waiting = asyncio.ensure_future(log.run()), asyncio.ensure_future(queue.result(job.id))
    await queue.add("send")
    await happens(seen.wait())

    with at_once():
        for close in (queue.close, log.close):
            await asyncio.to_thread(asyncio.run, close())
        await happens(reading, AT_ONCE_S)
        with pytest.raises(ConnectionClosed):
            await happens(waiting, AT_ONCE_S)


async def test_connections_of_the_wrong_kind(redis_server: Server, prefix: str) -> None:
    """A connection of one shell is refused by the other when the queue is made, not when it is used."""
    blocking, other = echomq.sync.connect(redis_server.url), echomq.connect(redis_server.url)

    with pytest.raises(UsageError, match=r"echomq\.connect"):
        Queue("mail", blocking, prefix=prefix)
    with pytest.raises(UsageError, match=r"echomq\.sync\.connect"):
        echomq.sync.Queue("mail", other, prefix=prefix)

    blocking.close()
    await other.close()


async def test_processor_that_returns_no_json(shell: Shell, redis_server: Server, prefix: str) -> None:
    """A processor that returns what is not JSON fails its job at once, and whoever waits is told where it is wrong."""
    async with (
        at_desk(redis_server.url, prefix) as desk,
        shell.queue("work", redis_server.url, prefix=prefix) as queue,
        desk.working(lambda _: {"items": [object()]}) as worker,
    ):
        failed = gathered(worker, "failed", 1)
        job = await queue.add("send", attempts=5)
        with at_once(), pytest.raises(JobFailed, match=r"\$\.items\[0\]"):
            await queue.result(job.id)
        await happens(failed)


@pytest.mark.parametrize(
    ("use", "field"),
    [
        (lambda shell, bad: shell.queue(bad), "queue"),
        (lambda shell, bad: shell.queue("mail", prefix=bad), "prefix"),
        (lambda shell, _: shell.queue("mail", max_events=-1), "max_events"),
        (lambda shell, _: shell.producer("mail", max_events=0), "max_events"),
    ],
)
def test_impossible_queue(shell: Shell, use: Callable[[Shell, str], Any], field: str) -> None:
    """A queue that could never be used is refused when it is made, by the name of the argument."""
    with pytest.raises(InvalidOption) as caught:
        use(shell, "half \ud83d")

    assert caught.value.field == field


@pytest.mark.parametrize(
    ("use", "field"),
    [
        (lambda queue, bad: queue.add(bad), "name"),
        (lambda queue, bad: queue.add("send", job_id=bad), "job_id"),
        (lambda queue, bad: queue.add("send", deduplication=bad), "deduplication.id"),
        (lambda queue, bad: queue.add("send", parent=Parent(bad, "bull:mail")), "parent.id"),
        (lambda queue, bad: queue.add("send", telemetry_metadata=bad), "telemetry_metadata"),
        (lambda queue, bad: queue.upsert_job_scheduler(bad, every=1_000), "scheduler_id"),
        (lambda queue, bad: queue.get_job(bad), "job_id"),
        (lambda queue, bad: queue.get_deduplication_job_id(bad), "deduplication_id"),
        (lambda queue, bad: queue.remove_deduplication(bad), "deduplication_id"),
    ],
)
async def test_half_a_character(nowhere: Queue, use: Callable[[Queue, str], Awaitable[Any]], field: str) -> None:
    """Text that UTF-8 cannot express, as cut emoji are, is refused by the name of the argument."""
    with pytest.raises(InvalidOption, match="lone surrogate at index 5") as caught:
        await use(nowhere, "half \ud83d")

    assert caught.value.field == field
