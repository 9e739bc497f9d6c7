"""Connects with redis-py or valkey-py and takes the connected socket over.

The blocking twin of :mod:`echomq.aio.dialling`.

Source: design.md section 4.
"""

import socket
from typing import Any

import attrs

from echomq import embedded
from echomq.client_errors import connect_failure
from echomq.client_settings import ClientLibrary, ClientSettings, settings_for
from echomq.cluster import SlotTable
from echomq.driver import Address, Connection, ConnectionOptions, ConnectionSource
from echomq.errors import DriverError, PluginError
from echomq.resp import Resp
from echomq.sentinel import ROLE, check_master, nobody_knows, question, read_master

from .cluster import ClusterLink
from .link import Link

__all__ = ["ClientDialler", "ClusterDialler", "connect", "make_dialler"]


@attrs.frozen(kw_only=True)
class ClientDialler:
    """A :class:`~echomq.sync.link.Dialler` for libraries of redis-py's kind.

    Attributes:
        library: The client library.
        settings: What to connect to.
        resp: How to pack and parse.
    """

    library: ClientLibrary
    settings: ClientSettings
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
        settings = self._found(limit_s)
        connection = self._connection(settings, name, limit_s)
        try:
            connection.connect()
            if self.settings.sentinels is not None:
                check_master(_ask(connection, ROLE), settings.where)
            return _socket(connection)
        except Exception as error:
            connection.disconnect()
            embedded.revive(self.options.path)
            raise connect_failure(self.library.exceptions, error, settings.where) from error

    def _connection(self, settings: ClientSettings, name: str | None, limit_s: float) -> Any:
        chosen = settings.pick_class(self.library.blocking)
        return chosen(**settings.for_class(chosen, name, limit_s))

    def _found(self, limit_s: float) -> ClientSettings:
        """Return the settings of the server to connect to: as given, or of the master of this moment."""
        sentinels = self.settings.sentinels
        if sentinels is None:
            return self.settings
        errors: list[DriverError] = []
        silent: list[str] = []
        for place in sentinels.places:
            try:
                address = self._ask_sentinel(place, sentinels.service, sentinels.patience_s(limit_s))
            except DriverError as error:
                errors.append(error)
                continue
            if address is not None:
                sentinels.answered(place)
                return self.settings.at(address)
            silent.append(place.where)
        raise nobody_knows(self.where, sentinels.service, errors, silent)

    def _ask_sentinel(self, place: ClientSettings, service: str, limit_s: float) -> Address | None:
        connection = self._connection(place, None, limit_s)
        try:
            connection.connect()
            return read_master(_ask(connection, question(service)))
        except Exception as error:
            raise connect_failure(self.library.exceptions, error, f"sentinel {place.where}") from error
        finally:
            connection.disconnect()


def _ask(connection: Any, parts: tuple[str, ...]) -> Any:
    connection.send_command(*parts)
    return connection.read_response()


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


@attrs.frozen(kw_only=True)
class ClusterDialler:
    """A :class:`~echomq.sync.cluster.ClusterDialler` for libraries of redis-py's kind.

    Attributes:
        library: The client library.
        settings: What to connect to.
        table: Who owns which slot.
    """

    library: ClientLibrary
    settings: ClientSettings
    table: SlotTable

    @property
    def where(self) -> str:
        """See :class:`~echomq.sync.cluster.ClusterDialler`."""
        return self.settings.where

    @property
    def options(self) -> ConnectionOptions:
        """See :class:`~echomq.sync.cluster.ClusterDialler`."""
        return self.settings.options

    def at(self, address: Address) -> ClientDialler:
        """See :meth:`echomq.sync.cluster.ClusterDialler.at`."""
        return make_dialler(self.library, self.settings.at(address))


def make_dialler(library: ClientLibrary, settings: ClientSettings) -> ClientDialler:
    """Return what makes sockets for these settings."""
    return ClientDialler(library=library, settings=settings, resp=library.resp(settings.options.protocol))


def connect(library: ClientLibrary, source: ConnectionSource) -> Connection:
    """Make a connection from options or a ready client; touches no socket.

    Raises:
        UsageError: The ready client cannot be used.
    """
    settings = settings_for(library, source)
    cluster = settings.options.cluster
    if cluster is not None:
        return ClusterLink(ClusterDialler(library=library, settings=settings, table=SlotTable(cluster.seeds)))
    return Link(make_dialler(library, settings))
