"""What a job may be added through: a URL, options, a ready client, an open connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

import echomq
import echomq.sync
from echomq import ConnectionOptions, DriverMissing, Queue, UsageError
from support.servers import Server
from support.shells import SHELLS, Shell
from support.stored import Stored, until


async def test_add_through_a_url(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """A name and a URL are enough to add a job, and the connection is closed after it."""
    before = len(stored.client.client_list())

    job = await shell.add("mail", "send", {"to": "ada"}, connection=server.url, prefix=prefix)

    assert stored.ids("wait") == [job.id]
    await until(lambda: len(stored.client.client_list()) <= before)


async def test_add_through_options(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """Options in place of a URL do the same."""
    where = ConnectionOptions(host=server.host, port=server.port)

    jobs = await shell.add_bulk("mail", [("send", 1), ("send", 2)], connection=where, prefix=prefix)

    assert stored.ids("wait") == [job.id for job in reversed(jobs)]


async def test_add_through_the_environment(
    shell: Shell, server: Server, prefix: str, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no connection named, the URL comes from ECHOMQ_URL."""
    monkeypatch.setenv("ECHOMQ_URL", server.url)

    job = await shell.add("mail", "send", connection=None, prefix=prefix)

    assert stored.ids("wait") == [job.id]


async def test_add_through_an_open_connection(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """An open connection is used as it is, shared by queues, and never closed by them."""
    connection = shell.connect(server.url)
    try:
        await shell.add("mail", "send", connection=connection, prefix=prefix)
        clients = len(stored.client.client_list())
        for _ in range(2):
            async with shell.queue("mail", connection, prefix=prefix) as queue:
                await queue.add("send")
        await shell.add("mail", "send", connection=connection, prefix=prefix)
        assert len(stored.client.client_list()) <= clients
    finally:
        await shell.close(connection)

    assert len(stored.ids("wait")) == 4


Clients = Callable[..., Any]

READY: dict[str, tuple[str, Clients]] = {
    "redis-asyncio": ("asyncio", redis.asyncio.Redis),
    "valkey-asyncio": ("asyncio", valkey.asyncio.Valkey),
    "redis-blocking": ("blocking", redis.Redis),
    "valkey-blocking": ("blocking", valkey.Valkey),
}


@pytest.fixture(params=list(READY))
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of ready client in turn."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["bytes", "decoding"])
async def ready(request: pytest.FixtureRequest, kind: str, server: Server) -> AsyncIterator[Any]:
    """A ready client of that kind, which decodes replies or does not."""
    client = READY[kind][1](host=server.host, port=server.port, decode_responses=request.param)
    yield client
    done = client.aclose() if "asyncio" in kind else client.close()
    if done is not None:
        await done


async def test_ready_client(kind: str, ready: Any, prefix: str, stored: Stored) -> None:
    """A ready client of redis-py or valkey-py serves adds and queues, whether it decodes or not, and stays usable."""
    shell = SHELLS[READY[kind][0]]
    data = {"text": "Zoë"}

    one = await shell.add("mail", "send", data, connection=ready, prefix=prefix)
    two = await shell.add("mail", "send", data, connection=ready, prefix=prefix)
    async with shell.queue("mail", ready, prefix=prefix) as queue:
        found = await queue.get_job(one.id)

    assert found is not None
    assert found.data == data
    assert stored.ids("wait") == [two.id, one.id]
    pong = ready.ping()
    assert await pong if asyncio.iscoroutine(pong) else pong


async def test_client_of_the_other_shell(server: Server, prefix: str, stored: Stored) -> None:
    """Only the settings of a ready client are used, so a blocking one serves asyncio and the reverse."""
    blocking = redis.Redis(host=server.host, port=server.port)
    other = redis.asyncio.Redis(host=server.host, port=server.port)
    with contextlib.closing(blocking):
        one = await SHELLS["asyncio"].add("mail", "send", connection=blocking, prefix=prefix)
        two = await SHELLS["blocking"].add("mail", "send", connection=other, prefix=prefix)

    assert stored.ids("wait") == [two.id, one.id]
    await other.aclose()


async def test_something_else_is_no_connection(shell: Shell) -> None:
    """An object of another kind is refused, with what is expected and what to install."""
    with pytest.raises(DriverMissing, match=r"expected a URL, ConnectionOptions, or a client"):
        shell.queue("mail", object())


async def test_no_connection_at_all(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection and without ECHOMQ_URL the error says how to name one."""
    monkeypatch.delenv("ECHOMQ_URL", raising=False)

    with pytest.raises(UsageError, match="pass a URL such as redis://localhost, or set ECHOMQ_URL"):
        shell.queue("mail")


async def test_open_connection_of_the_other_shell(server: Server) -> None:
    """An open connection of one shell given to the other is refused at once."""
    blocking = echomq.sync.connect(server.url)
    other = echomq.connect(server.url)
    try:
        with pytest.raises(UsageError, match="blocking"):
            Queue("mail", blocking)
        with pytest.raises(UsageError, match="asyncio"):
            echomq.sync.Queue("mail", other)
    finally:
        blocking.close()
        await other.close()
