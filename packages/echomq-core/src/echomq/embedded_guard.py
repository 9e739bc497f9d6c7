"""The process that runs an embedded server and ends it when its users are gone.

Run as a script, by path, with nothing but the standard library: ``guard.py
FOLDER SOCKET KEEP PROGRAM ARGUMENTS...``. The first process starts a second one
in a session of its own, waits until the server answers, and ends: with nothing
to say if all went well, else with the reason on standard output.

Who is there is told by locks of the operating system (flock), which end with
their holder, however it ends:

* ``users.lock``: each user holds it shared. The guard waits for it alone, and
  has it when no user is left: then it stops the server.
* ``guard.lock``: the guard holds it as long as its server may be running.

Source: design.md section 2 (``embedded``).
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 20.0
PR_SET_PDEATHSIG = 1


def main(folder: Path, address: Path, keep: bool, command: list[str]) -> int:
    """Start the server and leave a guard behind.

    Args:
        folder: Locks, log and data.
        address: Socket the server will listen on.
        keep: False removes the folder at the end.
        command: Program of the server and its arguments.

    Returns:
        Exit code: 0 when the server answers, 1 when it did not start.
    """
    # Held until the guard ends, which inherits it; a file that nobody locks means nothing.
    fcntl.flock(_opened(folder / "guard.lock"), fcntl.LOCK_EX)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        os._exit(_guard(folder, address, keep, command, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        outcome = told.read().decode()
    if outcome == "ready":
        return 0
    print(outcome or "the guard ended before the server answered")
    return 1


def _guard(folder: Path, address: Path, keep: bool, command: list[str], report: int) -> int:
    _leave_the_starter()
    try:
        server = _start(folder, command)
        _wait_until_ready(server, address, folder / "server.log")
        (folder / "address").write_text(str(address), "utf-8")
    except Exception as error:  # noqa: BLE001  # whatever it is, the starter must be told
        _tell(report, f"{error}")
        _clean_up(folder, address)
        return 1
    signal.signal(signal.SIGTERM, lambda _signal, _frame: server.terminate())
    unused = threading.Event()
    users = _opened(folder / "users.lock")
    _tell(report, "ready")
    threading.Thread(target=_stop_when_unused, args=(users, server, unused), daemon=True).start()
    server.wait()
    _clean_up(folder, address)
    if unused.is_set() and not keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _leave_the_starter() -> None:
    """Let go of the starter's terminal, pipes and folder, which the guard outlives."""
    os.setsid()
    os.chdir("/")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)


def _tell(report: int, outcome: str) -> None:
    # A starter that was killed meanwhile hears nothing; its lock is gone, too, which ends the server.
    with contextlib.suppress(BrokenPipeError):
        os.write(report, outcome.encode())
    os.close(report)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


def _start(folder: Path, command: list[str]) -> "subprocess.Popen[bytes]":
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603  # the starter chose the program
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_follow_the_guard
        )


def _follow_the_guard() -> None:
    """End with the guard, should that be killed. Linux only; elsewhere the next user of the folder ends the server."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_until_ready(server: "subprocess.Popen[bytes]", address: Path, log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not _answers(address):
        if server.poll() is not None:
            raise RuntimeError(f"it ended with code {server.returncode}; its log: {_tail(log)}")
        if time.monotonic() > deadline:
            server.kill()
            raise RuntimeError(f"it did not answer within {READY_WITHIN_S:.0f} s; its log: {_tail(log)}")
        time.sleep(0.002)


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(1)
        try:
            link.connect(str(address))
            link.sendall(b"PING\r\n")
            return link.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def _tail(log: Path) -> str:
    return " / ".join(log.read_text("utf-8", "replace").strip().splitlines()[-3:])


def _stop_when_unused(users: int, server: "subprocess.Popen[bytes]", unused: threading.Event) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)
    unused.set()
    server.terminate()
    time.sleep(STOPPED_WITHIN_S)
    server.kill()


def _clean_up(folder: Path, address: Path) -> None:
    (folder / "address").unlink(missing_ok=True)
    address.unlink(missing_ok=True)
    if address.parent != folder:
        shutil.rmtree(address.parent, ignore_errors=True)


if __name__ == "__main__":
    where, listen, kept, *program = sys.argv[1:]
    sys.exit(main(Path(where), Path(listen), kept == "keep", program))
