"""How many connections a queue holds, and what becomes of them, whatever its owner does or forgets."""

import asyncio
import contextlib
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio

import echomq
import echomq.sync
from echomq import ConnectionClosed, ConnectionLost, ConnectionOptions, Queue, ReplyTimeout, ServerRefused
from support.desk import happens
from support.faults import acl_user
from support.limits import AT_ONCE_S, DEADLINE_S
from support.servers import Server, free_port
from support.shells import Shell
from support.stored import Stored, until


def _clients(stored: Stored) -> int:
    return len(stored.client.client_list())


@pytest.fixture
def others(stored: Stored) -> int:
    """Connections there are before the test's own."""
    return _clients(stored)


async def test_making_a_queue_connects_nowhere(shell: Shell) -> None:
    """A queue is made without a server; only its first request connects."""
    async with shell.queue("mail", "redis://localhost:1") as queue:
        assert repr(getattr(queue, "target", queue)) == "Queue('mail', prefix='bull')"


async def test_one_connection_at_rest(shell: Shell, server: Server, prefix: str, stored: Stored, others: int) -> None:
    """A queue holds one connection however much it did, and none once it is closed (pain 20)."""
    async with shell.queue("mail", server.url, prefix=prefix) as queue:
        await asyncio.gather(*(queue.add("send", number) for number in range(20)))
        await queue.add_bulk([("send", None)] * 20)
        await until(lambda: _clients(stored) == others + 1)

    await until(lambda: _clients(stored) <= others)


async def test_thousand_adds_at_once(server: Server, prefix: str, stored: Stored, others: int) -> None:
    """1,000 adds at the same time share one connection, and each gets its own answer (pain 20)."""
    async with Queue("mail", server.url, prefix=prefix) as queue:
        adding = asyncio.gather(*(queue.add("send", number) for number in range(1_000)))
        most = 0
        while not adding.done():
            most = max(most, await asyncio.to_thread(_clients, stored))
        jobs = await adding

    assert most <= others + 1
    assert {job.data for job in jobs} == set(range(1_000))
    found = {job_id: int(stored.job(job_id)["data"]) for job_id in stored.ids("wait")}
    assert found == {job.id: job.data for job in jobs}


async def test_adds_through_one_ready_client(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """Adds through a ready client share one connection, which goes when the client goes."""
    others = _clients(stored)
    kind = redis.Redis if "Blocking" in type(shell).__name__ else redis.asyncio.Redis
    client: Any = kind(host=server.host, port=server.port)
    for _ in range(10):
        await shell.add("mail", "send", connection=client, prefix=prefix)
    await until(lambda: _clients(stored) == others + 1)

    del client
    gc.collect()

    await until(lambda: _clients(stored) <= others)


async def test_queue_thrown_away(shell: Shell, server: Server, prefix: str, stored: Stored, others: int) -> None:
    """A queue that is forgotten without a word gives its connection back at once, and nothing warns."""
    for _ in range(10):
        await shell.queue("mail", server.url, prefix=prefix).add("send")
    gc.collect()

    await until(lambda: _clients(stored) <= others)
    assert len(stored.ids("wait")) == 10


@contextlib.contextmanager
def _program(code: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


FORGETS = {
    "global queue": """
queue = Queue("mail", url, prefix=prefix)
asyncio.run(queue.add("send"))
""",
    "local queue": """
async def main():
    queue = Queue("mail", url, prefix=prefix)
    await queue.add("send")
asyncio.run(main())
""",
    "thrown away in the middle of an add": """
async def main():
    adding = asyncio.create_task(Queue("mail", url, prefix=prefix).add("send"))
    await asyncio.sleep(0)
    await adding
asyncio.run(main())
""",
    "two loops": """
queue = Queue("mail", url, prefix=prefix)
asyncio.run(queue.add("send"))
asyncio.run(queue.add("send"))
asyncio.run(queue.close())
""",
    "exception": """
async def main():
    queue = Queue("mail", url, prefix=prefix)
    await queue.add("send")
    raise SystemExit(0)
asyncio.run(main())
""",
    "blocking, global": """
queue = echomq.sync.Queue("mail", url, prefix=prefix)
queue.add("send")
""",
    "blocking, in a thread": """
def work():
    queue = echomq.sync.Queue("mail", url, prefix=prefix)
    queue.add("send")
thread = threading.Thread(target=work)
thread.start()
thread.join()
""",
    "ready client": """
client = redis.Redis.from_url(url)
echomq.sync.add("mail", "send", connection=client, prefix=prefix)
asyncio.run(echomq.add("mail", "send", connection=client, prefix=prefix))
client.close()
""",
}


@pytest.mark.parametrize("name", FORGETS)
def test_forgotten_queue_warns_of_nothing(redis_server: Server, prefix: str, name: str) -> None:
    """A program that never closes its queue ends without a warning, an error or a word."""
    head = "import asyncio, sys, threading\nimport redis, echomq, echomq.sync\nfrom echomq import Queue\n"
    with _program(f"{head}_, url, prefix = sys.argv\n{FORGETS[name]}", redis_server.url, prefix) as program:
        output, _ = program.communicate(timeout=DEADLINE_S)

    assert (program.returncode, output) == (0, "")
    with contextlib.closing(redis_server.client(decode_responses=True)) as client:
        assert 1 <= client.llen(f"{prefix}:mail:wait") <= 2


def test_two_event_loops_one_after_another(server: Server, prefix: str) -> None:
    """One queue object serves one event loop after another."""
    queue = Queue("mail", server.url, prefix=prefix)

    ids = [asyncio.run(queue.add("send")).id for _ in range(3)]

    assert ids == ["1", "2", "3"]
    asyncio.run(queue.close())


async def test_closed_queue(shell: Shell, server: Server, prefix: str) -> None:
    """A closed queue says so at once, and closing it again does no harm."""
    queue = shell.queue("mail", server.url, prefix=prefix)
    await queue.add("send")
    await queue.close()
    await queue.close()

    with pytest.raises(ConnectionClosed, match="was closed; make another one"):
        await queue.add("send")


async def test_server_that_is_down(shell: Shell, prefix: str) -> None:
    """Where no server answers, an add ends within its deadline and tells address, attempts and what to check."""
    where = ConnectionOptions(port=free_port(), deadline_ms=300, password="secret")
    queue = shell.queue("mail", where, prefix=prefix)
    begun = time.monotonic()

    with pytest.raises(ConnectionLost, match=rf"no connection to 127.0.0.1:{where.port} within 300 ms") as caught:
        await queue.add("send")

    assert 0.2 < time.monotonic() - begun < AT_ONCE_S
    assert not caught.value.may_have_run
    assert "Check that the server runs" in str(caught.value)
    assert "secret" not in str(caught.value)
    await queue.close()


async def test_server_that_went_down(shell: Shell, server: Server, prefix: str) -> None:
    """A queue survives the death of its server: adds fail in time, and work once it is back."""
    where = ConnectionOptions(host=server.host, port=server.port, deadline_ms=1_000)
    async with shell.queue("mail", where, prefix=prefix) as queue:
        await queue.add("send")
        await asyncio.to_thread(server.kill)
        with pytest.raises(ConnectionLost):
            await queue.add("send")
        await asyncio.to_thread(server.restart)

        async def added() -> Any:
            while True:
                with contextlib.suppress(ConnectionLost):
                    return await queue.add("send")

        assert (await happens(added())).id


async def test_thousands_of_adds_while_the_server_is_away(server: Server, prefix: str) -> None:
    """However many adds wait for a server that hangs, each ends within its deadline, and the queue goes on after it."""
    where = ConnectionOptions(host=server.host, port=server.port, deadline_ms=1_000, reconnect_max_ms=50)
    async with Queue("mail", where, prefix=prefix) as queue:
        await queue.add("send")
        server.pause()
        begun = time.monotonic()
        try:
            ended = await asyncio.gather(*(queue.add("send") for _ in range(3_000)), return_exceptions=True)
        finally:
            server.resume()
        took_s = time.monotonic() - begun

        async def added() -> Any:
            while True:
                with contextlib.suppress(ReplyTimeout, ConnectionLost):
                    return await queue.add("last", job_id="last")

        job = await happens(added())

    assert {type(outcome) for outcome in ended} <= {ReplyTimeout, ConnectionLost}
    assert took_s < 20
    assert job.id == "last"


async def test_server_that_does_not_answer(shell: Shell, server: Server, prefix: str) -> None:
    """A server that hangs costs no more than the deadline, and the error says that the job may be there."""
    where = ConnectionOptions(host=server.host, port=server.port, deadline_ms=1_000)
    async with shell.queue("mail", where, prefix=prefix) as queue:
        await queue.add("send")
        server.pause()
        try:
            with pytest.raises(ReplyTimeout, match="within 1000 ms; the request may or may not have run") as caught:
                await queue.add("send")
        finally:
            server.resume()

    assert caught.value.may_have_run


async def test_wrong_password(shell: Shell, server: Server, prefix: str) -> None:
    """A wrong password is an error at once, which does not show it."""
    with acl_user(server, "ada", ">right", "~*", "+@all"):
        queue = shell.queue("mail", f"redis://ada:wrong-one@{server.host}:{server.port}", prefix=prefix)
        with pytest.raises(ServerRefused) as caught:
            await queue.add("send")
        await queue.close()

    assert "wrong-one" not in str(caught.value)


async def test_user_without_rights(shell: Shell, server: Server, prefix: str) -> None:
    """A user who must not write gets the server's refusal, which names the right that is missing."""
    with acl_user(server, "ada", ">pw", "~*", "+@all", "-hset"):
        queue = shell.queue("mail", f"redis://ada:pw@{server.host}:{server.port}", prefix=prefix)
        with pytest.raises(ServerRefused, match=r"(?i)hset") as caught:
            await queue.add("send")
        await queue.close()

    assert caught.value.prefix == "NOPERM"


def test_threads_share_a_blocking_queue(server: Server, prefix: str, stored: Stored) -> None:
    """Threads share a blocking queue: each add gets its own answer, over one connection."""
    from concurrent.futures import ThreadPoolExecutor

    before = _clients(stored)
    with echomq.sync.Queue("mail", server.url, prefix=prefix) as queue, ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda number: queue.add("send", number), range(200)))
        assert _clients(stored) <= before + 1

    assert {job.id: job.data for job in jobs} == {
        job_id: int(stored.job(job_id)["data"]) for job_id in stored.ids("wait")
    }
