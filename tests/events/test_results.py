"""Waiting for the result of a job: whatever happens to it, the wait ends, and with the right answer."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from echomq import InvalidOption, Job, JobFailed, JobRemoved, Queue, ResultTimeout, Unrecoverable, Worker
from echomq.errors import ConnectionClosed, ServerRefused
from support.desk import happens, until
from support.limits import AT_ONCE_S, at_once
from support.proxy import proxy_to
from support.servers import Server
from support.shells import Shell


async def work(job: Job) -> Any:
    """Do what the name says."""
    if job.name == "fail":
        raise Unrecoverable(f"no {job.data}")
    return job.data


@contextlib.asynccontextmanager
async def working(server: Server, prefix: str, **options: Any) -> AsyncIterator[Worker]:
    """A worker of the queue."""
    async with Worker("mail", work, server.url, prefix=prefix, **options) as worker:
        running = asyncio.create_task(worker.run())
        yield worker
        await worker.close()
        await running


async def until_waiting(server: Server) -> None:
    """Wait until the server holds back its answer to a reader of events."""
    with server.client(decode_responses=True) as client:

        async def waits() -> bool:
            return any(one["cmd"] == "xread" and "b" in one["flags"] for one in client.client_list())

        await until(waits)


async def test_result_of_a_later_end(queue: Queue, server: Server, prefix: str) -> None:
    """A wait that begins before the job is taken returns what the job returned."""
    job = await queue.add("welcome", {"to": ["ada", None]})
    waiting = asyncio.ensure_future(queue.result(job.id))
    await until_waiting(server)

    async with working(server, prefix):
        assert await happens(waiting) == {"to": ["ada", None]}


async def test_result_of_an_earlier_end(queue: Queue, server: Server, prefix: str) -> None:
    """The result of a job that ended long ago is there at once, whoever waits."""
    job = await queue.add("welcome", 7)
    async with working(server, prefix):
        assert await happens(queue.result(job.id)) == 7
    with at_once():
        assert await queue.result(job.id) == 7


async def test_instant_jobs_that_are_removed(queue: Queue, server: Server, prefix: str) -> None:
    """In 500 rounds, the result of a job that is done at once and removed on completion is returned (pain 44)."""
    async with working(server, prefix):
        for number in range(500):
            job = await queue.add("welcome", number, remove_on_complete=True)
            assert await queue.result(job.id, timeout=60_000) == number
    assert await queue.get_jobs() == []


async def test_many_wait(queue: Queue, server: Server, prefix: str) -> None:
    """Waits for 200 jobs at the same time, all removed on completion, return each its own result."""
    jobs = await queue.add_bulk([("welcome", number, {"remove_on_complete": True}) for number in range(200)])
    waits = asyncio.gather(*(queue.result(job.id, timeout=60_000) for job in jobs))
    async with working(server, prefix, concurrency=20):
        assert await happens(waits, 60) == list(range(200))


@pytest.mark.parametrize("keep", [True, False])
async def test_failed(queue: Queue, server: Server, prefix: str, keep: bool) -> None:
    """The result of a job that failed is an error with its reason, whether retention keeps the job or not."""
    job = await queue.add("fail", "paper", remove_on_fail=not keep)
    async with working(server, prefix):
        with pytest.raises(JobFailed, match="no paper") as caught:
            await happens(queue.result(job.id))

    assert (caught.value.job_id, caught.value.reason) == (job.id, "no paper")


async def test_only_the_last_failure_counts(queue: Queue, server: Server, prefix: str) -> None:
    """A wait goes on while a job is retried, and returns what its last attempt returned."""
    tries = 0

    async def third_time(_: Job) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("not yet")
        return tries

    job = await queue.add("welcome", attempts=3)
    async with Worker("mail", third_time, server.url, prefix=prefix) as worker:
        running = asyncio.create_task(worker.run())
        assert await happens(queue.result(job.id)) == 3
        await worker.close()
        await running


async def test_removed_meanwhile(queue: Queue, server: Server) -> None:
    """A wait for a job that somebody removes ends at once, with an error that says so (pain 44)."""
    job = await queue.add("welcome")
    waiting = asyncio.ensure_future(queue.result(job.id))
    await until_waiting(server)
    await queue.remove(job.id)

    with pytest.raises(JobRemoved) as caught:
        await happens(waiting, AT_ONCE_S)
    assert caught.value.job_id == job.id


async def test_removed_without_a_word(queue: Queue, server: Server) -> None:
    """A wait also ends if the job is drained, of which the event log tells nothing."""
    job = await queue.add("welcome")
    waiting = asyncio.ensure_future(queue.result(job.id))
    await until_waiting(server)
    await queue.drain()

    with pytest.raises(JobRemoved):
        await happens(waiting)


async def test_removed_before(queue: Queue) -> None:
    """To wait for a job that was removed, or never was, is an error at once."""
    job = await queue.add("welcome")
    await queue.remove(job.id)

    for job_id in (job.id, "never"):
        with pytest.raises(JobRemoved, match=job_id):
            await queue.result(job_id, timeout=5_000)


async def test_removed_after_its_end(queue: Queue, server: Server, prefix: str) -> None:
    """The result of a job that completed and was then removed by hand is still known from the log."""
    job = await queue.add("welcome", 7)
    async with working(server, prefix):
        await happens(queue.result(job.id))
    await queue.remove(job.id)

    assert await queue.result(job.id) == 7


async def test_far_back_in_the_log(queue: Queue, server: Server, prefix: str) -> None:
    """An end is found in the log behind thousands of later events."""
    job = await queue.add("welcome", 7, remove_on_complete=True)
    async with working(server, prefix):
        await happens(queue.result(job.id))
    with server.client() as client, client.pipeline() as pipeline:
        for _ in range(3_000):
            pipeline.xadd(queue.keys.events, {"event": "own"})
        pipeline.execute()

    assert await queue.result(job.id) == 7


async def test_timeout(queue: Queue) -> None:
    """A wait with a timeout ends in time, and the job is left as it is."""
    job = await queue.add("welcome")
    began = time.monotonic()

    with pytest.raises(ResultTimeout) as caught:
        await queue.result(job.id, timeout=300)
    assert isinstance(caught.value, TimeoutError)
    assert 0.25 < time.monotonic() - began < AT_ONCE_S
    assert await queue.count() == 1


async def test_timeout_while_the_server_is_silent(shell: Shell, server: Server, prefix: str) -> None:
    """A timeout also holds when the server cannot be reached."""
    with proxy_to(server.host, server.port) as proxy:
        async with shell.queue("mail", proxy.url, prefix=prefix) as queue:
            job = await queue.add("welcome")
            proxy.hold("down")
            with at_once(), pytest.raises(ResultTimeout):
                await queue.result(job.id, timeout=300)
            proxy.release("down")


async def test_wait_through_an_outage(queue: Queue, shell: Shell, server: Server, prefix: str) -> None:
    """A job that ends while the link of a waiter is down is no end missed."""
    with proxy_to(server.host, server.port) as proxy:
        async with shell.queue("mail", proxy.url, prefix=prefix) as remote:
            job = await queue.add("welcome", 7, remove_on_complete=True)
            waiting = asyncio.ensure_future(remote.result(job.id))
            await until_waiting(server)
            proxy.refuse()
            proxy.cut()
            async with working(server, prefix):
                await happens(queue.result(job.id))
            proxy.accept()

            assert await happens(waiting) == 7


async def test_closing_ends_waits(queue: Queue, server: Server) -> None:
    """Closing a queue ends the waits of its jobs with an error, and there are none afterwards."""
    job = await queue.add("welcome")
    waiting = asyncio.ensure_future(queue.result(job.id))
    await until_waiting(server)
    await queue.close()

    with pytest.raises(ConnectionClosed):
        await happens(waiting)
    with pytest.raises(ConnectionClosed):
        await queue.result(job.id)


async def test_cancelled_wait(server: Server, prefix: str) -> None:
    """A wait that is cancelled disturbs no other."""
    async with Queue("mail", server.url, prefix=prefix) as queue:
        job = await queue.add("welcome", 7)
        first, second = (asyncio.ensure_future(queue.result(job.id)) for _ in range(2))
        await until_waiting(server)
        first.cancel()
        async with working(server, prefix):
            assert await happens(second) == 7
        assert first.cancelled()


async def test_no_events_possible(shell: Shell, server: Server, prefix: str) -> None:
    """Where the server lets nobody read events, a wait ends with its refusal, and does not hang."""
    url = f"redis://deaf:secret@{server.host}:{server.port}"
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&*", "+@all", "-xread", "-xrevrange")
        async with shell.queue("mail", url, prefix=prefix) as queue:
            job = await queue.add("welcome")
            with pytest.raises(ServerRefused, match="NOPERM"):
                await happens(queue.result(job.id))
        client.execute_command("ACL", "DELUSER", "deaf")


@pytest.mark.parametrize("timeout", [0, -1, 1.5, "soon"])
async def test_timeout_is_checked(queue: Queue, timeout: Any) -> None:
    """A timeout that is no time is refused."""
    with pytest.raises(InvalidOption):
        await queue.result("1", timeout=timeout)
