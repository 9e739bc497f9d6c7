"""Fixtures all tests share: real servers, fresh prefixes, and the list of what could not run."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from uuid import uuid4

import pytest

from support.not_run import MISSING, pytest_sessionfinish, pytest_testnodedown
from support.server_files import CHOSEN
from support.servers import Server, Servers, given_url
from support.topologies import clusters, watched_masters

os.environ.setdefault("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "echomq")  # tests of telemetry register their own

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background so, and programs that tests start would never hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends the tests ends their servers with them

__all__ = ["clusters", "pytest_sessionfinish", "pytest_testnodedown", "watched_masters"]


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[dict[str, Server]]:
    """Servers that tests share, filled as they are asked for."""
    started: dict[str, Server] = {}
    yield started
    for server in started.values():
        server.close()


def _fresh(name: str, shared: dict[str, Server]) -> Server:
    if name not in shared:
        shared[name] = Servers().shared(name)
    shared[name].heal()
    return shared[name]


@pytest.fixture
def redis_server(shared_servers: dict[str, Server]) -> Server:
    """A running, empty Redis."""
    return _fresh("redis", shared_servers)


@pytest.fixture
def valkey_server(shared_servers: dict[str, Server]) -> Server:
    """A running, empty Valkey."""
    return _fresh("valkey", shared_servers)


@pytest.fixture
def fresh_server(shared_servers: dict[str, Server]) -> Callable[[str], Server]:
    """Gives a running, empty server by its name."""
    return partial(_fresh, shared=shared_servers)


@pytest.fixture(params=CHOSEN)
def server(request: pytest.FixtureRequest, fresh_server: Callable[[str], Server]) -> Server:
    """A running, empty server of each kind in turn."""
    return fresh_server(request.param)


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Starts servers of the test's own: ``servers.start("valkey", aof=True)``; ends them after the test."""
    with contextlib.closing(Servers()) as started:
        yield started


@pytest.fixture
def prefix() -> str:
    """A prefix of keys that no other test uses."""
    return f"t{uuid4().hex[:10]}"


def pytest_xdist_auto_num_workers() -> int | None:
    """Use one process where a server is given by URL: each process empties the servers it uses."""
    return 1 if any(map(given_url, CHOSEN)) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what this machine could not run."""
    if MISSING:
        terminalreporter.section("Not run here")
        for part, reason in MISSING.items():
            terminalreporter.write_line(f"Not run here: {part} ({reason})")
