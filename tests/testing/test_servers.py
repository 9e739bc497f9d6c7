"""Servers for tests, of each kind."""

import os

import pytest

import echomq.sync
from echomq import embedded, plugins
from echomq.errors import DriverError, UsageError
from echomq.registry import Drivers
from echomq_testing import start_server
from support.containers import IMAGES, engine_answers
from support.not_run import missing
from support.requests import command
from support.servers import Server


def round_trip(url: str) -> bytes:
    """Ask a server something."""
    connection = echomq.sync.connect(url)
    try:
        answer: bytes = connection.send(command("ECHO", "here"))
        return answer
    finally:
        connection.close()


@pytest.mark.parametrize("kind", ["memory", "embedded"])
def test_kinds(kind: str) -> None:
    """A server of each kind answers, in its block."""
    with start_server(kind) as server:
        assert (server.kind, server.is_memory) == (kind, kind == "memory")
        assert round_trip(server.url) == b"here"


def test_a_server_that_is_there(redis_server: Server) -> None:
    """A server that is named by its URL is used, and left running."""
    with start_server(redis_server.url) as server:
        assert (server.kind, server.url) == ("url", redis_server.url)

    assert round_trip(redis_server.url) == b"here"


def test_server_that_does_not_answer() -> None:
    """A URL where nobody answers is told when tests begin, and not once by each of them."""
    with pytest.raises(DriverError, match="refused"):
        start_server("redis://127.0.0.1:1?deadline_ms=200")


def test_url_of_memory() -> None:
    """Memory keeps to the clock of the test, whether it is named as a kind or by its URL."""
    with start_server("memory://") as server:
        assert (server.is_memory, server.url) == (True, "memory://")


def test_container() -> None:
    """A server in a container answers, where containers can be run."""
    if not engine_answers():
        missing("containers", "no container engine answers", required=False)
    image = os.environ.get("ECHOMQ_TEST_VALKEY_IMAGE") or IMAGES["valkey"]
    with start_server(f"container:{image}") as server:
        assert round_trip(server.url) == b"here"
    with pytest.raises(DriverError):
        round_trip(f"{server.url}?deadline_ms=500")


def test_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server is preferred; where none can be had, or no driver for it, queues are in memory."""
    with start_server() as server:
        assert server.kind == "embedded"

    memory = Drivers(working={"memory": plugins.installed_drivers().working["memory"]}, broken={})
    monkeypatch.setattr(plugins, "installed_drivers", lambda: memory)
    with pytest.raises(UsageError, match="echomq-valkey"):
        start_server("embedded")
    with start_server() as server:
        assert server.kind == "memory"

    monkeypatch.undo()
    monkeypatch.setenv("ECHOMQ_SERVER", "/no/such/file")
    monkeypatch.setattr(embedded, "_running", {})
    with start_server() as server:
        assert server.kind == "memory"


@pytest.mark.parametrize("kind", ["redis", "", "memories"])
def test_unknown_kind(kind: str) -> None:
    """Another kind is refused with those that there are."""
    with pytest.raises(UsageError, match="expected auto, memory, embedded, container or a URL"):
        start_server(kind)
