"""Connects with redis-py or valkey-py and takes the connected transport over.

The client does what it is good at: addresses, TLS, AUTH, HELLO, SELECT, the
client's name. After that its reader and writer are taken away from it and the
transport speaks to a lane directly.

Source: design.md section 4.
"""

import asyncio
from typing import Any

import attrs

from echomq.client_errors import connect_failure
from echomq.client_settings import ClientLibrary, ClientSettings, settings_for
from echomq.driver import Connection, ConnectionOptions, ConnectionSource
from echomq.errors import ConnectionLost, PluginError
from echomq.resp import Resp
from echomq.sync.dialling import make_dialler
from echomq.sync.link import Link

from .flights import Line
from .lane import Lane

__all__ = ["ClientDialler", "connect"]


@attrs.frozen(kw_only=True)
class ClientDialler:
    """A :class:`~echomq.aio.lane.Dialler` for libraries of redis-py's kind.

    Attributes:
        library: The client library.
        settings: What to connect to.
        connection_class: The library's asyncio connection class.
        resp: How to pack and parse.
    """

    library: ClientLibrary
    settings: ClientSettings
    connection_class: type
    resp: Resp

    @property
    def where(self) -> str:
        """See :class:`~echomq.aio.lane.Dialler`."""
        return self.settings.where

    @property
    def options(self) -> ConnectionOptions:
        """See :class:`~echomq.aio.lane.Dialler`."""
        return self.settings.options

    def twin(self) -> Connection:
        """See :meth:`echomq.aio.lane.Dialler.twin`."""
        return Link(make_dialler(self.library, self.settings))

    async def dial(self, name: str | None) -> Line:
        """See :meth:`echomq.aio.lane.Dialler.dial`."""
        limit_s = self.options.connect_timeout_ms / 1000
        connection: Any = self.connection_class(**self.settings.for_class(self.connection_class, name, limit_s))
        try:
            await connection.connect()
            return self._taken(connection)  # in the same step of the loop, as the contract wants
        except Exception as error:
            await connection.disconnect(nowait=True)
            raise connect_failure(self.library.exceptions, error, self.where) from error
        except asyncio.CancelledError:
            await connection.disconnect(nowait=True)
            raise

    def _taken(self, connection: Any) -> Line:
        reader, writer = _streams(connection)
        if reader.at_eof() or writer.transport.is_closing():
            raise ConnectionLost(f"{self.where} closed the link after the greeting")
        # Without them the client neither closes the transport nor warns that it is open.
        connection._reader = connection._writer = None
        leftover = bytes(getattr(reader, "_buffer", b""))
        return Line(transport=writer.transport, leftover=leftover, keep=(reader, writer))


def _streams(connection: Any) -> tuple[asyncio.StreamReader, Any]:
    reader, writer = getattr(connection, "_reader", None), getattr(connection, "_writer", None)
    if reader is None or writer is None:
        kind = type(connection)
        raise PluginError(
            f"{kind.__module__}.{kind.__name__} has no stream after connecting, which this release relies on; "
            "install a version of the client library that this driver names in its requirements"
        )
    return reader, writer


def connect(library: ClientLibrary, source: ConnectionSource) -> Lane:
    """Make a connection from options or a ready client; touches no loop and no socket.

    Raises:
        UsageError: The ready client cannot be used.
    """
    settings = settings_for(library, source)
    return Lane(
        ClientDialler(
            library=library,
            settings=settings,
            connection_class=settings.pick_class(library.asyncio),
            resp=library.resp(settings.options.protocol),
        )
    )
