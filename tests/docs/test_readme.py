"""The examples of the README do what it says, exactly as they stand there."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from support.peer import node_folder
from support.server_files import CHECKOUT
from support.servers import Server

WITHIN_S = 180.0


def _example(language: str, server: Server) -> str:
    """Return the first example in a language, with the test's server in place of the usual one."""
    text = (CHECKOUT / "README.md").read_text("utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, f"the README has no example in {language}"
    return found[1].replace("redis://localhost", server.url).replace("port: 6379", f"port: {server.port}")


@contextlib.contextmanager
def _running(*command: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _wait_for_completed(server: Server, count: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    with contextlib.closing(server.client()) as client:
        while client.zcard("bull:emails:completed") != count:
            assert time.monotonic() < deadline, client.keys()
            time.sleep(0.02)


def test_python_example(redis_server: Server) -> None:
    """The first example adds a job and does it, and ends in order at Ctrl-C."""
    with _running(sys.executable, "-c", _example("python", redis_server)) as program:
        _wait_for_completed(redis_server, 1)

        program.send_signal(signal.SIGINT)

        assert program.wait(WITHIN_S) == 0
    with contextlib.closing(redis_server.client()) as client:
        assert client.hget("bull:emails:1", "returnvalue") == b'"mail to ada@example.org"'


def test_node_example(redis_server: Server, tmp_path: Path) -> None:
    """The example for Node prints what the worker of the first example returned."""
    folder = node_folder()
    program = tmp_path / "example.mjs"
    program.write_text(_example("js", redis_server))
    (tmp_path / "node_modules").symlink_to(folder / "node_modules")
    with _running(sys.executable, "-c", _example("python", redis_server)):
        _wait_for_completed(redis_server, 1)
        with _running("node", "--preserve-symlinks-main", str(program)) as node:
            assert node.stdout is not None
            assert node.stdout.readline() == "mail to grace@example.org\n"
