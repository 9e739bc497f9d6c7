"""The servers that tests get are real, their own, and survive what tests do to them."""

import contextlib

import pytest
import redis

from support.containers import ContainerServer, engine_answers
from support.not_run import missing
from support.servers import Server, Servers, ping


def test_server_is_fresh(server: Server) -> None:
    """A test gets a running server of the asked family with nothing in it."""
    with contextlib.closing(server.client()) as client:
        info = client.info("server")

        assert client.dbsize() == 0
        assert ("valkey_version" in info) == (server.family == "valkey")


def test_server_comes_back_after_a_crash(servers: Servers) -> None:
    """Acknowledged writes survive a killed server that writes its log, on the same port."""
    server = servers.start("redis", aof=True)
    with contextlib.closing(server.client()) as client:
        client.set("kept", "1")
    port = server.port

    server.kill()
    assert not ping(server.host, port)
    server.restart()

    assert port == server.port
    with contextlib.closing(server.client()) as client:
        assert client.get("kept") == b"1"


def test_paused_server_answers_later(servers: Servers) -> None:
    """A paused server leaves a request open until it is resumed."""
    server = servers.start("valkey")
    with contextlib.closing(server.client(socket_timeout=0.2, retry=None)) as client:
        client.ping()

        server.pause()
        with pytest.raises(redis.TimeoutError):
            client.ping()
        server.resume()

        assert client.ping()


def test_server_takes_arguments(servers: Servers) -> None:
    """Arguments of a test reach its server."""
    server = servers.start("valkey", args=("--maxmemory", "3mb"))

    with contextlib.closing(server.client()) as client:
        assert str(3 << 20) == client.config_get("maxmemory")["maxmemory"]


def test_server_listens_on_a_unix_socket(servers: Servers) -> None:
    """A server that was started from a file listens on a unix socket too."""
    server = servers.start("redis")

    with contextlib.closing(redis.Redis(unix_socket_path=str(server.socket_path))) as client:
        assert client.ping()


def test_container_engine_is_used_where_it_answers(server: Server) -> None:
    """Tests share servers in containers where an engine answers."""
    if not engine_answers():
        missing("containers", "no container engine answers; nox -s containers brings one", required=False)

    assert isinstance(server.engine, ContainerServer)


def test_shared_server_is_healed(server: Server, shared_servers: dict[str, Server]) -> None:
    """A server that a test crashed and filled is running and empty for the next test."""
    with contextlib.closing(server.client()) as client:
        client.set("left", "1")
    server.kill()

    shared_servers[server.name].heal()

    with contextlib.closing(server.client()) as client:
        assert not client.dbsize()
