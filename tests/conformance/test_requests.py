"""Requests and replies, on a link that holds."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from echomq.call import Batch, Command, ScriptCall
from echomq.driver import AsyncConnection
from echomq.errors import JobNotFound, NotEncodable, ServerNotReady, ServerRefused
from support.faults import acl_user, blocked_client, set_config
from support.requests import command, run
from support.servers import Server


@pytest.mark.parametrize(
    ("lua", "raw"),
    [
        ("return 'text'", b"text"),
        ("return 7", 7),
        ("return false", None),
        ("return {1, 'two', {false, {}}}", [1, b"two", [None, []]]),
        ("return redis.status_reply('OK')", b"OK"),
        ("return ''", b""),
    ],
)
async def test_replies_are_raw(
    connection: AsyncConnection, add_script: Callable[[str, int], str], lua: str, raw: object
) -> None:
    """A script's reply reaches decode as bytes, int, None and lists, never as text."""
    assert raw == await connection.send(run(add_script(lua, 0)))


async def test_replies_have_one_form(connection: AsyncConnection, prefix: str) -> None:
    """Maps, sets and doubles look the same whatever version of the protocol is spoken."""
    await connection.send(command("HSET", f"{prefix}:h", "a", "1", "b", "2"))
    await connection.send(command("SADD", f"{prefix}:s", "x"))
    await connection.send(command("ZADD", f"{prefix}:z", "1.5", "m"))

    assert await connection.send(command("HGETALL", f"{prefix}:h")) == [b"a", b"1", b"b", b"2"]
    assert await connection.send(command("SMEMBERS", f"{prefix}:s")) == [b"x"]
    key, member, score = await connection.send(command("BZPOPMIN", f"{prefix}:z", 1, block_ms=1000))
    assert (f"{prefix}:z".encode(), b"m", b"1.5") == (key, member, score)


async def test_batch_replies_have_one_form(connection: AsyncConnection, prefix: str) -> None:
    """What a batch returns has the form of single replies, atomic or not."""
    await connection.send(command("HSET", f"{prefix}:h", "a", "1"))

    for atomic in (False, True):
        batch = Batch(requests=(command("HGETALL", f"{prefix}:h"), command("GET", f"{prefix}:no")), atomic=atomic)
        assert await connection.send_batch(batch) == [[b"a", b"1"], None]


@pytest.mark.parametrize(
    ("argument", "stored"),
    [
        ("é€😀", "é€😀".encode()),
        (b"\x00\xff\r\n", b"\x00\xff\r\n"),
        (42, b"42"),
        (-(2**62), str(-(2**62)).encode()),
        (0.25, b"0.25"),
        ("", b""),
        ("x" * 300_000, b"x" * 300_000),
    ],
)
async def test_arguments(connection: AsyncConnection, prefix: str, argument: Any, stored: bytes) -> None:
    """Text goes as UTF-8, bytes untouched, numbers as decimal text."""
    await connection.send(command("SET", prefix, argument))

    assert stored == await connection.send(command("GET", prefix))


@pytest.mark.parametrize("argument", [None, "\ud800", ["a"]])
async def test_argument_refused(connection: AsyncConnection, prefix: str, argument: Any) -> None:
    """What cannot be sent is refused before it is sent, tells its place, and hurts nobody else."""
    with pytest.raises(NotEncodable) as caught:
        await connection.send(command("SET", prefix, argument))

    assert caught.value.path == "$[2]"
    assert await connection.send(command("PING")) == b"PONG"


async def test_many_at_once(connection: AsyncConnection, prefix: str, counting: str) -> None:
    """Calls in flight together each get their own reply."""
    echoes = asyncio.gather(*(connection.send(command("ECHO", str(n))) for n in range(200)))
    counts = asyncio.gather(*(connection.send(run(counting, prefix, args=(1,))) for _ in range(200)))

    assert [str(n).encode() for n in range(200)] == await echoes
    assert set(range(1, 201)) == set(await counts)


async def test_decode(connection: AsyncConnection) -> None:
    """The caller gets what decode makes of the reply."""
    assert await connection.send(Command(parts=("ECHO", "hello"), decode=len)) == 5


async def test_decode_error(connection: AsyncConnection, add_script: Callable[[str, int], str]) -> None:
    """An error that decode raises reaches the caller of send, and is an outcome in a batch."""

    def decode(reply: object) -> None:
        raise JobNotFound("test", str(reply))

    call = ScriptCall(script=add_script("return -1", 0), keys=(), args=(), decode=decode)
    with pytest.raises(JobNotFound):
        await connection.send(call)
    outcomes = await connection.send_batch(Batch(requests=(call, command("PING"))))
    assert isinstance(outcomes[0], JobNotFound)
    assert outcomes[1] == b"PONG"


async def test_unknown_script(connection: AsyncConnection, prefix: str, counting: str) -> None:
    """A script the server has never seen runs once, at the first call."""
    assert await connection.send(run(counting, prefix, args=(1,))) == 1
    assert await connection.send(run(counting, prefix, args=(1,))) == 2


async def test_script_flush_in_flight(connection: AsyncConnection, server: Server, prefix: str, counting: str) -> None:
    """SCRIPT FLUSH between calls in flight makes none of them fail or run twice."""
    with contextlib.closing(server.client()) as client:
        for _ in range(5):
            calls = [asyncio.ensure_future(connection.send(run(counting, prefix, args=(1,)))) for _ in range(50)]
            await asyncio.sleep(0)
            await asyncio.to_thread(client.script_flush)
            await asyncio.gather(*calls)

        assert client.get(prefix) == b"250"


async def test_script_error(connection: AsyncConnection, add_script: Callable[[str, int], str], prefix: str) -> None:
    """An error inside a script is refused with the server's prefix and the script's name."""
    script = add_script("redis.call('SET', KEYS[1], 1) return redis.call('LPUSH', KEYS[1], 1)", 1)

    with pytest.raises(ServerRefused, match=rf"^{script}: .*WRONGTYPE") as caught:
        await connection.send(run(script, prefix))

    assert caught.value.prefix == "WRONGTYPE"
    assert not isinstance(caught.value, ServerNotReady)


async def test_command_error(connection: AsyncConnection, prefix: str) -> None:
    """An error reply to a command is refused with its prefix; the link goes on."""
    await connection.send(command("SET", prefix, 1))

    with pytest.raises(ServerRefused, match=r"^LPUSH: ") as caught:
        await connection.send(command("LPUSH", prefix, 1))

    assert caught.value.prefix == "WRONGTYPE"
    assert await connection.send(command("GET", prefix)) == b"1"


async def test_empty_batch(connection: AsyncConnection) -> None:
    """A batch of nothing is answered with nothing."""
    for atomic in (False, True):
        assert await connection.send_batch(Batch(requests=(), atomic=atomic)) == []


@pytest.mark.parametrize("atomic", [False, True], ids=["pipeline", "multi"])
async def test_batch_outcomes(connection: AsyncConnection, prefix: str, counting: str, *, atomic: bool) -> None:
    """Outcomes come in order; the error of one is in its place and hides no other."""
    requests = (
        command("SET", f"{prefix}:s", "x"),
        run(counting, f"{prefix}:n", args=(5,)),
        command("LPUSH", f"{prefix}:s", 1),
        run(counting, f"{prefix}:n", args=(2,)),
        run(counting, f"{prefix}:s", args=(1,)),
        Command(parts=("GET", f"{prefix}:s"), decode=lambda reply: reply.decode()),
    )

    for start in (0, 7):
        outcomes = await connection.send_batch(Batch(requests=requests, atomic=atomic))
        kinds = [outcome.prefix if isinstance(outcome, ServerRefused) else outcome for outcome in outcomes]
        assert [b"OK", start + 5, "WRONGTYPE", start + 7, "ERR", "x"] == kinds


@pytest.mark.parametrize("atomic", [False, True], ids=["pipeline", "multi"])
async def test_batch_after_flush(
    connection: AsyncConnection, server: Server, prefix: str, counting: str, *, atomic: bool
) -> None:
    """A server that forgot the scripts runs each item of a batch once, in order."""
    batch = Batch(requests=tuple(run(counting, prefix, args=(1,)) for _ in range(10)), atomic=atomic)

    assert list(range(1, 11)) == await connection.send_batch(batch)
    with contextlib.closing(server.client()) as client:
        client.script_flush()
    assert list(range(11, 21)) == await connection.send_batch(batch)


async def test_atomic_is_one_transaction(connection: AsyncConnection, server: Server, prefix: str) -> None:
    """Nobody sees the middle of an atomic batch."""
    batch = Batch(requests=tuple(command("INCR", prefix) for _ in range(50)), atomic=True)
    seen = set()
    with contextlib.closing(server.client()) as client:
        sending = asyncio.gather(*(connection.send_batch(batch) for _ in range(20)))
        while not sending.done():
            seen.add(int(await asyncio.to_thread(client.get, prefix) or 0) % 50)
        await sending

    assert {0} == seen


async def test_atomic_refused(connection: AsyncConnection, prefix: str) -> None:
    """If the server refuses one command of an atomic batch, nothing of it runs, and the reason is told."""
    with pytest.raises(ServerRefused, match="NOSUCHCOMMAND") as caught:
        await connection.send_batch(
            Batch(
                requests=(command("SET", prefix, 1), command("NOSUCHCOMMAND"), command("SET", prefix, 2)), atomic=True
            )
        )

    assert caught.value.prefix == "ERR"
    assert await connection.send(command("GET", prefix)) is None


async def test_atomic_without_memory(connection: AsyncConnection, server: Server, prefix: str) -> None:
    """A full server takes all of an atomic batch or nothing, and says OOM."""
    batch = Batch(requests=tuple(command("SET", f"{prefix}:{n}", n) for n in range(3)), atomic=True)

    with set_config(server, maxmemory="1"):
        with pytest.raises(ServerRefused) as caught:
            await connection.send_batch(batch)
        assert caught.value.prefix == "OOM"
        assert await connection.send(command("EXISTS", *(f"{prefix}:{n}" for n in range(3)))) == 0
    assert await connection.send_batch(batch) == [b"OK"] * 3


async def test_atomic_where_multi_is_forbidden(
    connection: AsyncConnection, server: Server, prefix: str, open_connection: Callable[[str], AsyncConnection]
) -> None:
    """A user who may not use MULTI gets an error, and nothing of the batch runs on its own."""
    limited = open_connection(server.url.replace("://", "://nomulti:secret@"))
    with acl_user(server, "nomulti", ">secret", "~*", "+@all", "-multi"), pytest.raises(ServerRefused) as caught:
        await limited.send_batch(Batch(requests=(command("SET", prefix, 1),), atomic=True))

    assert caught.value.prefix == "NOPERM"
    assert await connection.send(command("GET", prefix)) is None


async def test_no_permission(server: Server, prefix: str, open_connection: Callable[[str], AsyncConnection]) -> None:
    """A command that the user may not run is refused with NOPERM."""
    limited = open_connection(server.url.replace("://", "://reader:secret@"))
    with acl_user(server, "reader", ">secret", "~*", "+@read", "+@connection"):
        assert await limited.send(command("GET", prefix)) is None
        with pytest.raises(ServerRefused) as caught:
            await limited.send(command("SET", prefix, 1))

    assert caught.value.prefix == "NOPERM"


async def test_read_only_replica(connection: AsyncConnection, server: Server, prefix: str, counting: str) -> None:
    """A write to a replica is not ready, from a script too: it may become a master again."""
    with contextlib.closing(server.client()) as client:
        client.replicaof("127.0.0.1", 1)
        try:
            for request in (command("SET", prefix, 1), run(counting, prefix, args=(1,))):
                with pytest.raises(ServerNotReady) as caught:
                    await connection.send(request)
                assert caught.value.prefix == "READONLY"
            with set_config(server, **{"replica-serve-stale-data": "no"}), pytest.raises(ServerNotReady) as caught:
                await connection.send(command("GET", prefix))
            assert caught.value.prefix == "MASTERDOWN"
        finally:
            client.replicaof("NO", "ONE")

    assert await connection.send(run(counting, prefix, args=(1,))) == 1


async def test_busy_script(connection: AsyncConnection, server: Server) -> None:
    """A server that is busy with a long script is not ready."""
    with set_config(server, **{"lua-time-limit": "10"}), contextlib.closing(server.client()) as client:
        endless = asyncio.ensure_future(asyncio.to_thread(_run_endless, server))
        try:
            error = await _first_refusal(connection)
        finally:
            client.script_kill()
            await endless

    assert isinstance(error, ServerNotReady)
    assert error.prefix == "BUSY"


async def _first_refusal(connection: AsyncConnection) -> ServerRefused:
    while True:
        try:
            await connection.send(command("GET", "x"))
        except ServerRefused as error:
            return error


def _run_endless(server: Server) -> None:
    with contextlib.closing(server.client(socket_timeout=20)) as client, contextlib.suppress(Exception):
        client.eval("while true do end", 0)


async def test_unblocked(connection: AsyncConnection, server: Server, prefix: str) -> None:
    """A blocking read that the server ends is not ready, hence worth another try."""
    reader = connection.dedicated(name=prefix)
    try:
        reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
        with contextlib.closing(server.client()) as client:
            client.client_unblock(await blocked_client(server, prefix), error=True)
            with pytest.raises(ServerNotReady) as caught:
                await reading
    finally:
        await reader.close()

    assert caught.value.prefix == "UNBLOCKED"


async def test_server_info(connection: AsyncConnection, server: Server) -> None:
    """The server tells its own name and version, and how it evicts."""
    info = await connection.server()

    assert server.family == info.name
    assert info.version > ((6,) if server.family == "redis" else (7, 2, 4))
    assert info.maxmemory_policy == "noeviction"
    assert info is await connection.server()


async def test_block_extends_deadline(connection: AsyncConnection, prefix: str) -> None:
    """The time a server may hold a reply back does not count against the deadline."""
    reader = connection.dedicated()
    try:
        reply = await reader.send(command("BLPOP", prefix, 0.8, block_ms=800), deadline_ms=500)
    finally:
        await reader.close()

    assert reply is None


async def test_dedicated_name(connection: AsyncConnection, prefix: str) -> None:
    """A dedicated connection shows its name in the list of clients; the shared one has none."""
    reader = connection.dedicated(name=f"bull:{prefix}")
    try:
        assert f"bull:{prefix}".encode() == await reader.send(command("CLIENT", "GETNAME"))
        assert not await connection.send(command("CLIENT", "GETNAME"))
    finally:
        await reader.close()


async def test_blocking_read_disturbs_nobody(connection: AsyncConnection, prefix: str) -> None:
    """While a dedicated connection waits, the shared one answers."""
    reader = connection.dedicated()
    try:
        reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
        await asyncio.sleep(0)
        assert await connection.send(command("RPUSH", prefix, "job")) == 1
        assert [prefix.encode(), b"job"] == await reading
    finally:
        await reader.close()


async def test_blocking_twin(connection: AsyncConnection, prefix: str) -> None:
    """The blocking twin talks to the same server."""
    twin = connection.blocking_twin()
    try:
        await asyncio.to_thread(twin.send, command("SET", prefix, "twin"))
        assert await connection.send(command("GET", prefix)) == b"twin"
    finally:
        await asyncio.to_thread(twin.close)


@pytest.mark.parametrize("protocol", [3], indirect=True)
async def test_push_messages_are_ignored(connection: AsyncConnection, server: Server, prefix: str) -> None:
    """Messages that nobody asked for do not shift replies."""
    await connection.send(command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", prefix))
    with contextlib.closing(server.client()) as client:
        for n in range(50):
            await asyncio.to_thread(client.set, f"{prefix}:{n}", n)
            assert str(n).encode() == await connection.send(command("ECHO", n))
