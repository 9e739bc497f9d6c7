"""bull-board, a dashboard for BullMQ, as our page sets it up, asked over HTTP as its own page does."""

import asyncio
import base64
import contextlib
import json
import os
import re
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import attrs

from support.desk import until
from support.peer import node_folder
from support.server_files import CHECKOUT
from support.servers import Server, free_port

__all__ = ["Board", "board"]

PAGE = CHECKOUT / "docs" / "dashboards.md"
"""Tells how to set it up; tests run what it shows."""

ANSWERS_WITHIN_S = 60.0


@attrs.frozen
class Board:
    """A running dashboard.

    Attributes:
        port: Where it listens, on 127.0.0.1.
    """

    port: int

    async def get(self, path: str) -> Any:
        """Ask for something."""
        return await asyncio.to_thread(self.ask, "GET", path)

    async def put(self, path: str) -> Any:
        """Have something done."""
        return await asyncio.to_thread(self.ask, "PUT", path)

    async def queue(self, name: str, status: str = "latest") -> Any:
        """Return what its page shows of a queue, with the jobs of one state."""
        told = await self.get(f"/api/queues?activeQueue={name}&status={status}&page=1&jobsPerPage=10")
        [found] = [queue for queue in told["queues"] if queue["name"] == name]
        return found

    def ask(self, method: str, path: str, login: str | None = "ada:pass") -> Any:
        """Send one request and return the JSON of its answer; None where there is none.

        Raises:
            urllib.error.HTTPError: It was refused.
        """
        headers = {} if login is None else {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=ANSWERS_WITHIN_S) as answer:  # noqa: S310  # our own
            text = answer.read()
        return json.loads(text) if text else None


@contextlib.asynccontextmanager
async def board(server: Server, prefix: str, *queues: str) -> AsyncIterator[Board]:
    """Run the dashboard that the page sets up, on these queues, for the length of an ``async with`` block."""
    folder = await asyncio.to_thread(node_folder, "node-watched")
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *("node", "--input-type=module", "--eval", _program(server, prefix, queues, port)),
        cwd=folder,
        env={**os.environ, "BOARD_LOGIN": "ada:pass"},
    )
    try:
        await until(lambda: asyncio.to_thread(_listens, port), ANSWERS_WITHIN_S)
        yield Board(port)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _program(server: Server, prefix: str, queues: tuple[str, ...], port: int) -> str:
    found = re.search(r"^```js\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    program = found[1]
    for shown, meant in {
        "host: '127.0.0.1', port: 6379": f"host: '{server.host}', port: {server.port}",
        "['emails', 'reports']": json.dumps(queues),
        "prefix: 'bull'": f"prefix: '{prefix}'",
        "listen(3000,": f"listen({port},",
    }.items():
        assert program.count(shown) == 1, shown
        program = program.replace(shown, meant)
    return program


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
