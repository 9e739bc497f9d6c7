"""A small HTTP server of texts: what probes and scrapers ask for, and nothing else.

It listens where it is told to, from threads of its own, has no authentication, and
serves few clients at a time. The server is that of the standard library: a few GETs
are no reason for another dependency.
"""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import attrs

from .errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Answer", "TextServer", "parse_place"]

_PATIENCE_S = 5.0
"""How long a client may take over its request."""

_AT_ONCE = 8
"""Clients that are served at one time; further ones are turned away."""


@attrs.frozen
class Answer:
    """What a client gets.

    Attributes:
        text: The body.
        status: Of HTTP.
        kind: Type of the text.
    """

    text: str
    status: int = 200
    kind: str = "text/plain; charset=utf-8"


def parse_place(place: str) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; an address of IPv6 stands in brackets.

    Raises:
        UsageError: It is something else.
    """
    host, colon, port = place.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise UsageError(f"expected HOST:PORT to listen at, such as 127.0.0.1:8080, not {place!r}")
    return host.strip("[]"), int(port)


class TextServer:
    """Answers for the length of a ``with`` block.

    Args:
        place: Host and port; port 0 takes any.
        answer: Called with the path of a request, in a thread; None: there is nothing of that name.
        paths: Those there are, to be told to who asks for another one.

    Attributes:
        port: Where it listens, inside the ``with`` block.
    """

    def __init__(self, place: tuple[str, int], answer: Callable[[str], Answer | None], paths: str) -> None:
        self._place = place
        self._handler = _handler(answer, paths)
        self._server: ThreadingHTTPServer | None = None
        self.port = place[1]

    def __enter__(self) -> Self:
        self._server = _Server(self._place, self._handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="echomq-texts", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


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


def _handler(answer: Callable[[str], Answer | None], paths: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE_S
        server_version, sys_version = "echomq", ""

        def do_GET(self) -> None:
            found = answer(self.path.partition("?")[0])
            self._send(Answer(f"there is {paths}\n", 404) if found is None else found)

        do_HEAD = do_GET  # noqa: N815  # so the library wants it

        def _send(self, found: Answer) -> None:
            body = found.text.encode()
            self.send_response(found.status)
            for name, value in (
                ("Content-Type", found.kind),
                ("Content-Length", str(len(body))),
                ("Cache-Control", "no-store"),
            ):
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the program's log free of probes."""

    return Handler
