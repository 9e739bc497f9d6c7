"""Links that break, servers that are gone, deadlines that pass.

What passes between a connection and its server goes through a proxy that counts
bytes, so that a link can be cut at each of them.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from echomq.address import parse_url
from echomq.call import Batch
from echomq.driver import AsyncConnection, ConnectionOptions
from echomq.errors import ConnectionClosed, ConnectionLost, ReplyTimeout, ServerNotReady, ServerRefused
from support.faults import blocked_client
from support.limits import AT_ONCE_S, at_once
from support.proxy import Direction, Proxy, proxy_to
from support.requests import command, run
from support.servers import Server, Servers, free_port

Open = Callable[[ConnectionOptions | str], AsyncConnection]


def quick(url: str, **changes: Any) -> ConnectionOptions:
    """Options that do not make a test wait."""
    return attrs.evolve(parse_url(url), **{"reconnect_min_ms": 1, "reconnect_max_ms": 20, **changes})


def stored(server: Server, key: str) -> int:
    """Value of a counter on the server."""
    with contextlib.closing(server.client()) as client:
        return int(client.get(key) or 0)


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "rst"])
@pytest.mark.parametrize("direction", ["up", "down"])
async def test_cut_at_any_byte(
    open_connection: Open, proxy: Proxy, redis_server: Server, prefix: str, direction: Direction, *, reset: bool
) -> None:
    """A write that broke at any byte runs at most once, and the caller learns that it may have run."""
    connection = open_connection(quick(proxy.url))
    await connection.send(command("PING"))
    before = proxy.passed[direction]
    await connection.send(command("INCR", prefix))
    length = proxy.passed[direction] - before
    for count in range(length):
        proxy.cut_after(direction, count, reset=reset)
        with pytest.raises(ConnectionLost) as caught:
            await connection.send(command("INCR", prefix))
        assert caught.value.may_have_run
        assert not isinstance(caught.value, ReplyTimeout)
        assert str(count).encode() == await connection.send(command("ECHO", count, repeatable=True))

    ran = stored(redis_server, prefix)
    assert ran == 1 if direction == "up" else 1 <= ran <= 1 + length


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_repeatable_survives_a_cut(
    open_connection: Open, proxy: Proxy, prefix: str, direction: Direction
) -> None:
    """A repeatable request is sent again after a cut at any byte; the caller notices nothing."""
    connection = open_connection(quick(proxy.url))
    await connection.send(command("SET", prefix, "value"))
    for count in range(0, 30, 3):
        proxy.cut_after(direction, count)
        assert await connection.send(command("GET", prefix, repeatable=True)) == b"value"


async def test_unknown_script_survives_a_cut(
    open_connection: Open, proxy: Proxy, redis_server: Server, prefix: str, counting: str
) -> None:
    """A cut while a script's text is on its way leaves it run once or not at all."""
    connection = open_connection(quick(proxy.url))
    with contextlib.closing(redis_server.client()) as client:
        done = 0
        for count in range(60, 300, 7):
            client.script_flush()
            await connection.send(command("PING", repeatable=True))
            proxy.cut_after("up", count)
            with contextlib.suppress(ConnectionLost):
                await connection.send(run(counting, prefix, args=(1,)))
                done += 1

    assert done == stored(redis_server, prefix)


async def test_cut_batch(open_connection: Open, proxy: Proxy, redis_server: Server, prefix: str) -> None:
    """An atomic batch that broke at any byte ran whole or not at all."""
    connection = open_connection(quick(proxy.url))
    batch = Batch(requests=tuple(command("INCR", prefix) for _ in range(5)), atomic=True)
    await connection.send_batch(batch)
    for count in range(0, 200, 9):
        proxy.cut_after("up", count)
        with contextlib.suppress(ConnectionLost):
            await connection.send_batch(batch)
        assert stored(redis_server, prefix) % 5 == 0


async def test_others_after_a_cut(open_connection: Open, proxy: Proxy, prefix: str, shell: str) -> None:
    """Of many requests in flight at a cut, each gets its own reply or learns that it may have run."""
    connection = open_connection(quick(proxy.url))
    await connection.send(command("PING"))
    proxy.cut_after("down", 500)
    echoes = [command("ECHO", f"{prefix}{n}", repeatable=n % 2 == 0) for n in range(100)]
    outcomes = await asyncio.gather(*(connection.send(echo) for echo in echoes), return_exceptions=True)

    lost = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, ConnectionLost)]
    # A blocking link has one request in flight, which may have been a repeatable one.
    assert lost or shell == "blocking"
    assert all(n % 2 for n in lost)
    for n, outcome in enumerate(outcomes):
        assert n in lost or f"{prefix}{n}".encode() == outcome


async def test_waits_for_the_server(open_connection: Open, proxy: Proxy, prefix: str) -> None:
    """A request that could not be written waits for the server to come back."""
    connection = open_connection(quick(proxy.url))
    await connection.send(command("PING"))
    proxy.refuse()
    proxy.cut()
    sending = asyncio.gather(*(connection.send(command("INCR", prefix)) for _ in range(10)), return_exceptions=True)
    late = asyncio.ensure_future(connection.send(command("ECHO", "late", repeatable=True)))
    await asyncio.sleep(0.05)
    assert not late.done()
    proxy.accept()

    assert await late == b"late"
    for outcome in await sending:
        assert isinstance(outcome, int) or (isinstance(outcome, ConnectionLost) and outcome.may_have_run)


async def test_server_down_from_the_start(open_connection: Open) -> None:
    """Without a server the caller gets ConnectionLost at the deadline, with the address and the reason."""
    port = free_port()
    connection = open_connection(quick(f"redis://127.0.0.1:{port}", deadline_ms=200))
    begun = time.monotonic()
    with pytest.raises(ConnectionLost, match=rf"127\.0\.0\.1:{port} within 200 ms.*refused") as caught:
        await connection.send(command("PING"))

    assert 0.1 < time.monotonic() - begun < AT_ONCE_S
    assert not caught.value.may_have_run
    assert not isinstance(caught.value, ReplyTimeout)


async def test_deadline_of_a_call(open_connection: Open) -> None:
    """A deadline given with a call wins over the connection's."""
    connection = open_connection(quick(f"redis://127.0.0.1:{free_port()}", deadline_ms=60_000))

    with pytest.raises(ConnectionLost, match="within 100 ms"):
        await connection.send(command("PING"), deadline_ms=100)
    with pytest.raises(ConnectionLost, match="within 150 ms"):
        await connection.send_batch(Batch(requests=(command("PING"),)), deadline_ms=150)


async def test_impossible_host(open_connection: Open) -> None:
    """A host that cannot exist is named."""
    connection = open_connection(quick("redis://no..host:1234", deadline_ms=200))
    with pytest.raises(ConnectionLost, match=r"no\.\.host:1234"):
        await connection.send(command("PING"))


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("credentials", [":wrong", "nobody:wrong", ""])
async def test_wrong_password(open_connection: Open, servers: Servers, credentials: str, protocol: int) -> None:
    """A wrong or missing password is refused at once, and not shown."""
    server = servers.start("redis", args=("--requirepass", "right"))
    url = server.url.replace("://", f"://{credentials}@" if credentials else "://")
    connection = open_connection(quick(url, deadline_ms=60_000, protocol=protocol))
    begun = time.monotonic()
    with pytest.raises(ServerRefused) as caught:
        await connection.send(command("PING"))

    assert time.monotonic() - begun < 30
    assert "wrong" not in str(caught.value)
    assert str(server.port) in str(caught.value) or caught.value.prefix == "NOAUTH"


async def test_wrong_database(open_connection: Open, redis_server: Server) -> None:
    """A database that does not exist is refused at once."""
    connection = open_connection(quick(f"{redis_server.url}/4711"))
    with pytest.raises(ServerRefused, match=str(redis_server.port)):
        await connection.send(command("PING"))


async def test_late_reply(open_connection: Open, proxy: Proxy, redis_server: Server, prefix: str) -> None:
    """A reply that comes after its caller's deadline goes to nobody."""
    connection = open_connection(quick(proxy.url, deadline_ms=60_000))
    await connection.send(command("PING"))
    proxy.hold("down")
    with pytest.raises(ReplyTimeout, match="500 ms") as caught:
        await connection.send(command("INCR", prefix), deadline_ms=500)
    assert caught.value.may_have_run
    proxy.release("down")

    assert await connection.send(command("ECHO", "mine")) == b"mine"
    assert stored(redis_server, prefix) == 1


async def test_deaf_link_is_replaced(open_connection: Open, proxy: Proxy) -> None:
    """A link that brings nothing for a whole deadline is given up for a new one."""
    connection = open_connection(quick(proxy.url, deadline_ms=1_000))
    await connection.send(command("PING"))
    proxy.hold("down")
    with pytest.raises(ReplyTimeout):
        await connection.send(command("ECHO", "lost"))
    accepted = proxy.accepted
    proxy.release("down")

    assert await connection.send(command("ECHO", "found", repeatable=True), deadline_ms=30_000) == b"found"
    assert proxy.accepted == accepted + 1


async def test_greeting_held_back(open_connection: Open, proxy: Proxy) -> None:
    """A server that accepts and says nothing is no connection; the request waits for one within its deadline."""
    proxy.hold("down")
    url = proxy.url.replace("://", "://:secret@")
    connection = open_connection(quick(url, deadline_ms=400, connect_timeout_ms=100))
    with pytest.raises(ConnectionLost, match=str(proxy.port)) as caught:
        await connection.send(command("PING"))

    assert not caught.value.may_have_run


async def test_cut_while_greeting(open_connection: Open, proxy: Proxy, prefix: str) -> None:
    """A link that breaks at any byte of the greeting is tried again."""
    for count in range(0, 60, 7):
        connection = open_connection(quick(f"{proxy.url}/1"))
        proxy.cut_after("down", count)
        assert await connection.send(command("INCR", f"{prefix}:{count}")) == 1


async def test_noise(open_connection: Open) -> None:
    """A peer that speaks something else is told apart from a server, within the deadline."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as stranger:
        port = stranger.sockets[0].getsockname()[1]
        connection = open_connection(quick(f"redis://127.0.0.1:{port}", deadline_ms=300))
        with pytest.raises(ConnectionLost, match=str(port)):
            await connection.send(command("PING"))
        await connection.close()


async def test_server_restart(open_connection: Open, servers: Servers, prefix: str) -> None:
    """Requests go on after a crash of the server; its client's name is set again."""
    server = servers.start("redis", aof=True)
    connection = open_connection(quick(server.url))
    reader = connection.dedicated(name=f"bull:{prefix}")
    try:
        await reader.send(command("SET", prefix, 1))
        server.kill()
        late = asyncio.ensure_future(reader.send(command("GET", prefix, repeatable=True)))
        await asyncio.sleep(0.02)
        server.restart()
        assert await late == b"1"
        assert f"bull:{prefix}".encode() == await reader.send(command("CLIENT", "GETNAME"))
        assert await connection.send(command("GET", prefix)) == b"1"
    finally:
        await reader.close()


async def test_idle_link_closed_by_the_server(open_connection: Open, redis_server: Server, prefix: str) -> None:
    """A link that the server closed while it was idle costs no request."""
    connection = open_connection(quick(redis_server.url))
    own = await connection.send(command("CLIENT", "ID"))
    with contextlib.closing(redis_server.client()) as client:
        client.client_kill_filter(_id=own)
    await asyncio.sleep(0.05)

    assert await connection.send(command("INCR", prefix)) == 1


@pytest.mark.parametrize("kind", ["command", "pipeline", "multi", "blocking"])
async def test_failover_behind_one_address(
    open_connection: Open, redis_server: Server, servers: Servers, prefix: str, kind: str
) -> None:
    """After a failover behind a fixed address, the next request reaches the new master, though no link broke."""
    other = servers.start("redis")
    with contextlib.closing(redis_server.client()) as admin, proxy_to(redis_server.host, redis_server.port) as proxy:
        connection = open_connection(quick(proxy.url))
        await connection.send(command("PING"))
        admin.replicaof("127.0.0.1", 1)
        proxy.to_port = other.port
        write = command("BLPOP", prefix, 1, block_ms=1_000) if kind == "blocking" else command("INCR", prefix)
        try:
            if kind in {"pipeline", "multi"}:
                with contextlib.suppress(ServerNotReady):
                    outcomes = await connection.send_batch(Batch(requests=(write,), atomic=kind == "multi"))
                    assert isinstance(outcomes[0], ServerNotReady)
            else:
                with pytest.raises(ServerNotReady):
                    await connection.send(write)
            assert await connection.send(command("INCR", f"{prefix}:n")) == 1
        finally:
            admin.replicaof("NO", "ONE")
        await connection.close()


async def test_killed_blocking_read(open_connection: Open, redis_server: Server, prefix: str) -> None:
    """A blocking read whose link is killed fails at once, and the next one works."""
    connection = open_connection(quick(redis_server.url))
    reader = connection.dedicated(name=prefix)
    try:
        reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
        own = await blocked_client(redis_server, prefix)
        with contextlib.closing(redis_server.client()) as client:
            client.client_kill_filter(_id=str(own))
        with pytest.raises(ConnectionLost):
            await reading
        await connection.send(command("RPUSH", prefix, "job"))
        assert [prefix.encode(), b"job"] == await reader.send(command("BLPOP", prefix, 5, block_ms=5_000))
    finally:
        await reader.close()


async def test_close_ends_a_blocking_read(open_connection: Open, redis_server: Server, prefix: str) -> None:
    """Closing a connection ends its blocking read at once."""
    reader = open_connection(quick(redis_server.url)).dedicated(name=prefix)
    reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
    await blocked_client(redis_server, prefix)
    with at_once():
        await reader.close()
        with pytest.raises(ConnectionClosed):
            await reading


async def test_close_ends_waiting_requests(open_connection: Open) -> None:
    """Closing a connection ends the requests that wait for a server; they certainly have not run."""
    connection = open_connection(quick(f"redis://127.0.0.1:{free_port()}"))
    sending = [asyncio.ensure_future(connection.send(command("PING"))) for _ in range(3)]
    await asyncio.sleep(0.05)
    await connection.close()
    for outcome in await asyncio.gather(*sending, return_exceptions=True):
        assert isinstance(outcome, ConnectionClosed)
        assert not outcome.may_have_run


async def test_closed_stays_closed(open_connection: Open, redis_server: Server) -> None:
    """A closed connection refuses requests at once; closing it again does no harm."""
    connection = open_connection(redis_server.url)
    await connection.send(command("PING"))
    for _ in range(2):
        await connection.close()
        with pytest.raises(ConnectionClosed, match="closed by its owner"):
            await connection.send(command("PING"))
        with pytest.raises(ConnectionClosed):
            await connection.send_batch(Batch(requests=(command("PING"),)))


async def test_close_unused(open_connection: Open) -> None:
    """A connection that was never used is closed without a server."""
    await open_connection(f"redis://127.0.0.1:{free_port()}").close()


async def test_frozen_server(open_connection: Open, servers: Servers) -> None:
    """A server that is stopped for a while answers each caller what belongs to him afterwards."""
    server = servers.start("redis")
    connection = open_connection(quick(server.url, deadline_ms=60_000))
    await connection.send(command("PING"))
    server.pause()
    with pytest.raises(ReplyTimeout):
        await connection.send(command("ECHO", "early"), deadline_ms=500)
    late = [asyncio.ensure_future(connection.send(command("ECHO", n, repeatable=True))) for n in range(20)]
    server.resume()

    assert [str(n).encode() for n in range(20)] == await asyncio.gather(*late)


async def test_large_requests_wait_for_room(open_connection: Open, proxy: Proxy, prefix: str) -> None:
    """More than may be pending is sent all the same, bit by bit."""
    connection = open_connection(quick(proxy.url, max_pending_bytes=100_000, deadline_ms=60_000))
    await connection.send(command("PING"))
    proxy.hold("up")
    block = "x" * 90_000
    sending = [asyncio.ensure_future(connection.send(command("SET", f"{prefix}:{n}", block))) for n in range(60)]
    await asyncio.sleep(0.05)
    proxy.release("up")

    assert await asyncio.gather(*sending) == [b"OK"] * 60
