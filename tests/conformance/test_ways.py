"""The contract of a connection on every way to a server: TCP, TLS, Unix socket, limited user, Sentinel, cluster."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from echomq.call import Batch
from echomq.driver import AsyncConnection, ConnectionSource
from echomq.errors import ServerRefused
from support.faults import acl_user
from support.requests import command, run
from support.tls import make_certificates, start_tls_server

if TYPE_CHECKING:
    from support.clusters import Cluster
    from support.sentinels import Watched
    from support.servers import Server

Open = Callable[[ConnectionSource], AsyncConnection]
RIGHTS = "+@read +@write +@scripting +@connection +@transaction +@blocking +time -@dangerous +info".split()  # noqa: SIM905
SERVERS = ("redis", "valkey")
WAYS = [
    *(f"{way}-{server}" for way in ("tcp", "unix", "limited", "cluster") for server in SERVERS),
    "sentinel-redis",
    pytest.param("sentinel-valkey", marks=pytest.mark.heavy),
    "tls-redis",
]


@pytest.fixture(scope="session")
def tls_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a Redis with TLS that wants a certificate of its clients."""
    files = make_certificates(tmp_path_factory.mktemp("tls"))
    engine, port = start_tls_server(files)
    own = f"ssl_certfile={files.client}&ssl_keyfile={files.client_key}"
    yield f"rediss://localhost:{port}?ssl_ca_certs={files.ca}&{own}"
    engine.close()


@pytest.fixture(params=WAYS)
def url(request: pytest.FixtureRequest, prefix: str) -> Iterator[str]:
    """URL of each way in turn."""
    way, _, name = request.param.partition("-")
    if way == "tls":
        yield request.getfixturevalue("tls_url") + "&"
    elif way == "cluster":
        cluster: Cluster = request.getfixturevalue("clusters")[name]
        cluster.heal()
        yield cluster.url("redis+cluster") + "?"
    elif way == "sentinel":
        watched: Watched = request.getfixturevalue("watched_masters")[name]
        watched.heal()
        yield watched.url("redis+sentinel") + "?"
    else:
        server: Server = request.getfixturevalue("fresh_server")(name)
        with acl_user(server, prefix, ">pw", f"~{{{prefix}}}:*", *RIGHTS):
            yield {
                "tcp": f"{server.url}?",
                "unix": f"unix://{server.socket_path}?",
                "limited": f"redis://{prefix}:pw@{server.host}:{server.port}?",
            }[way]


@pytest.fixture
def connection(open_connection: Open, url: str, protocol: int) -> AsyncConnection:
    """A connection of each driver and shell, on each way, in each version of the protocol."""
    return open_connection(f"{url}protocol={protocol}")


async def test_the_contract(connection: AsyncConnection, counting: str, prefix: str) -> None:
    """Scripts, batches, transactions, errors, bytes, blocking reads and twins are the same on every way."""
    key = f"{{{prefix}}}:n"
    assert await asyncio.gather(*(connection.send(run(counting, key, args=(1,))) for _ in range(20)))
    assert await connection.send(run(counting, key, args=(1,))) == 21

    batch = (run(counting, key, args=(1,)), command("HGET", key, "x"), command("GET", key))
    count, wrong, text = await connection.send_batch(Batch(requests=batch))
    assert (count, text) == (22, b"22")
    assert isinstance(wrong, ServerRefused)
    assert await connection.send_batch(Batch(requests=(batch[0], batch[2]), atomic=True)) == [23, b"23"]
    with pytest.raises(ServerRefused, match="WRONGTYPE"):
        await connection.send(command("HGET", key, "x"))

    name = f"{{{prefix}}}:ü"
    await connection.send(command("HSET", name, "é", "ü\0"))
    assert await connection.send(command("HGETALL", name)) == ["é".encode(), "ü\0".encode()]

    twin = connection.blocking_twin()
    assert await asyncio.to_thread(twin.send, command("GET", key)) == b"23"
    await asyncio.to_thread(twin.close)

    reader = connection.dedicated(name=f"reader-{prefix}")
    assert await reader.send(command("BLPOP", f"{{{prefix}}}:list", "0.05", block_ms=50)) is None
    reading = asyncio.ensure_future(reader.send(command("BLPOP", f"{{{prefix}}}:list", 10, block_ms=10_000)))
    await connection.send(command("RPUSH", f"{{{prefix}}}:list", "item"))
    assert await reading == [f"{{{prefix}}}:list".encode(), b"item"]
    assert b" name=reader-" in b" " + await reader.send(command("CLIENT", "INFO"))
    assert (await connection.server()).version
    await reader.close()
