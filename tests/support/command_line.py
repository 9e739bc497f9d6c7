"""Runs the command line as a user does: in a process of its own."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

__all__ = ["Ended", "Running", "echomq", "running", "until"]

WITHIN_S = 180.0


@attrs.frozen(kw_only=True)
class Ended:
    """What a command left.

    Attributes:
        code: Exit code.
        out: Standard output.
        error: Standard error.
    """

    code: int
    out: str
    error: str


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ECHOMQ")}
    return {**clean, "COLUMNS": "100", **extra}


def echomq(*arguments: str, stdin: str = "", folder: Path | None = None, **environment: str) -> Ended:
    """Run a command to its end.

    Args:
        *arguments: Without the program.
        stdin: Its input.
        folder: Where it runs.
        **environment: Further variables.
    """
    done = subprocess.run(
        [sys.executable, "-m", "echomq", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
        cwd=folder,
        env=_environment(environment),
    )
    return Ended(code=done.returncode, out=done.stdout, error=done.stderr)


@attrs.define
class Running:
    """A command that runs.

    Attributes:
        process: Its process.
        output: Gets its output and errors.
    """

    process: "subprocess.Popen[bytes]"
    output: Path

    @property
    def said(self) -> str:
        """What it wrote so far."""
        return self.output.read_text("utf-8", "replace")

    def wait(self) -> int:
        """Wait for its end and return the exit code."""
        return self.process.wait(WITHIN_S)


@contextlib.contextmanager
def running(*arguments: str, folder: Path, **environment: str) -> Iterator[Running]:
    """Start a command in a folder and end it after the block, should it still run."""
    output = folder / "said.txt"
    with output.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "echomq", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,
            env=_environment(environment),
        )
    try:
        yield Running(process, output)
    finally:
        process.kill()
        process.wait(WITHIN_S)


def until(holds: Callable[[], bool], running: Running) -> None:
    """Wait until something holds.

    Raises:
        AssertionError: It did not in time; shows what the command said.
    """
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"not in time; the command said:\n{running.said}"
        time.sleep(0.02)
