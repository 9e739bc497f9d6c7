"""Connects with redis-py or valkey-py and takes the connected socket over.

The blocking twin of :mod:`echomq.aio.dialling`.

Source: design.md section 4.
"""

import socket
from typing import Any

import attrs

from echomq.client_errors import connect_failure
from echomq.client_settings import ClientLibrary, ClientSettings, settings_for
from echomq.driver import ConnectionOptions, ConnectionSource
from echomq.errors import PluginError
from echomq.resp import Resp

from .link import Link

__all__ = ["ClientDialler", "connect", "make_dialler"]


@attrs.frozen(kw_only=True)
class ClientDialler:
    """A :class:`~echomq.sync.link.Dialler` for libraries of redis-py's kind.

    Attributes:
        library: The client library.
        settings: What to connect to.
        connection_class: The library's blocking connection class.
        resp: How to pack and parse.
    """

    library: ClientLibrary
    settings: ClientSettings
    connection_class: type
    resp: Resp

    @property
    def where(self) -> str:
        """See :class:`~echomq.sync.link.Dialler`."""
        return self.settings.where

    @property
    def options(self) -> ConnectionOptions:
        """See :class:`~echomq.sync.link.Dialler`."""
        return self.settings.options

    def dial(self, name: str | None, limit_s: float) -> socket.socket:
        """See :meth:`echomq.sync.link.Dialler.dial`."""
        connection: Any = self.connection_class(**self.settings.for_class(self.connection_class, name, limit_s))
        try:
            connection.connect()
            return _socket(connection)
        except Exception as error:
            connection.disconnect()
            raise connect_failure(self.library.exceptions, error, self.where) from error


def _socket(connection: Any) -> socket.socket:
    sock = getattr(connection, "_sock", None)
    if not isinstance(sock, socket.socket):
        kind = type(connection)
        raise PluginError(
            f"{kind.__module__}.{kind.__name__} has no socket after connecting, which this release relies on; "
            "install a version of the client library that this driver names in its requirements"
        )
    # Without it the client does not close the socket when it is collected.
    connection._sock = None
    return sock


def make_dialler(library: ClientLibrary, settings: ClientSettings) -> ClientDialler:
    """Return what makes sockets for these settings."""
    return ClientDialler(
        library=library,
        settings=settings,
        connection_class=settings.pick_class(library.blocking),
        resp=library.resp(settings.options.protocol),
    )


def connect(library: ClientLibrary, source: ConnectionSource) -> Link:
    """Make a connection from options or a ready client; touches no socket.

    Raises:
        UsageError: The ready client cannot be used.
    """
    return Link(make_dialler(library, settings_for(library, source)))
