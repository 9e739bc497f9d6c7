"""What each test of a driver runs on: every driver, both shells, both versions of the protocol.

``ECHOMQ_TEST_DRIVERS=mine`` runs the suite on a driver of yours; see
``docs/driver-guide.md``.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator

import attrs
import pytest

from echomq import plugins, scripts
from echomq.address import parse_url
from echomq.driver import AsyncConnection, ConnectionOptions, ConnectionSource
from support.proxy import Proxy, proxy_to
from support.servers import Server
from support.threaded import Threaded

DRIVERS = os.environ.get("ECHOMQ_TEST_DRIVERS", "redis,valkey").split(",")

Open = Callable[[ConnectionSource], AsyncConnection]
"""Opens a connection with the driver and the shell under test; the test need not close it."""


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """Name of each driver in turn."""
    return str(request.param)


@pytest.fixture(params=["asyncio", "blocking"])
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of connection in turn."""
    return str(request.param)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request: pytest.FixtureRequest) -> int:
    """Each version of the protocol in turn."""
    return int(request.param)


@pytest.fixture
async def open_connection(driver: str, shell: str) -> AsyncIterator[Open]:
    """Opens connections; closes them after the test."""
    opened: list[AsyncConnection] = []

    def open_connection(source: ConnectionSource) -> AsyncConnection:
        if shell == "blocking":
            opened.append(Threaded(plugins.connect(source, driver=driver)))
        else:
            opened.append(plugins.connect_async(source, driver=driver))
        return opened[-1]

    yield open_connection
    for connection in opened:
        await connection.close()


@pytest.fixture
def options(server: Server, protocol: int) -> ConnectionOptions:
    """Options for each server with each version of the protocol."""
    return attrs.evolve(parse_url(server.url), protocol=protocol)


@pytest.fixture
def connection(open_connection: Open, options: ConnectionOptions) -> AsyncConnection:
    """A connection of each kind, on each driver, to each server, with each version of the protocol."""
    return open_connection(options)


@pytest.fixture
def proxy(redis_server: Server) -> Iterator[Proxy]:
    """A proxy to Redis that breaks what passes through it."""
    with proxy_to(redis_server.host, redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def add_script(monkeypatch: pytest.MonkeyPatch, prefix: str) -> Callable[[str, int], str]:
    """Makes a script of the test's own known to EchoMQ, and to no server; returns its name."""

    def add(body: str, key_count: int) -> str:
        text = f"-- {prefix}\n{body}\n"
        sha1 = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        script = scripts.Script(name=f"test{len(body)}", key_count=key_count, text=text, sha1=sha1)
        monkeypatch.setitem(scripts._installed(), script.name, script)
        return script.name

    return add


@pytest.fixture
def counting(add_script: Callable[[str, int], str]) -> str:
    """A script that counts its runs in its one key and returns the count."""
    return add_script("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1)
