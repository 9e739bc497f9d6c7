"""The contract of a connection on every way to a server: TCP, TLS, Unix socket, limited user, Sentinel, cluster."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from echomq.call import Batch
from echomq.driver import AsyncConnection, ConnectionSource
from echomq.errors import ServerRefused
from support.faults import acl_user, rights_of_its_age
from support.requests import command, run
from support.server_files import CHOSEN
from support.tls import Certificates, make_certificates, start_tls_server

if TYPE_CHECKING:
    from support.clusters import Cluster
    from support.sentinels import Watched
    from support.servers import Server

Open = Callable[[ConnectionSource], AsyncConnection]
RIGHTS = "+@read +@write +@scripting +@connection +@transaction +@blocking +time -@dangerous +info +client|info".split()  # noqa: SIM905
WAYS = [
    *(f"{way}-{server}" for way in ("tcp", "unix", "limited", "cluster") for server in CHOSEN),
    *(f"{way}-{CHOSEN[0]}" for way in ("sentinel", "tls")),
    *(pytest.param(f"{way}-{name}", marks=pytest.mark.heavy) for way in ("sentinel", "tls") for name in CHOSEN[1:]),
]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files for TLS."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def tls_urls(certificates: Certificates) -> Iterator[dict[str, str]]:
    """URLs of servers with TLS that want a certificate of their clients, by name, filled as they are asked for."""
    with contextlib.ExitStack() as started:
        yield TLSServers(certificates, started)


class TLSServers(dict[str, str]):
    """Starts them."""

    def __init__(self, certificates: Certificates, started: contextlib.ExitStack) -> None:
        """Note by which certificates, and who ends them."""
        super().__init__()
        self.certificates, self.started = certificates, started

    def __missing__(self, name: str) -> str:
        """Start one."""
        engine, port = start_tls_server(self.certificates, name=name)
        self.started.callback(engine.close)
        self[name] = f"rediss://localhost:{port}?{self.certificates.of_client()}"
        return self[name]


@pytest.fixture(params=WAYS)
def url(request: pytest.FixtureRequest, prefix: str) -> Iterator[str]:
    """URL of each way in turn."""
    way, _, name = request.param.partition("-")
    if way == "tls":
        yield request.getfixturevalue("tls_urls")[name] + "&"
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
        with acl_user(server, prefix, ">pw", f"~{{{prefix}}}:*", *RIGHTS, *rights_of_its_age(server)):
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
