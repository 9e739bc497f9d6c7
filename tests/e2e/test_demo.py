"""The demo: real jobs, nothing lost, nothing left behind."""

import asyncio
import hashlib
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from echomq.aio.connecting import connect
from echomq.demo.run import Demo, DemoError, run_demo
from echomq.keys import Keys
from support.command_line import echomq, running, until
from support.servers import Server


def counted(text: str, pattern: str) -> int:
    """Return the number that stands at ``#`` in a text."""
    found = re.search(pattern.replace("#", r"([\d,]+)"), text)
    assert found, text
    return int(found[1].replace(",", ""))


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """A folder with three texts, and all that is not one."""
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "long.txt").write_text("river river stone\n" * 40_000, "utf-8")
    (folder / "deep" / "short.txt").write_text("just one line, no end", "utf-8")
    (folder / "deep" / "empty.txt").touch()
    (folder / ".hidden" / "passed-over.txt").write_text("never seen", "utf-8")
    (folder / "binary").write_bytes(b"text at first\0" + bytes(range(256)))
    (folder / "link.txt").symlink_to("long.txt")
    return folder


def test_demo(texts: Path) -> None:
    """All texts are read, binary files are counted, and the special jobs went their ways."""
    said = echomq("demo", str(texts), "--pace", "0")

    assert said.code == 0, said.error
    assert "6 added, 6 completed, 0 failed, 0 lost" in said.out
    assert "8, 2 of them retries" in said.out
    assert "1 binary and 0 unreadable files" in said.out
    assert "attempt 3 worked" in said.out
    assert "ran 2,500 ms after it was added" in said.out
    assert "ran with priority 1" in said.out
    assert counted(said.out, "p50 # ms") <= counted(said.out, "p99 # ms")
    row = next(line for line in said.out.splitlines() if "long.txt" in line and "river" in line)
    assert "40,000" in row
    assert "120,000" in row
    assert "river 80,000, stone 40,000" in row
    assert hashlib.sha256((texts / "long.txt").read_bytes()).hexdigest()[:8] in row
    assert "passed-over" not in said.out
    assert said.error == ""


def test_default_folder() -> None:
    """Without a folder the demo reads the package's own sources."""
    said = echomq("demo", "--pace", "0", "--processes", "1")

    assert said.code == 0, said.error
    assert counted(said.out, "# jobs done, none lost") > 50
    assert "options.py" in said.out


@pytest.mark.skipif(sys.platform == "win32", reason="names are always text there")
def test_unreadable_files(texts: Path) -> None:
    """Files that cannot be read are counted, and a named pipe does not hold the demo up."""
    try:
        Path(os.fsdecode(os.fsencode(texts) + b"/not-utf-8-\xff.txt")).write_text("?", "utf-8")
    except OSError:
        pytest.skip("this file system only has names in UTF-8")
    os.mkfifo(texts / "pipe")

    said = echomq("demo", str(texts), "--pace", "0", "--processes", "1")

    assert said.code == 0, said.error
    assert "1 binary and 1 unreadable files" in said.out


def test_empty_folder(tmp_path: Path) -> None:
    """A folder without texts is no error."""
    said = echomq("demo", str(tmp_path), "--processes", "1")

    assert said.code == 0, said.error
    assert "No text file was found" in said.out
    assert "3 added, 3 completed" in said.out


def test_many_files(tmp_path: Path) -> None:
    """More files than are ever outstanding at one time are all done."""
    for number in range(1_200):
        (tmp_path / f"{number}.txt").write_text(f"text number {number}\n", "utf-8")

    said = echomq("demo", str(tmp_path))

    assert said.code == 0, said.error
    assert "1,203 added, 1,203 completed, 0 failed, 0 lost" in said.out


def test_given_server(valkey_server: Server, texts: Path) -> None:
    """On a server of the user's the demo leaves nothing behind."""
    said = echomq("demo", str(texts), "--pace", "0", "--url", valkey_server.url)

    assert said.code == 0, said.error
    with valkey_server.client() as client:
        assert client.keys("*") == []


@pytest.mark.skipif(sys.platform == "win32", reason="ends processes by POSIX signals")
def test_interrupted(redis_server: Server, texts: Path, tmp_path: Path) -> None:
    """Ctrl-C ends the demo and its workers, leaves nothing on the server, and says nothing of an error."""
    options = ["--pace", "60", "--url", redis_server.url]
    with running("demo", str(texts), *options, folder=tmp_path) as command:
        until(lambda: "attempt 1 of 3 failed" in command.said, command)

        command.process.send_signal(signal.SIGINT)

        assert command.wait() == 130
        assert "error" not in command.said
        assert "Traceback" not in command.said
    with redis_server.client() as client:
        assert client.keys("*") == []
        assert len(client.client_list()) == 1


class Idle:
    """Workers that do nothing."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Run until stopped."""
        await self._stopped.wait()

    def stop(self) -> None:
        """End."""
        self._stopped.set()


async def test_lost_job(redis_server: Server, prefix: str, tmp_path: Path) -> None:
    """A job that vanishes ends the demo with an error that names it."""
    connection = connect(redis_server.url)
    demo = Demo(folder=tmp_path, keys=Keys("demo", prefix), connection=connection, pace_s=0)

    def lose(demo: Demo) -> None:
        if demo.added_count:
            demo.is_working = True  # lets the demo add the files
            redis_server.flush()

    try:
        with pytest.raises(DemoError, match="lost 3 jobs: flaky, delayed, prioritized"):
            await run_demo(demo, Idle(), lose)
    finally:
        await connection.close()


async def test_workers_that_end(redis_server: Server, prefix: str, tmp_path: Path) -> None:
    """Worker processes that end too early end the demo with an error."""
    connection = connect(redis_server.url)
    demo = Demo(folder=tmp_path, keys=Keys("demo", prefix), connection=connection, pace_s=0)
    idle = Idle()
    idle.stop()

    try:
        with pytest.raises(DemoError, match="the worker processes ended before"):
            await run_demo(demo, idle, lambda _demo: None)
    finally:
        await connection.close()
