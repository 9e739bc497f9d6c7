"""An HTTP probe for a running worker: ``/live``, ``/ready`` and ``/metrics``.

For containers and load balancers. It answers from a thread of its own, so a job
that blocks the event loop delays no answer, but is told. It listens where it is
told to, has no authentication, and shows no data of jobs. The server is that of
the standard library: three GETs are no reason for another dependency.

Source: user pain 16; issue "Operations".
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol

from .errors import UsageError
from .health import Verdict, Vitals, exposition, judge, usual_silence_s
from .moments import duration_ms

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

    from .keys import Keys
    from .moments import Duration
    from .worker_options import WorkerOptions

__all__ = ["Probe", "parse_place"]

_BEAT_S = 1.0
_PATIENCE_S = 5.0
"""How long a client may take over its request."""

_AT_ONCE = 8
"""Clients that are served at one time; further ones are turned away."""

_COUNTED = {
    "completed": "jobs_completed_total",
    "failed": "attempts_failed_total",
    "stalled": "jobs_stalled_total",
    "lock_lost": "locks_lost_total",
    "error": "errors_total",
}


class ProbedWorker(Protocol):
    """What a probe needs of a worker, of either shell."""

    keys: Keys
    options: WorkerOptions

    @property
    def is_running(self) -> bool: ...

    @property
    def silent_for_s(self) -> float | None: ...

    def on(self, event: str, listener: Callable[..., Any]) -> Any: ...

    def off(self, event: str, listener: Callable[..., Any]) -> None: ...


class Probe:
    """Answers for one worker, for the length of a ``with`` block around its run.

    Args:
        worker: Of either shell; not yet running, or at work.
        place: ``"HOST:PORT"`` to listen at; port 0 takes any, see :attr:`port`.
        silence: How long the server may be silent before the worker is not ready, in ms or as ``timedelta``;
            None: twice what is usual with the worker's options, 60 s with the default ones.

    Raises:
        UsageError: The place cannot be read.

    Attributes:
        port: Where it listens, inside the ``with`` block.
    """

    def __init__(self, worker: ProbedWorker, place: str, *, silence: Duration | None = None) -> None:
        self._worker = worker
        self._place = parse_place(place)
        limit_s = usual_silence_s(worker.options)
        self._limit_s = limit_s if silence is None else duration_ms("silence", silence, minimum=1) / 1000
        self._counts: dict[str, float] = dict.fromkeys(_COUNTED.values(), 0)
        self._seen: set[str] = set()
        self._listeners = {event: self._listener(event) for event in (*_COUNTED, "ready", "closing", "closed")}
        self._server: ThreadingHTTPServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beat_at_s = 0.0
        self._stopped = threading.Event()
        self.port = self._place[1]

    def __enter__(self) -> Self:
        self._server = _Server(self._place, _handler(self))
        self.port = self._server.server_address[1]
        for event, listener in self._listeners.items():
            self._worker.on(event, listener)
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        self._beat_at_s = time.monotonic()
        self._stopped.clear()
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="echomq-probe", daemon=True).start()
        if self._loop is not None:
            threading.Thread(target=self._listen_to_loop, name="echomq-probe-beat", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        for event, listener in self._listeners.items():
            self._worker.off(event, listener)
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def verdict(self) -> Verdict:
        """Return whether the worker is alive and ready."""
        return judge(self._vitals(), self._limit_s)

    def metrics(self) -> str:
        """Return the worker's numbers in the text format of Prometheus."""
        numbers = {**self._counts, "up": float(self.verdict().is_ready)}
        silent_s = self._worker.silent_for_s
        if silent_s is not None:
            numbers["silent_seconds"] = round(silent_s, 3)
        return exposition(self._worker.keys.queue, self._worker.options.name, numbers)

    def _vitals(self) -> Vitals:
        silent_s = self._worker.silent_for_s
        deaf_s = time.monotonic() - self._beat_at_s - _BEAT_S if self._loop is not None else 0.0
        return Vitals(
            has_begun=self._worker.is_running or bool(self._seen),
            has_ended="closed" in self._seen,
            is_closing="closing" in self._seen,
            is_connected="ready" in self._seen,
            silent_for_s=silent_s,
            deaf_for_s=max(0.0, deaf_s),
        )

    def _listener(self, event: str) -> Callable[..., None]:
        def listen(*_: object) -> None:
            self._seen.add(event)
            if event in _COUNTED:
                self._counts[_COUNTED[event]] += 1

        return listen

    def _listen_to_loop(self) -> None:
        while not self._stopped.wait(_BEAT_S):
            try:
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._beat)
            except RuntimeError:  # the loop is closed, and with it the worker
                return

    def _beat(self) -> None:
        self._beat_at_s = time.monotonic()


def parse_place(place: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; an address of IPv6 stands in brackets.

    Raises:
        UsageError: It is something else.
    """
    host, colon, port = place.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"a probe listens at HOST:PORT, such as 127.0.0.1:8080, not at {place!r}")
    return host.strip("[]"), int(port)


class _Server(ThreadingHTTPServer):
    """Serves few clients at a time; threads end with the process."""

    daemon_threads = True

    def __init__(self, place: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        if ":" in place[0]:
            self.address_family = socket.AF_INET6
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(place, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""


def _handler(probe: Probe) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version, sys_version = "echomq", ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            verdict = probe.verdict()
            if path == "/live":
                self._answer(verdict.is_live, "ok" if verdict.is_live else verdict.reason)
            elif path == "/ready":
                self._answer(verdict.is_ready, verdict.reason)
            elif path == "/metrics":
                self._send(200, probe.metrics(), "text/plain; version=0.0.4; charset=utf-8")
            else:
                self._send(404, "there are /live, /ready and /metrics\n")

        do_HEAD = do_GET  # noqa: N815  # so the library wants it

        def _answer(self, is_well: bool, text: str) -> None:
            self._send(200 if is_well else 503, f"{text}\n")

        def _send(self, status: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(status)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the worker's log free of probes."""

    return Handler
