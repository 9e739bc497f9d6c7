"""The ways to say where a server is: URLs, options, ready clients; over TCP, TLS and Unix sockets."""

import asyncio
import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import uvloop
import valkey
import valkey.asyncio

from echomq import plugins
from echomq.address import parse_url
from echomq.driver import AsyncConnection, ConnectionOptions, TLSOptions
from echomq.errors import ConnectionLost, UsageError
from support.faults import acl_user
from support.limits import DEADLINE_S, at_once
from support.requests import command, run
from support.servers import Server, ServerProcess
from support.tls import Certificates, make_certificates, start_tls_server

Open = Callable[[Any], AsyncConnection]

CLIENTS: dict[str, tuple[type, type]] = {
    "redis": (redis.Redis, redis.asyncio.Redis),
    "valkey": (valkey.Valkey, valkey.asyncio.Valkey),
}
"""Blocking and asyncio client of each driver's library. A driver of yours has its own tests for these."""


@pytest.fixture(params=[False, True], ids=["raw", "decoding"])
def decoding(request: pytest.FixtureRequest) -> bool:
    """Whether the user's client decodes replies."""
    return bool(request.param)


@pytest.fixture(params=[0, 1], ids=["blocking-client", "asyncio-client"])
def client_class(request: pytest.FixtureRequest, driver: str) -> type:
    """Each flavour of the driver's client in turn."""
    if driver not in CLIENTS:
        pytest.skip(f"the suite knows no client of {driver}")
    return CLIENTS[driver][request.param]


async def close_client(client: Any) -> None:
    """Close a user's client of either flavour."""
    if hasattr(client, "aclose"):
        await client.aclose()
    else:
        client.close()


async def ask(client: Any, *parts: str) -> Any:
    """Use a user's client of either flavour."""
    reply = client.execute_command(*parts)
    return await reply if asyncio.iscoroutine(reply) else reply


@pytest.mark.parametrize("protocol", [2, 3])
async def test_ready_client(
    open_connection: Open,
    client_class: type,
    server: Server,
    counting: str,
    prefix: str,
    protocol: int,
    *,
    decoding: bool,
) -> None:
    """A ready client of either flavour, decoding or not, gives either kind of connection; replies stay raw."""
    client = client_class(host=server.host, port=server.port, db=3, decode_responses=decoding, protocol=protocol)
    connection = open_connection(client)
    await connection.send(command("HSET", prefix, "é", "ü"))

    assert ["é".encode(), "ü".encode()] == await connection.send(command("HGETALL", prefix))
    assert await connection.send(run(counting, f"{prefix}:n", args=(1,))) == 1
    twin = connection.blocking_twin()
    assert await asyncio.to_thread(twin.send, command("GET", f"{prefix}:n")) == b"1"
    await asyncio.to_thread(twin.close)
    await connection.close()
    assert await ask(client, "GET", f"{prefix}:n") in {"1", b"1"}, "the user's client was closed or pointed elsewhere"
    await close_client(client)


async def test_client_is_only_read(open_connection: Open, client_class: type, server: Server, prefix: str) -> None:
    """A ready client's pool lends no connection, and its socket timeout does not break blocking reads."""
    client: Any = client_class(host=server.host, port=server.port, socket_timeout=0.1, max_connections=1)
    connection = open_connection(client)
    assert await connection.send(command("BLPOP", prefix, 0.3, block_ms=300)) is None
    assert not client.connection_pool._available_connections
    await connection.close()
    await close_client(client)


async def test_ready_client_from_url(open_connection: Open, client_class: Any, server: Server, driver: str) -> None:
    """A client made from a URL serves as well as one made from arguments."""
    client = client_class.from_url(f"{server.url_as(driver)}/2?decode_responses=True")
    connection = open_connection(client)
    own = (await connection.send(command("CLIENT", "INFO"))).decode()

    assert " db=2 " in own
    await close_client(client)


async def test_ready_client_by_itself(server: Server, client_class: Any) -> None:
    """The driver of a ready client is found without being named."""
    client = client_class(host=server.host, port=server.port)
    connection = plugins.connect_async(client)
    assert await connection.send(command("PING")) == b"PONG"
    await connection.close()
    await close_client(client)


async def test_ready_client_on_a_socket(open_connection: Open, client_class: Any, redis_server: Server) -> None:
    """A client of a Unix socket serves too."""
    client = client_class(unix_socket_path=str(redis_server.socket_path))
    assert await open_connection(client).send(command("PING")) == b"PONG"
    await close_client(client)


@pytest.mark.parametrize("library", ["redis", "valkey"])
def test_client_of_replicas_is_refused(library: str) -> None:
    """A Sentinel client that reads from replicas is refused with advice."""
    sentinel = importlib.import_module(f"{library}.sentinel").Sentinel([("127.0.0.1", 1)])
    with pytest.raises(UsageError, match=r"pass master_for\(\)"):
        plugins.connect(sentinel.slave_for("mq"), driver=library)


def test_foreign_object_is_refused(driver: str) -> None:
    """What is no client at all is refused with what was expected."""
    with pytest.raises(UsageError, match="cannot be used: expected"):
        plugins.connect(object(), driver=driver)


async def test_options(open_connection: Open, server: Server, prefix: str) -> None:
    """Options name a server without a URL."""
    connection = open_connection(ConnectionOptions(host=server.host, port=server.port, db=5))
    await connection.send(command("SET", prefix, 1))
    with contextlib.closing(server.client(db=5)) as client:
        assert client.get(prefix) == b"1"


@pytest.mark.parametrize(
    "url", ["{redis}", "{redis}/4", "{redis}?db=4", "{redis}/4?protocol=3&deadline_ms=5000", "{valkey}/4"]
)
async def test_url(open_connection: Open, server: Server, url: str) -> None:
    """Each form of URL reaches its database through each driver."""
    connection = open_connection(url.format(redis=server.url_as("redis"), valkey=server.url_as("valkey")))
    own = (await connection.send(command("CLIENT", "INFO"))).decode()

    assert (" db=4 " if "4" in url else " db=0 ") in own
    hello = await connection.send(command("HELLO"))
    assert hello[hello.index(b"proto") + 1] == (3 if "protocol=3" in url else 2)


async def test_user_and_password(open_connection: Open, server: Server) -> None:
    """User and password of a URL are decoded and sent, with either version of the protocol."""
    with acl_user(server, "ada@home", ">p@ss/w:rd#1", "~*", "+@all"):
        for protocol in (2, 3):
            url = server.url.replace("://", "://ada%40home:p%40ss%2Fw%3Ard%231@") + f"?protocol={protocol}"
            assert await open_connection(url).send(command("ACL", "WHOAMI")) == b"ada@home"


@pytest.mark.parametrize("protocol", [2, 3])
async def test_unix_socket(open_connection: Open, server: Server, prefix: str, protocol: int) -> None:
    """A Unix socket serves like TCP."""
    connection = open_connection(f"unix://{server.socket_path}?db=6&protocol={protocol}")
    await connection.send(command("SET", prefix, 1))
    with contextlib.closing(server.client(db=6)) as client:
        assert client.get(prefix) == b"1"


async def test_missing_socket(open_connection: Open) -> None:
    """A socket that does not exist is named."""
    with pytest.raises(ConnectionLost, match="/no/such/socket"):
        await open_connection("unix:///no/such/socket?deadline_ms=200").send(command("PING"))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Files for TLS."""
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_server(certificates: Certificates) -> Iterator[tuple[ServerProcess, int]]:
    """A Redis with TLS, and its port."""
    engine, port = start_tls_server(certificates)
    yield engine, port
    engine.close()


def tls_url(port: int, certificates: Certificates, **changes: str) -> str:
    """URL with all files of a client."""
    options = {
        "ssl_ca_certs": str(certificates.ca),
        "ssl_certfile": str(certificates.client),
        "ssl_keyfile": str(certificates.client_key),
        **changes,
    }
    return f"rediss://localhost:{port}?" + "&".join(f"{name}={value}" for name, value in options.items() if value)


@pytest.mark.parametrize("protocol", [2, 3])
async def test_tls(
    open_connection: Open, tls_server: tuple[ServerProcess, int], certificates: Certificates, prefix: str, protocol: int
) -> None:
    """TLS with certificates on both sides serves many calls and large ones."""
    connection = open_connection(tls_url(tls_server[1], certificates, protocol=str(protocol)))
    calls = [connection.send(command("ECHO", f"{prefix}{n}")) for n in range(200)]
    assert [f"{prefix}{n}".encode() for n in range(200)] == await asyncio.gather(*calls)
    block = b"x" * 1_000_000
    assert block == await connection.send(command("ECHO", block))


async def test_tls_uvloop(driver: str, tls_server: tuple[ServerProcess, int], certificates: Certificates) -> None:
    """TLS works on uvloop too."""

    async def work() -> Any:
        connection = plugins.connect_async(tls_url(tls_server[1], certificates), driver=driver)
        replies = await asyncio.gather(*(connection.send(command("ECHO", n)) for n in range(100)))
        await connection.close()
        return replies

    def in_thread() -> Any:
        loop = uvloop.new_event_loop()
        try:
            return loop.run_until_complete(work())
        finally:
            loop.close()

    assert [str(n).encode() for n in range(100)] == await asyncio.to_thread(in_thread)


async def test_tls_blocking_read_is_closed(
    open_connection: Open, tls_server: tuple[ServerProcess, int], certificates: Certificates, prefix: str
) -> None:
    """Closing ends a blocking read over TLS at once."""
    reader = open_connection(tls_url(tls_server[1], certificates)).dedicated(name=prefix)
    await reader.send(command("PING"))
    reading = asyncio.ensure_future(reader.send(command("BLPOP", prefix, 30, block_ms=30_000)))
    await asyncio.sleep(0.05)
    with at_once():
        await reader.close()
        with pytest.raises(ConnectionLost):
            await reading


async def test_tls_without_trust(
    open_connection: Open, tls_server: tuple[ServerProcess, int], certificates: Certificates
) -> None:
    """A certificate that is not trusted ends the attempt at once, and says so; verification can be given up."""
    connection = open_connection(tls_url(tls_server[1], certificates, ssl_ca_certs="", deadline_ms="60000"))
    with pytest.raises(ConnectionLost, match=r"(?i)certificate verify failed"):
        await asyncio.wait_for(connection.send(command("PING")), DEADLINE_S / 2)

    blind = open_connection(tls_url(tls_server[1], certificates, ssl_ca_certs="", ssl_cert_reqs="none"))
    assert await blind.send(command("PING")) == b"PONG"


async def test_tls_options(
    open_connection: Open, tls_server: tuple[ServerProcess, int], certificates: Certificates
) -> None:
    """Options name the files for TLS as a URL does."""
    tls = TLSOptions(
        ca_file=str(certificates.ca), cert_file=str(certificates.client), key_file=str(certificates.client_key)
    )
    options = ConnectionOptions(scheme="rediss", host="localhost", port=tls_server[1], tls=tls)

    assert options == parse_url(tls_url(tls_server[1], certificates))
    assert await open_connection(options).send(command("PING")) == b"PONG"


async def test_tls_client(
    open_connection: Open, client_class: Any, tls_server: tuple[ServerProcess, int], certificates: Certificates
) -> None:
    """A ready client with TLS of either flavour gives either kind of connection."""
    client = client_class(
        host="localhost",
        port=tls_server[1],
        ssl=True,
        ssl_ca_certs=str(certificates.ca),
        ssl_certfile=str(certificates.client),
        ssl_keyfile=str(certificates.client_key),
    )
    assert await open_connection(client).send(command("PING")) == b"PONG"
    await close_client(client)


async def test_plain_port_as_tls(open_connection: Open, redis_server: Server) -> None:
    """TLS to a server that does not speak it fails within the deadline, with the address."""
    connection = open_connection(f"rediss://127.0.0.1:{redis_server.port}?deadline_ms=300")
    with pytest.raises(ConnectionLost, match=str(redis_server.port)):
        await connection.send(command("PING"))


async def test_without_the_c_library(
    open_connection: Open, server: Server, driver: str, counting: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the client's C library has no wheel, the driver works with the core's own parser."""
    library = {"redis": "hiredis", "valkey": "libvalkey"}.get(driver)
    if library is None:
        pytest.skip(f"the suite knows no C library of {driver}")
    monkeypatch.setattr(f"echomq_{driver}.settings.{library}", None)
    connection = open_connection(server.url)
    calls = [connection.send(run(counting, prefix, args=(1,))) for _ in range(100)]

    assert set(await asyncio.gather(*calls)) == set(range(1, 101))
    block = b"x" * 1_000_000
    assert await connection.send(command("ECHO", block)) == block
