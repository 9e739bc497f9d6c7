"""A server of this process as the other servers of the tests are, so that one suite covers it.

Its clients by ``redis-py`` come through a TCP port; the driver under test goes its own way.
"""

import contextlib
import itertools
import socket
import threading

import attrs

from echomq_memory import MemoryServer, memory_server
from support.servers import OutsideServer, Server

__all__ = ["InMemory", "start_memory_server"]

_NUMBERS = itertools.count(1)


@attrs.define(kw_only=True)
class InMemory(OutsideServer):
    """Lets TCP clients reach a server of this process; it cannot be stopped.

    Attributes:
        memory: The server.
    """

    memory: MemoryServer
    _listener: socket.socket

    def close(self) -> None:
        """Listen no longer."""
        with contextlib.suppress(OSError):  # ends the accept of the thread, where a plain close does not
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def accept(self) -> None:
        """Take clients until :meth:`close`."""
        with contextlib.suppress(OSError):
            while True:
                self.memory.attach(self._listener.accept()[0])


@attrs.define(kw_only=True)
class MemoryServerOfTests(Server):
    """The server; its URL is that of the driver."""

    @property
    def family(self) -> str:
        """See :attr:`Server.family`."""
        return "memory"

    @property
    def url(self) -> str:
        """See :attr:`Server.url`."""
        assert isinstance(self.engine, InMemory)
        return self.engine.memory.url


def start_memory_server() -> Server:
    """Return a new, empty server that TCP clients reach too."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    engine = InMemory(host=host, port=port, memory=memory_server(f"tests-{next(_NUMBERS)}"), listener=listener)
    threading.Thread(target=engine.accept, name="memory for TCP clients", daemon=True).start()
    return MemoryServerOfTests(name="memory", engine=engine)
