"""A process with BullMQ, for Node or for Python, that a test talks to.

BullMQ is installed into the checkout's cache (by npm as locked in
``tests/interop/node``, by pip into an environment of its own) and only ever run.
The process is ended with the test.
"""

import asyncio
import contextlib
import functools
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs

from support.not_run import missing
from support.npm import npm_folder
from support.server_files import CACHE, CHECKOUT, installing
from support.servers import Server

__all__ = ["Peer", "PeerError", "PeerObject", "node_folder", "node_peer", "python_peer", "traced_peer"]

INTEROP = CHECKOUT / "tests" / "interop"
BULLMQ_FOR_PYTHON = "bullmq==3.4.4"
LINE_LIMIT_BYTES = 64 * 1024 * 1024
ANSWER_WITHIN_S = 120.0

Happened = dict[str, Any]
"""What an object emitted: ``{"from", "event", "args"}``."""


class PeerError(Exception):
    """The other side raised an error; this is its message."""


@functools.cache
def node_folder(release: str = "node") -> Path:
    """Return a folder with the Node programs and BullMQ installed, or skip where Node is missing.

    Args:
        release: Folder in ``tests/interop`` that locks a release of BullMQ: ``"node"``, ``"node-5"``, or
            ``"node-watched"``, which brings its telemetry and a dashboard, too.
    """
    folder = npm_folder(release, INTEROP / release, part="BullMQ for Node")
    with installing(release):
        for program in (INTEROP / "node").glob("*.mjs"):
            _bring(program, folder / program.name)
    return folder


def _bring(program: Path, copy: Path) -> None:
    """Copy a program that changed; one that did not may be in use by another process of tests."""
    if not copy.exists() or copy.read_bytes() != program.read_bytes():
        shutil.copy(program, copy)


@functools.cache
def python_with_bullmq() -> str:
    """Return a Python that has BullMQ installed, or skip where it cannot be had."""
    folder = CACHE / "bullmq-python"
    python = folder / "bin" / "python"
    ready = folder / f"ready-{BULLMQ_FOR_PYTHON}-{sys.version_info[0]}.{sys.version_info[1]}"
    with installing("bullmq-python"):
        if not ready.exists():
            venv.create(folder, clear=True, symlinks=True)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", BULLMQ_FOR_PYTHON]
            done = subprocess.run(pip, capture_output=True, text=True, timeout=570, check=False)
            if done.returncode:
                missing("BullMQ for Python", (done.stderr.strip() or "no reason given").splitlines()[-1])
            ready.touch()
    return str(python)


@attrs.define
class Peer:
    """One process of another implementation.

    Attributes:
        happened: Everything its objects emitted so far, in order.
    """

    _process: asyncio.subprocess.Process
    happened: list[Happened] = attrs.field(factory=list)
    _answers: dict[int, "asyncio.Future[Any]"] = attrs.field(factory=dict)
    _changed: asyncio.Condition = attrs.field(factory=asyncio.Condition)
    _count: int = 0

    async def open(self, kind: str, *args: Any) -> "PeerObject":
        """Make a ``Queue``, ``Worker``, ``QueueEvents`` or ``FlowProducer``; a name and options as in Node."""
        handle = f"{kind}{self._count}"
        await self.ask({"open": kind, "as": handle, "args": args})
        return PeerObject(peer=self, handle=handle)

    async def ask(self, request: dict[str, Any]) -> Any:
        """Send one request and return its answer.

        Raises:
            PeerError: The other side raised.
        """
        assert self._process.stdin is not None
        self._count += 1
        answer = self._answers[self._count] = asyncio.get_running_loop().create_future()
        self._process.stdin.write(json.dumps({**request, "id": self._count}).encode() + b"\n")
        await self._process.stdin.drain()
        return await asyncio.wait_for(answer, ANSWER_WITHIN_S)

    async def until(self, found: Callable[[list[Happened]], Any], within_s: float = ANSWER_WITHIN_S) -> Any:
        """Wait until a look at everything that happened gives a true value, and return that.

        Raises:
            AssertionError: It did not within the time; the message shows what did happen.
        """

        async def wait() -> Any:
            async with self._changed:
                await self._changed.wait_for(lambda: found(self.happened))
                return found(self.happened)

        try:
            return await asyncio.wait_for(wait(), within_s)
        except asyncio.TimeoutError:
            raise AssertionError(f"not seen within {within_s} s; last seen: {self.happened[-20:]}") from None

    def kill(self) -> None:
        """Let the process die at once, in the middle of whatever it does."""
        self._process.kill()

    def terminate(self) -> None:
        """Ask the process to end by SIGTERM, for which it has no ear: it dies, as many do that are deployed anew."""
        self._process.terminate()

    async def listen(self) -> None:
        """Hand out answers and note what happened, until the process ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if not line.endswith(b"\n"):
                break  # the process was ended in the middle of a word
            message = json.loads(line)
            if "id" in message:
                self._resolve(message)
                continue
            async with self._changed:
                self.happened.append(message)
                self._changed.notify_all()
        for answer in self._answers.values():
            answer.set_exception(PeerError("the other process ended"))

    def _resolve(self, message: dict[str, Any]) -> None:
        answer = self._answers.pop(message["id"])
        if answer.done():
            return
        if "error" in message:
            answer.set_exception(PeerError(message["error"]))
        else:
            answer.set_result(message["value"])


@attrs.frozen(kw_only=True)
class PeerObject:
    """An object in the other process."""

    peer: Peer
    handle: str

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method by its Node name; the value as plain JSON."""
        return await self.peer.ask({"on": self.handle, "call": method, "args": args})

    async def of_job(self, job_id: str, method: str, *args: Any) -> Any:
        """Call a method of a job of this queue."""
        given = [{"object": item.handle} if isinstance(item, PeerObject) else item for item in args]
        return await self.peer.ask({"on": self.handle, "job": job_id, "call": method, "args": given})

    def emitted(self, event: str) -> list[list[Any]]:
        """Return the arguments of each event of this name so far."""
        return [seen["args"] for seen in self.peer.happened if seen["from"] == self.handle and seen["event"] == event]

    async def until_emitted(self, event: str, count: int = 1, within_s: float = ANSWER_WITHIN_S) -> list[list[Any]]:
        """Wait until an event was emitted so often, and return the arguments of each time."""
        await self.peer.until(lambda _: len(self.emitted(event)) >= count, within_s)
        return self.emitted(event)


@contextlib.asynccontextmanager
async def traced_peer(server: Server, prefix: str) -> AsyncIterator[Peer]:
    """Run a Node process whose objects trace; ``{"on": "traces", "call": "spans"}`` gives what they have ended."""
    folder = await asyncio.to_thread(node_folder, "node-watched")
    command = ["node", str(folder / "peer.mjs"), server.host, str(server.port), prefix]
    async with _running(command, ECHOMQ_TEST_TRACES="1") as peer:
        yield peer


@contextlib.asynccontextmanager
async def node_peer(server: Server, prefix: str, release: str = "node") -> AsyncIterator[Peer]:
    """Run a Node process beside a server for the length of an ``async with`` block.

    Args:
        server: Where its queues are.
        prefix: Prefix of their keys.
        release: As in :func:`node_folder`.
    """
    folder = await asyncio.to_thread(node_folder, release)
    async with _running(["node", str(folder / "peer.mjs"), server.host, str(server.port), prefix]) as peer:
        yield peer


@contextlib.asynccontextmanager
async def python_peer(server: Server, prefix: str) -> AsyncIterator[Peer]:
    """Run a process with BullMQ for Python beside a server, as :func:`node_peer` does for Node."""
    python = await asyncio.to_thread(python_with_bullmq)
    program = INTEROP / "python" / "peer.py"
    async with _running([python, str(program), server.host, str(server.port), prefix]) as peer:
        yield peer


@contextlib.asynccontextmanager
async def _running(command: list[str], **environment: str) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT_BYTES,
        env={**os.environ, **environment},
    )
    peer = Peer(process)
    listening = asyncio.create_task(peer.listen())
    try:
        yield peer
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await listening
