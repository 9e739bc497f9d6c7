"""The folder of an embedded server: how processes meet there, start it once and leave it.

All agreement is by locks of the operating system on files of the folder, which end
with the process that holds them, so that nothing is ever stale:

* ``start.lock``: whoever looks for the server and may start it, one at a time.
* ``users.lock``: each user, shared, for as long as it uses the server.
* ``guard.lock``: the guard, while its server may be running.

``address`` holds the path of the socket while the server runs. A lock that a forked
child inherited is one with its parent's and is only ever closed, never unlocked, so
the end of a child takes nothing from its parent.

Source: design.md section 2.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from .errors import DriverError, UsageError

__all__ = ["ServerFolder"]

PATIENCE_S = 90.0
"""Longest wait for another process that starts or stops the server, and for our own start."""

ANSWER_WITHIN_S = 30.0
POLL_S = 0.005
LONGEST_SOCKET_PATH = 100
"""Bytes; macOS allows 103, Linux 107."""


@attrs.define(eq=False, kw_only=True)
class ServerFolder:
    """This process's part in a server's folder.

    Attributes:
        path: The folder; made if absent.
        keep: True keeps data on disk; False removes the folder with the server.
    """

    path: Path
    keep: bool
    _seat: int | None = None

    def join(self, find_program: Callable[[], Path]) -> Path:
        """Become a user and return the socket of the server, which is started if none runs.

        Args:
            find_program: Called only if the server must be started.

        Raises:
            UsageError: The folder cannot be used, or there is no program.
            DriverError: The server did not start.
        """
        was_user = self._seat is not None
        try:
            self._take_seat()
            return self._running_server(find_program)
        except BaseException:
            if not was_user:
                self.leave()
            raise

    def leave(self) -> None:
        """Stop being a user; if that was the last one, wait until the server has ended."""
        seat, self._seat = self._seat, None
        if seat is None:
            return
        os.close(seat)
        deadline = time.monotonic() + PATIENCE_S
        while self._is_ending() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if not self.keep and not self._is_guarded() and not _is_held(self.path / "users.lock"):
            # The guard does this too, unless the server crashed or never started.
            shutil.rmtree(self.path, ignore_errors=True)

    def _take_seat(self) -> None:
        if self._seat is not None:
            if not self._is_seated(self._seat):
                raise DriverError(
                    f"the folder {self.path} was removed or replaced while its embedded server was in use; "
                    "end the processes that use it, then start again"
                )
            return
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._seat = _wait_for(self.path / "users.lock", shared=True)
        except OSError as error:
            raise UsageError(f"{self.path}, the folder of the embedded server, cannot be used: {error}") from error

    def _is_seated(self, seat: int) -> bool:
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(seat), (self.path / "users.lock").stat())
        return False

    def _running_server(self, find_program: Callable[[], Path]) -> Path:
        with _locked(self.path / "start.lock"):
            deadline = time.monotonic() + PATIENCE_S
            while self._is_guarded():
                address = self._address()
                if address and _ask(address, b"PING\r\n").startswith(b"+PONG"):
                    return address
                # After a crash: its guard clears up and goes.
                if time.monotonic() > deadline:
                    raise DriverError(f"the embedded server of {self.path} does not answer; see server.log there")
                time.sleep(POLL_S)
            address = self._address()
            if address:
                # Its guard was killed. It saves its data and ends; then all starts afresh.
                _shut_down(address)
            return self._start(find_program())

    def _is_guarded(self) -> bool:
        return _is_held(self.path / "guard.lock")

    def _is_ending(self) -> bool:
        """Tell whether no user is left, but the guard is still there."""
        if not self._is_guarded():
            return False
        users = self.path / "users.lock"
        return not _is_held(users) or _is_held(users, shared=True)

    def _address(self) -> Path | None:
        try:
            return Path((self.path / "address").read_text("utf-8"))
        except FileNotFoundError:
            return None

    def _start(self, program: Path) -> Path:
        address = self._new_address()
        guard = [_python(), "-I", "-S", str(Path(__file__).with_name("embedded_guard.py"))]
        told = [str(self.path), str(address), "keep" if self.keep else "forget", str(program)]
        done = subprocess.run(  # noqa: S603  # our own script, and a program found by find_server_file
            [*guard, *told, *self._arguments(address)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            raise DriverError(f"the embedded server {program} did not start: {(done.stdout + done.stderr).strip()}")
        return address

    def _new_address(self) -> Path:
        beside = self.path / "server.sock"
        if len(os.fsencode(beside)) <= LONGEST_SOCKET_PATH:
            return beside
        return Path(tempfile.mkdtemp(prefix="echomq-", dir=_short_folder())) / "s"

    def _arguments(self, address: Path) -> list[str]:
        listen = ["--port", "0", "--unixsocket", str(address), "--unixsocketperm", "700"]
        store = ["--dir", str(self.path), "--save", "", "--appendonly", "yes" if self.keep else "no"]
        return [*listen, *store, "--daemonize", "no", "--maxmemory-policy", "noeviction"]


def _short_folder() -> str:
    folder = tempfile.gettempdir()
    return folder if len(os.fsencode(folder)) < LONGEST_SOCKET_PATH - 20 else "/tmp"  # noqa: S108  # mkdtemp makes it ours


def _python() -> str:
    # Of a frozen program or an embedded interpreter, sys.executable is the program itself.
    own = "" if getattr(sys, "frozen", False) else sys.executable
    found = own if "python" in Path(own).name.lower() else shutil.which("python3")
    if not found:
        raise UsageError("embedded: needs a Python interpreter on PATH to watch over its server; use a URL of a server")
    return found


def _try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Lock a file without waiting; closing the descriptor returned unlocks it."""
    import fcntl  # absent on Windows, where this module must import all the same

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _is_held(path: Path, *, shared: bool = False) -> bool:
    """Tell whether others hold a lock that excludes ours; False if the folder is gone."""
    try:
        descriptor = _try_lock(path, shared=shared)
    except FileNotFoundError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _wait_for(path: Path, *, shared: bool = False) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while (descriptor := _try_lock(path, shared=shared)) is None:
        if time.monotonic() > deadline:
            raise DriverError(f"another process held {path} for {PATIENCE_S:.0f} s; is it stopped?")
        time.sleep(POLL_S)
    return descriptor


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = _wait_for(path)
    try:
        yield
    finally:
        os.close(descriptor)


def _ask(address: Path, command: bytes) -> bytes:
    """Return the first bytes of the answer; none if nobody listens or the link is closed."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(ANSWER_WITHIN_S)
        try:
            link.connect(str(address))
            link.sendall(command)
            return link.recv(64)
        except OSError:
            return b""


def _shut_down(address: Path) -> None:
    # Answers by closing the link, once its data is on disk.
    _ask(address, b"SHUTDOWN\r\n")
