"""Every Python example of README and documentation runs, and prints what its comments say.

The examples of a page run in order and share their names, as in a notebook, with
``await`` at the top. One that calls ``asyncio.run`` is a program of its own. What
cannot run by itself is marked: its fence says ``python fragment``.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from support.server_files import CHECKOUT
from support.servers import Server

PAGES = [
    page
    for page in (CHECKOUT / "README.md", *sorted(CHECKOUT.glob("docs/**/*.md")))
    if "```python\n" in page.read_text("utf-8")
]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNS_FOR_EVER = "# until Ctrl-C"
"""Marks the first example of the README, which has a test of its own."""

PROMISE = re.compile(r"^\s*print\(.*\)  # (.*)$|^# (.*)$")
WITHIN_S = 180.0


@attrs.frozen
class Example:
    """One block of Python that runs.

    Attributes:
        where: Page and line.
        code: The block, with the test's server in place of the usual one.
    """

    where: str
    code: str

    @property
    def is_program(self) -> bool:
        """Whether it makes its own event loop."""
        return "asyncio.run(" in self.code or ".run_sync(" in self.code

    @property
    def promised(self) -> list[str]:
        """What it prints, by its comments: beside a print, or below as lines of comments."""
        if "print(" not in self.code and "sys.stdout" not in self.code:
            return []
        found = [PROMISE.match(line) for line in self.code.splitlines()[1:]]
        return [match[1] or match[2] for match in found if match]


def _examples(page: Path, server: Server, folder: Path) -> Iterator[Example]:
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        code = found[1].replace("redis://localhost", server.url).replace("/var/lib/app", str(folder))
        yield Example(f"{page.relative_to(CHECKOUT)}:{text.count(chr(10), 0, found.start()) + 2}", code)


async def _run(example: Example, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if example.is_program:
            command = [sys.executable, "-W", "error", "-c", example.code]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=WITHIN_S, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), example.where
            return str(done.stdout)
        running = eval(compile(example.code, example.where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)  # noqa: S307  # our own pages
        if inspect.isawaitable(running):
            await running
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
async def test_page_runs(page: Path, redis_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of a page run one after the other, and print what it says."""
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # some libraries look there for what annotations name
    names = vars(module)
    for example in _examples(page, redis_server, tmp_path):
        if RUNS_FOR_EVER in example.code:
            continue
        printed = await _run(example, names)

        assert printed.splitlines() == example.promised, example.where
