"""A TCP proxy that breaks connections on purpose, in a thread of its own.

It counts what passes in each direction and can cut after any byte, hold bytes
back, reset, or refuse. Tests of both shells use it, since it needs neither their
event loop nor their thread.
"""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, TypeVar

import attrs

from support.limits import DEADLINE_S
from support.servers import free_port

__all__ = ["Direction", "Proxy", "proxy_to"]

T = TypeVar("T")

Direction = Literal["up", "down"]
"""``"up"``: to the server. ``"down"``: to the client."""


@attrs.define(eq=False)
class _Pair:
    """One connection of a client, and the one to the server that belongs to it."""

    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    server: tuple[asyncio.StreamReader, asyncio.StreamWriter]

    def close(self, *, reset: bool = False) -> None:
        for _, writer in (self.client, self.server):
            sock = writer.get_extra_info("socket")
            if reset and sock is not None and not writer.transport.is_closing():
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@attrs.define(eq=False)
class Proxy:
    """A proxy to one server; make it with :func:`proxy_to`.

    Attributes:
        host: Where it listens.
        port: Where it listens; stays the same through :meth:`refuse` and :meth:`accept`.
        passed: Bytes that went through so far, by direction.
        accepted: How many connections it has taken.
        delay_s: How long it holds whatever comes in either direction, as a long way would.
    """

    to_host: str
    to_port: int
    host: str = "127.0.0.1"
    port: int = 0
    passed: dict[str, int] = attrs.field(factory=lambda: {"up": 0, "down": 0})
    accepted: int = 0
    delay_s: float = 0.0
    _cuts: int = 0
    _loop: asyncio.AbstractEventLoop = attrs.field(factory=asyncio.new_event_loop)
    _listener: socket.socket | None = None
    _pairs: list[_Pair] = attrs.field(factory=list)
    _serving: "set[asyncio.Task[None]]" = attrs.field(factory=set)
    _pumps: "set[asyncio.Task[None]]" = attrs.field(factory=set)
    _cut_at: dict[str, int] = attrs.field(factory=dict)
    _reset: bool = False
    _flowing: dict[str, asyncio.Event] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._flowing = {"up": _set_event(), "down": _set_event()}

    @property
    def url(self) -> str:
        """URL of the server through the proxy."""
        return f"redis://{self.host}:{self.port}"

    # What tests call, from any thread.

    def cut(self, *, reset: bool = False) -> None:
        """Break all connections now."""
        self._do(self._cut(reset=reset))

    def cut_after(self, direction: Direction, count: int, *, reset: bool = False) -> None:
        """Let this many more bytes through in one direction, then break all connections; once."""
        self._do(self._arm(direction, count, reset=reset))

    def hold(self, direction: Direction) -> None:
        """Let nothing more through in one direction, without breaking anything."""
        self._do(self._set_flow(direction, flowing=False))

    def release(self, direction: Direction) -> None:
        """Let through what :meth:`hold` kept, and all that comes."""
        self._do(self._set_flow(direction, flowing=True))

    def refuse(self) -> None:
        """Take no new connections; they are refused as if nobody listened."""
        self._do(self._stop_listening())

    def accept(self) -> None:
        """Take connections again, on the same port."""
        self._do(self._listen())

    # In the proxy's own thread.

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    async def _listen(self) -> None:
        # A port of the system's choice could be given to a client while we refuse, which then reaches itself.
        while self._listener is None:
            port = self.port or free_port()
            with contextlib.suppress(OSError) if not self.port else contextlib.nullcontext():
                self._listener = socket.create_server((self.host, port))
                self.port = port
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._take, self._listener)

    def _take(self, listener: socket.socket) -> None:
        """Accept by hand: a server of asyncio's loses the connections it takes while it is being closed."""
        with contextlib.suppress(BlockingIOError):
            sock, _ = listener.accept()
            self.accepted += 1
            self._spawn(self._serving, self._serve(sock))

    def _spawn(self, tasks: "set[asyncio.Task[None]]", work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _cut(self, *, reset: bool) -> None:
        self._cut_at.clear()
        self._cuts += 1
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.close(reset=reset)

    async def _arm(self, direction: str, count: int, *, reset: bool) -> None:
        self._cut_at[direction] = self.passed[direction] + count
        self._reset = reset

    async def _set_flow(self, direction: str, *, flowing: bool) -> None:
        event = self._flowing[direction]
        event.set() if flowing else event.clear()

    async def _serve(self, sock: socket.socket) -> None:
        cuts = self._cuts
        try:
            client = await asyncio.open_connection(sock=sock)
        except OSError:
            sock.close()
            return
        try:
            server = await asyncio.open_connection(self.to_host, self.to_port)
        except OSError:
            client[1].transport.abort()
            return
        pair = _Pair(client, server)
        if cuts != self._cuts:  # a cut meets those too that were about to begin
            pair.close()
            return
        self._pairs.append(pair)
        self._spawn(self._pumps, self._pump("up", client[0], server[1], pair))
        self._spawn(self._pumps, self._pump("down", server[0], client[1], pair))

    async def _pump(
        self, direction: str, source: asyncio.StreamReader, sink: asyncio.StreamWriter, pair: _Pair
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._flowing[direction].wait()
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                end = self._cut_at.get(direction)
                if end is not None and self.passed[direction] + len(data) >= end:
                    await self._last_bytes(direction, sink, data[: end - self.passed[direction]])
                    return
                self.passed[direction] += len(data)
                sink.write(data)
                await sink.drain()
        pair.close()

    async def _last_bytes(self, direction: str, sink: asyncio.StreamWriter, data: bytes) -> None:
        """Deliver the bytes before the cut, then cut."""
        self.passed[direction] += len(data)
        if data:
            sink.write(data)
            # Drained only when empty: an abort would throw away what the buffer still holds.
            sink.transport.set_write_buffer_limits(high=0)
            await sink.drain()
        await self._cut(reset=self._reset)

    async def _close(self) -> None:
        await self._stop_listening()
        # Whoever was accepted a moment ago gets as far as to have a pair.
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._cut(reset=False)
        pumps = list(self._pumps)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await asyncio.sleep(0)


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _forever(loop: asyncio.AbstractEventLoop, started: Callable[[], None]) -> None:
    asyncio.set_event_loop(loop)
    loop.call_soon(started)
    loop.run_forever()


@contextlib.contextmanager
def proxy_to(host: str, port: int) -> Iterator[Proxy]:
    """Run a proxy to a server for the length of a ``with`` block."""
    proxy, running = Proxy(host, port), threading.Event()
    thread = threading.Thread(target=_forever, args=(proxy._loop, running.set), daemon=True)
    thread.start()
    running.wait(DEADLINE_S)
    try:
        proxy.accept()
        yield proxy
    finally:
        proxy._do(proxy._close())
        proxy._loop.call_soon_threadsafe(proxy._loop.stop)
        thread.join(DEADLINE_S)
        proxy._loop.close()
