"""Real servers for tests: each on a free port of its own, ended by its own process id.

Where a shared server comes from, in this order: a URL in the environment
(``ECHOMQ_TEST_REDIS_URL``, ``ECHOMQ_TEST_VALKEY_URL``), a container where an
engine answers, a server file (:mod:`support.server_files`). A server that a
test starts for itself (:meth:`Servers.start`) always comes from a server file,
since such tests kill, stop and restart it.
"""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import attrs
import redis

from support.not_run import missing
from support.server_files import KINDS, TIER_1, ServerFile, find_server_file

__all__ = ["Server", "ServerProcess", "Servers", "given_url", "needed_file", "ping", "wait_until_ready"]

READY_WITHIN_S = 60.0
PORT_SHARES = 8
"""Every so many ports are one process's of those that test side by side."""
START_TRIES = 20
_GIVEN: deque[int] = deque(maxlen=1_000)
"""Ports that this process chose last."""


class Engine(Protocol):
    """Whatever runs a server: a process, a container, or somebody else."""

    host: str
    port: int

    def start(self) -> None:
        """Start it, on the same port as before if it ran already, and wait until it answers."""
        ...

    def stop(self) -> None:
        """End it as an administrator would; its data stays."""
        ...

    def kill(self) -> None:
        """End it at once, as a crash would; its data stays as far as it was written."""
        ...

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        ...

    def resume(self) -> None:
        """Let a frozen server go on."""
        ...

    def close(self) -> None:
        """End it and throw its data away."""
        ...


@attrs.define(kw_only=True)
class Server:
    """A running server and what tests do to it.

    Attributes:
        name: One of :data:`support.server_files.KINDS`.
        engine: What runs it.
        running: False after :meth:`kill` or :meth:`stop`.
        paused: True between :meth:`pause` and :meth:`resume`.
    """

    name: str
    engine: Engine
    running: bool = True
    paused: bool = False

    @property
    def host(self) -> str:
        """Address it listens on."""
        return self.engine.host

    @property
    def port(self) -> int:
        """TCP port it listens on."""
        return self.engine.port

    @property
    def family(self) -> str:
        """``"redis"`` or ``"valkey"``."""
        return KINDS[self.name].family

    @property
    def url(self) -> str:
        """URL that every client understands, of Redis and Valkey alike."""
        return self.url_as("redis")

    def url_as(self, scheme: str) -> str:
        """URL with another scheme, ``"valkey"``."""
        return f"{scheme}://{self.host}:{self.port}"

    @property
    def socket_path(self) -> Path:
        """Unix socket it listens on too; only a server started from a file has one."""
        if not isinstance(self.engine, ServerProcess):
            missing("unix socket", f"{self.name} was not started from a server file", required=False)
        return self.engine.socket_path

    def client(self, **settings: Any) -> redis.Redis:
        """Return a new plain client: RESP2 and bytes unless told otherwise; close it after use."""
        return redis.Redis(self.host, self.port, **{"protocol": 2, **settings})

    def flush(self) -> None:
        """Empty it."""
        with contextlib.closing(self.client()) as client:
            client.flushall()

    def kill(self) -> None:
        """Crash it."""
        self.engine.kill()
        self.running = self.paused = False

    def stop(self) -> None:
        """Shut it down in an orderly way."""
        self.resume()
        self.engine.stop()
        self.running = False

    def restart(self) -> None:
        """Start it again on the same port, after an orderly stop if it still runs."""
        if self.running:
            self.stop()
        self.engine.start()
        self.running = True

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        self.engine.pause()
        self.paused = True

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        if self.paused:
            self.engine.resume()
        self.paused = False

    def heal(self) -> None:
        """Make it fit for the next test: running, not frozen, empty."""
        self.resume()
        if not self.running:
            self.restart()
        self.flush()

    def close(self) -> None:
        """End it for good."""
        self.resume()
        self.engine.close()
        self.running = False


def needed_file(name: str) -> ServerFile:
    """Return the program of a server; skips the test where there is none, or fails it in CI if it must be there."""
    file = find_server_file(name)
    if isinstance(file, str):
        missing(name, file, required=name in TIER_1)
    return file


def ping(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Tell whether a server answers PING with PONG (or asks for a password first)."""
    try:
        with socket.create_connection((host, port), timeout_s) as link:
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False


def free_port() -> int:
    """Return a port above 20000 that was free a moment ago, and that no other process of this run chooses."""
    # The next port is nobody's, for what listens on two.
    own = 2 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % PORT_SHARES
    while True:
        port = random.randrange(20_000 + own, 32_000, PORT_SHARES)
        if port in _GIVEN:  # of a server that is about to start, or is down and comes back
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _GIVEN.append(port)
            return port


@attrs.define(kw_only=True)
class ServerProcess:
    """A server started from a file, in a folder of its own.

    Attributes:
        file: The program.
        aof: True writes each change to disk before it is acknowledged.
        args: Further arguments of the program.
        host: Address it listens on.
        port: TCP port; chosen by the first start, kept afterwards.
        folder: Data, socket and log; removed by :meth:`close`.
    """

    file: ServerFile
    aof: bool = False
    args: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    folder: Path = attrs.field(factory=lambda: Path(tempfile.mkdtemp(prefix="emq-")))
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def socket_path(self) -> Path:
        """Unix socket it listens on."""
        return self.folder / "s"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """False before the first start, and after its end by :meth:`kill` or :meth:`stop`."""
        return self._process is not None

    def start(self) -> None:
        """See :meth:`Engine.start`; a port that was taken meanwhile is replaced by another, the first time."""
        chosen = self.port
        for _ in range(START_TRIES):
            self.port = chosen or free_port()
            if self._started():
                return
        raise RuntimeError(f"{self.file.path} did not start:\n{self.log()}")

    def log(self) -> str:
        """Return what the server logged so far."""
        path = self.folder / "log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def stop(self) -> None:
        """See :meth:`Engine.stop`."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """See :meth:`Engine.kill`."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """See :meth:`Engine.pause`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """See :meth:`Engine.resume`."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """See :meth:`Engine.close`."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _command(self) -> list[str]:
        listen = ["--port", str(self.port), "--bind", self.host, "--unixsocket", str(self.socket_path)]
        durable = ["--appendonly", "yes", "--appendfsync", "always"] if self.aof else ["--appendonly", "no"]
        debug = ["--enable-debug-command", "local"] if self.file.version >= (7, 0) else []
        return [str(self.file.path), *listen, "--save", "", "--dir", str(self.folder), *durable, *debug, *self.args]

    def _started(self) -> bool:
        """Start the program once; False if it ended before it answered."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while self._process.poll() is None:
            # Another server may own the port: ours has it only if it is still alive after the answer.
            if ping(self.host, self.port) and self._process.poll() is None and self._listens():
                return True
            if time.monotonic() > deadline:
                self.kill()
            time.sleep(0.005)
        return False

    def _listens(self) -> bool:
        """Tell by its log that it was this server that answered, not a stranger on the port."""
        return "eady to accept connections" in self.log()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@attrs.define(kw_only=True)
class OutsideServer:
    """A server that somebody else runs; tests that must stop it are skipped."""

    host: str
    port: int

    def start(self) -> None:
        """See :meth:`Engine.start`."""
        self._refuse()

    def stop(self) -> None:
        """See :meth:`Engine.stop`."""
        self._refuse()

    def kill(self) -> None:
        """See :meth:`Engine.kill`."""
        self._refuse()

    def pause(self) -> None:
        """See :meth:`Engine.pause`."""
        self._refuse()

    def resume(self) -> None:
        """See :meth:`Engine.resume`."""
        self._refuse()

    def close(self) -> None:
        """Leave it alone."""

    def _refuse(self) -> None:
        missing("server faults", f"the server at {self.host}:{self.port} is not ours to stop", required=False)


def wait_until_ready(host: str, port: int, timeout_s: float = READY_WITHIN_S) -> None:
    """Wait until a server answers.

    Raises:
        TimeoutError: It did not in time.
    """
    deadline = time.monotonic() + timeout_s
    while not ping(host, port):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no server answers at {host}:{port} after {timeout_s} s")
        time.sleep(0.01)


@attrs.define
class Servers:
    """Starts servers and ends all of them with :meth:`close`."""

    _started: list[Server] = attrs.field(factory=list)

    def shared(self, name: str) -> Server:
        """Return a server that tests share, from the first source that has one."""
        if name == "memory":
            from support.memory import start_memory_server  # imports a driver, so only when asked

            return self._keep(start_memory_server())
        engine = _outside(name) or _container(name)
        if engine is None:
            return self.start(name)
        return self._keep(Server(name=name, engine=engine))

    def start(self, name: str, *, aof: bool = False, args: tuple[str, ...] = ()) -> Server:
        """Start a server of one's own from a server file.

        Args:
            name: One of :data:`support.server_files.KINDS`.
            aof: True writes each change to disk before it is acknowledged.
            args: Further arguments of the program, ``("--maxmemory", "2mb")``.
        """
        engine = ServerProcess(file=needed_file(name), aof=aof, args=args)
        try:
            engine.start()
        except BaseException:
            engine.close()
            raise
        return self._keep(Server(name=name, engine=engine))

    def close(self) -> None:
        """End all, the last one first."""
        while self._started:
            self._started.pop().close()

    def _keep(self, server: Server) -> Server:
        self._started.append(server)
        return server


def given_url(name: str) -> str | None:
    """Return the URL of a server that was started outside of the tests and given to them."""
    return os.environ.get(f"ECHOMQ_TEST_{name.upper()}_URL") or None


def _outside(name: str) -> Engine | None:
    url = given_url(name)
    if not url:
        return None
    where = urlsplit(url)
    engine = OutsideServer(host=where.hostname or "127.0.0.1", port=where.port or 6379)
    wait_until_ready(engine.host, engine.port)
    return engine


def _container(name: str) -> Engine | None:
    from support.containers import start_container  # imports a container library, so only when asked

    return start_container(name)


@contextlib.contextmanager
def started(name: str, *, aof: bool = False, args: tuple[str, ...] = ()) -> Iterator[Server]:
    """Start one server from a file for the length of a ``with`` block."""
    with contextlib.closing(Servers()) as servers:
        yield servers.start(name, aof=aof, args=args)
