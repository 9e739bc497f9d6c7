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
from support.server_files import CHOSEN
from support.servers import Server
from support.threaded import Threaded

DRIVERS = os.environ.get("ECHOMQ_TEST_DRIVERS", "redis,valkey,memory").split(",")
SERVERS = [*CHOSEN, *(["memory"] if "memory" in DRIVERS else [])]
"""The last one is no server to the others, and the others are none to its driver."""

NEEDS_A_NETWORK = {"proxy", "servers", "tls_server", "certificates", "client_class", "url"}
"""Fixtures of tests that the driver of ``memory://`` is not for."""

NOT_IN_MEMORY = {
    "test_atomic_without_memory": "it has no limit of memory",
    "test_atomic_where_multi_is_forbidden": "every client may do everything",
    "test_no_permission": "every client may do everything",
    "test_user_and_password": "every client may do everything",
    "test_read_only_replica": "it has no replicas",
    "test_busy_script": "a script ends before anything else begins",
    "test_push_messages_are_ignored": "it pushes none",
    "test_fork": "it stays in its process",
    **dict.fromkeys(["test_options", "test_unix_socket", "test_wrong_database"], "it has neither host, port nor path"),
    "test_plain_port_as_tls": "it has no port",
    "test_without_the_c_library": "it needs none",
}
"""Other tests it is not for, and why."""

Open = Callable[[ConnectionSource], AsyncConnection]
"""Opens a connection with the driver and the shell under test; the test need not close it."""


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    """Name of each driver in turn."""
    return str(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what goes together with no server, or with no network."""
    misfits = [item for item in items if isinstance(item, pytest.Function) and _is_misfit(item)]
    config.hook.pytest_deselected(items=misfits)
    items[:] = [item for item in items if item not in misfits]


def _is_misfit(item: pytest.Function) -> bool:
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    is_memory = chosen.get("driver") == "memory"
    if "server" in chosen and (chosen["server"] == "memory") != is_memory:
        return "driver" in chosen or chosen["server"] == "memory"
    if not is_memory:
        return False
    names = set(item.fixturenames)
    # What runs without a server tries one that is away, by its address.
    return item.originalname in NOT_IN_MEMORY or bool(names & NEEDS_A_NETWORK) or not names & {"server", "redis_server"}


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest, fresh_server: Callable[[str], Server]) -> Server:
    """A running, empty server of each kind in turn; the one in memory for its driver."""
    return fresh_server(request.param)


@pytest.fixture
def redis_server(request: pytest.FixtureRequest, fresh_server: Callable[[str], Server]) -> Server:
    """A running, empty Redis; in its place a server in memory for the driver of those."""
    is_memory = "driver" in request.fixturenames and request.getfixturevalue("driver") == "memory"
    return fresh_server("memory" if is_memory else "redis")


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
