"""What a server can do at most: the calls of a real run, recorded and played back by a client that only sends.

A proxy between EchoMQ and its server writes down what EchoMQ sends. The queue is
then filled with the same jobs again and the recording is sent as fast as the server
takes it; replies are counted, not read. Job ids repeat, so each call finds its job.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

import echomq

if TYPE_CHECKING:
    from private_server import PrivateServer

__all__ = ["ceiling_of"]

CHUNK = 256 * 1024

Fill = Callable[..., Awaitable[None]]


class Recorder:
    """A TCP proxy that keeps what clients send, by connection."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.sent: list[list[bytes]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        kept: list[bytes] = []
        self.sent.append(kept)
        await asyncio.gather(_pump(reader, back, kept), _pump(there, writer, None), return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: list[bytes] | None) -> None:
    while data := await reader.read(CHUNK):
        if kept is not None:
            kept.append(data)
        writer.write(data)
    writer.close()


def ceiling_of(server: PrivateServer, task: dict[str, Any], fill: Fill) -> dict[str, float]:
    """Record one run of EchoMQ and return the figures of its playback."""
    return asyncio.run(_ceiling(server, task, fill))


async def _ceiling(server: PrivateServer, task: dict[str, Any], fill: Fill) -> dict[str, float]:
    works = task["mode"] == "ceiling-work"
    client: Any = server.client
    client.flushall()
    if works:
        await fill(server.url, task["count"])
    async with Recorder(server.port) as recorder:
        url = f"{server.kind}://127.0.0.1:{recorder.port}"
        await (_drain(url, task) if works else _add(url, task))
    calls = b"".join(max(recorder.sent, key=lambda kept: sum(map(len, kept))))
    client.flushall()
    if works:
        await fill(server.url, task["count"])
    before, begun = server.cpu_s(), time.perf_counter()
    await _play(server.port, calls)
    seconds, used = time.perf_counter() - begun, server.cpu_s() - before
    done = client.zcard("bull:bench:completed") if works else client.llen("bull:bench:wait")
    if done < task["count"] * 0.99:
        return {"count": done, "rate": 0, "server_us": 0, "wrong": f"played back, {done} of {task['count']} jobs"}  # type: ignore[dict-item]  # shown as it is
    return {"count": done, "rate": done / seconds, "server_us": used / done * 1e6}


async def _drain(url: str, task: dict[str, Any]) -> None:
    async def process(job: echomq.Job) -> int:
        return int(job.data["n"]) * 2

    await echomq.Worker("bench", process, url, concurrency=task["concurrency"]).run(until="drained")


async def _add(url: str, task: dict[str, Any]) -> None:
    async with echomq.Queue("bench", url) as queue:
        numbers = iter(range(task["count"]))

        async def lane() -> None:
            for n in numbers:
                await queue.add("job", {"n": n})

        await asyncio.gather(*(lane() for _ in range(task["concurrency"])))


async def _play(port: int, calls: bytes) -> None:
    """Send all, and read until the answer to one last question."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    ended = b"the-playback-has-ended"

    async def read() -> None:
        tail = b""
        while data := await reader.read(CHUNK):
            if ended in (tail := tail[-64:] + data):
                return

    reading = asyncio.ensure_future(read())
    for start in range(0, len(calls), CHUNK):
        writer.write(calls[start : start + CHUNK])
        await writer.drain()
    writer.write(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (len(ended), ended))
    await reading
    writer.close()
