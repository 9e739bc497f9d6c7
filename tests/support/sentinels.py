"""A master with a replica, watched by three sentinels."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import redis

from support.clusters import ask, has_equal_replica, has_replica, wait_for
from support.proxy import Proxy, proxy_to
from support.server_files import ServerFile
from support.servers import START_TRIES, ServerProcess, free_port, needed_file, ping

__all__ = ["SERVICE", "SentinelProcess", "Watched", "start_lone_sentinel", "start_sentinels"]

SERVICE = "mq"
SENTINELS = 3
_HASTY_MS = 1_500
"""When a master counts as dead once one was killed: soon."""
_PATIENT_MS = 15_000
"""And before: a busy machine must not let a living one be replaced, whose further writes are lost then."""


@attrs.define(kw_only=True)
class SentinelProcess:
    """One sentinel.

    Attributes:
        file: The program.
        config: What its file of settings holds, but for the port.
        host: Address it listens on.
        port: TCP port.
        folder: Settings and log; removed by :meth:`close`.
    """

    file: ServerFile
    config: str
    host: str = "127.0.0.1"
    port: int = 0
    folder: Path = attrs.field(factory=lambda: Path(tempfile.mkdtemp(prefix="emq-")))
    _process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        """Start it on a free port."""
        for _ in range(START_TRIES):
            self.port = free_port()
            (self.folder / "s.conf").write_text(f"port {self.port}\nbind {self.host}\ndir {self.folder}\n{self.config}")
            with (self.folder / "log").open("wb") as log:
                command = [str(self.file.path), str(self.folder / "s.conf"), "--sentinel"]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            while self._process.poll() is None:
                if ping(self.host, self.port) and self._process.poll() is None:
                    return
                time.sleep(0.005)
        raise RuntimeError(f"{self.file.path} did not start:\n{(self.folder / 'log').read_text('utf-8', 'replace')}")

    def kill(self) -> None:
        """Crash it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        """End it and throw its folder away."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


@attrs.define(kw_only=True)
class Watched:
    """Two servers and their sentinels, and what tests do to them.

    Attributes:
        name: Kind of server, ``"redis"``.
        servers: Master and replica, whichever is which.
        sentinels: All three.
        proxies: In front of each server, if there are any; everybody but the tests uses them.
        down: Servers that were killed or hang.
        has_moods: Whether sentinels are patient until a server is killed; else all is as they were started.
    """

    name: str
    servers: list[ServerProcess]
    sentinels: list[SentinelProcess]
    has_moods: bool = False
    proxies: list[Proxy] = attrs.field(factory=list)
    down: list[ServerProcess] = attrs.field(factory=list)

    def url(self, scheme: str | None = None, user: str = "", db: int = 0, **options: object) -> str:
        """URL of all sentinels."""
        hosts = ",".join(f"{one.host}:{one.port}" for one in self.sentinels)
        query = "&".join(f"{name}={value}" for name, value in options.items())
        scheme = scheme or f"{self.name}+sentinel"
        return f"{scheme}://{user and f'{user}@'}{hosts}/{SERVICE}/{db}?{query}".rstrip("?")

    def master(self) -> ServerProcess:
        """Who is master, as the first sentinel sees it."""
        _, port = ask(self.sentinels[0], "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(server for server in self.servers if self.told_port(server) == int(port))

    def told_port(self, server: ServerProcess) -> int:
        """Where clients and sentinels are told to find a server."""
        return self.proxies[self.servers.index(server)].port if self.proxies else server.port

    def client(self, **settings: Any) -> redis.Redis:
        """Return a plain client of the master of this moment; close it after use."""
        master = self.master()
        return redis.Redis(master.host, master.port, **{"protocol": 2, **settings})

    def kill(self, server: ServerProcess) -> None:
        """Crash a server, once its replica has all that it acknowledged; see :meth:`Cluster.kill`."""
        self._hold_writes(server)
        server.kill()
        self.down.append(server)
        self._be(_HASTY_MS)

    def _be(self, down_after_ms: int) -> None:
        """Let sentinels take a server for dead after so long a silence."""
        for sentinel in self.sentinels if self.has_moods else ():
            ask(sentinel, "SENTINEL", "SET", SERVICE, "down-after-milliseconds", down_after_ms)

    def _hold_writes(self, server: ServerProcess) -> None:
        ask(server, "CLIENT", "PAUSE", 60_000, "WRITE")
        wait_for(lambda: has_equal_replica(server), "the replica caught up")

    def cut_off(self, server: ServerProcess) -> None:
        """Freeze a server; see :meth:`Cluster.cut_off`."""
        self._hold_writes(server)
        server.pause()
        self.down.append(server)
        self._be(_HASTY_MS)

    def heal(self) -> None:
        """Start what was killed again, as a replica at once, and wait until all is well."""
        for server in self.down:
            # Not sooner: it would come back as an empty master, whom clients of a late sentinel would believe.
            self._wait_for_another(server)
            if server.is_running:
                server.resume()
            else:
                server.start()
            self._demote(server)
        was_down = bool(self.down)
        self.down.clear()
        self._go_on()
        if was_down:
            self._be(_PATIENT_MS)

    def fail_over(self, master: ServerProcess) -> None:
        """Let the replica of a healthy master take its place, both in step."""
        # Until it is demoted, the old master would take writes that are lost.
        self._hold_writes(master)
        wait_for(lambda: bool(ask(self.sentinels[0], "SENTINEL", "FAILOVER", SERVICE)), "a sentinel begins a failover")
        self._wait_for_another(master)
        self._demote(master)
        self._go_on()

    def _wait_for_another(self, master: ServerProcess) -> None:
        for sentinel in self.sentinels:
            wait_for(partial(self._names_another, sentinel, master), f"sentinel {sentinel.port} has a new master")

    def _demote(self, server: ServerProcess) -> None:
        """Make a server replica at once; sentinels take ten seconds."""
        ask(server, "REPLICAOF", server.host, self.told_port(self.another(server)))

    def _go_on(self) -> None:
        for server in self.servers:
            ask(server, "CLIENT", "UNPAUSE")
        self.wait_until_well()

    def another(self, server: ServerProcess) -> ServerProcess:
        """The server that is not this one."""
        return next(one for one in self.servers if one is not server)

    def wait_until_well(self) -> None:
        """Wait until all sentinels agree on the master, and its replica follows it."""
        for sentinel in self.sentinels:
            wait_for(partial(self._agrees, sentinel), f"sentinel {sentinel.port} is well")
        wait_for(lambda: has_replica(self.master()), "the replica follows")

    def _names_another(self, sentinel: SentinelProcess, server: ServerProcess) -> bool:
        return int(ask(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1]) != self.told_port(server)

    def _agrees(self, sentinel: SentinelProcess) -> bool:
        told = ask(sentinel, "SENTINEL", "MASTER", SERVICE)
        seen = told if isinstance(told, dict) else dict(zip(told[::2], told[1::2], strict=True))
        others = int(seen["num-other-sentinels"]) == len(self.sentinels) - 1
        return others and int(seen["num-slaves"]) >= 1 and int(seen["port"]) == self.told_port(self.master())

    def close(self) -> None:
        """End all."""
        for sentinel in self.sentinels:
            sentinel.close()
        for server in self.servers:
            if server in self.down and server.is_running:
                server.resume()
            server.kill()
            server.close()


def start_sentinels(
    name: str, config: str = "", args: tuple[str, ...] = (), proxies: contextlib.ExitStack | None = None
) -> Watched:
    """Start a master, a replica and three sentinels; close them after use.

    Args:
        name: One of :data:`support.server_files.KINDS`.
        config: Further lines of the sentinels' settings.
        args: Further arguments of the servers.
        proxies: Put a proxy before each server, until the stack closes.
    """
    file = needed_file(name)
    has_moods = "down-after-milliseconds" not in config
    watched = Watched(name=name.partition("-")[0], servers=[], sentinels=[], has_moods=has_moods)
    try:
        for _ in range(2):
            watched.servers.append(ServerProcess(file=file, args=("--repl-diskless-sync-delay", "0", *args)))
            watched.servers[-1].start()
        if proxies is not None:
            _put_proxies(watched, proxies)
        master, replica = watched.servers
        told = watched.told_port(master)
        ask(replica, "REPLICAOF", master.host, told)
        watch = (
            f"sentinel monitor {SERVICE} {master.host} {told} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {_PATIENT_MS}\n"
            f"sentinel failover-timeout {SERVICE} 3000\nsentinel parallel-syncs {SERVICE} 1\n{config}\n"
        )
        for _ in range(SENTINELS):
            watched.sentinels.append(SentinelProcess(file=file, config=watch))
            watched.sentinels[-1].start()
        watched.wait_until_well()
    except BaseException:
        watched.close()
        raise
    return watched


def _put_proxies(watched: Watched, proxies: contextlib.ExitStack) -> None:
    for server in watched.servers:
        watched.proxies.append(proxies.enter_context(proxy_to(server.host, server.port)))
        port = watched.proxies[-1].port
        server.args += ("--replica-announce-port", str(port))
        ask(server, "CONFIG", "SET", "replica-announce-port", port)


def start_lone_sentinel(file: ServerFile, config: str) -> SentinelProcess:
    """Start one sentinel with settings of the test's own; close it after use."""
    sentinel = SentinelProcess(file=file, config=config)
    try:
        sentinel.start()
    except BaseException:
        sentinel.close()
        raise
    return sentinel
