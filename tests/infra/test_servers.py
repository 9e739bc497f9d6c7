"""The servers that tests get are real, their own, and survive what tests do to them."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from support.containers import ContainerServer, engine_answers
from support.limits import DEADLINE_S
from support.not_run import missing
from support.servers import Server, Servers, ping

TESTS = Path(__file__).parents[1]


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


def test_servers_end_with_the_tests(tmp_path: Path) -> None:
    """Who ends a run of tests by SIGTERM, as a limit of time does, leaves no server behind."""
    (tmp_path / "test_waits.py").write_text(
        "import time\n"
        "def test_waits(redis_server):\n"
        "    print('PORT', redis_server.port, flush=True)\n"
        f"    time.sleep({DEADLINE_S})\n"
    )
    command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "-p", "conftest", "test_waits.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        assert run.stdout is not None
        port = next(int(line.split()[-1]) for line in run.stdout if "PORT" in line)
        assert ping("127.0.0.1", port)
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=DEADLINE_S)

    assert not ping("127.0.0.1", port)
