"""Connects with redis-py or valkey-py and takes the connected transport over.

The client does what it is good at: addresses, TLS, AUTH, HELLO, SELECT, the
client's name. After that its reader and writer are taken away from it and the
transport speaks to a lane directly. Where sentinels know the master, they are
asked first, every time.

Source: design.md section 4.
"""

import asyncio
from typing import Any

import attrs

from echomq import embedded
from echomq.client_errors import connect_failure
from echomq.client_settings import ClientLibrary, ClientSettings, settings_for
from echomq.cluster import SlotTable
from echomq.driver import Address, AsyncConnection, Connection, ConnectionOptions, ConnectionSource
from echomq.errors import ConnectionLost, DriverError, PluginError
from echomq.resp import Resp
from echomq.sentinel import ROLE, check_master, nobody_knows, question, read_master
from echomq.sync.cluster import ClusterLink
from echomq.sync.dialling import ClusterDialler as BlockingClusterDialler
from echomq.sync.dialling import make_dialler
from echomq.sync.link import Link

from .cluster import ClusterLane
from .flights import Line
from .lane import Lane

__all__ = ["ClientDialler", "ClusterDialler", "connect"]


@attrs.frozen(kw_only=True)
class ClientDialler:
    """A :class:`~echomq.aio.lane.Dialler` for libraries of redis-py's kind.

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
        settings = await self._found()
        connection = self._connection(settings, name, self.options.connect_timeout_ms / 1000)
        try:
            await connection.connect()
            if self.settings.sentinels is not None:
                check_master(await _ask(connection, ROLE), settings.where)
            return self._taken(connection)  # in the same step of the loop, as the contract wants
        except Exception as error:
            await _let_go(connection)
            if self.options.path is not None:
                await asyncio.to_thread(embedded.revive, self.options.path)
            raise connect_failure(self.library.exceptions, error, settings.where) from error
        except asyncio.CancelledError:
            await _let_go(connection)
            raise

    def _connection(self, settings: ClientSettings, name: str | None, limit_s: float) -> Any:
        chosen = settings.pick_class(self.library.asyncio)
        return chosen(**settings.for_class(chosen, name, limit_s))

    async def _found(self) -> ClientSettings:
        """Return the settings of the server to connect to: as given, or of the master of this moment."""
        sentinels = self.settings.sentinels
        if sentinels is None:
            return self.settings
        limit_s = sentinels.patience_s(self.options.connect_timeout_ms / 1000)
        errors: list[DriverError] = []
        silent: list[str] = []
        for place in sentinels.places:
            try:
                address = await self._ask_sentinel(place, sentinels.service, limit_s)
            except DriverError as error:
                errors.append(error)
                continue
            if address is not None:
                sentinels.answered(place)
                return self.settings.at(address)
            silent.append(place.where)
        raise nobody_knows(self.where, sentinels.service, errors, silent)

    async def _ask_sentinel(self, place: ClientSettings, service: str, limit_s: float) -> Address | None:
        connection = self._connection(place, None, limit_s)
        try:
            await connection.connect()
            return read_master(await _ask(connection, question(service)))
        except Exception as error:
            raise connect_failure(self.library.exceptions, error, f"sentinel {place.where}") from error
        finally:
            await _let_go(connection)

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


async def _let_go(connection: Any) -> None:
    """Close a connection that nobody needs now, and let the loop close its socket: this may be its last turn."""
    writer = getattr(connection, "_writer", None)
    await connection.disconnect(nowait=True)
    if writer is not None:
        writer.transport.abort()  # TLS would keep the socket until the server says goodbye
    await asyncio.sleep(0)


async def _ask(connection: Any, parts: tuple[str, ...]) -> Any:
    await connection.send_command(*parts)
    return await connection.read_response()


@attrs.frozen(kw_only=True)
class ClusterDialler:
    """A :class:`~echomq.aio.cluster.ClusterDialler` for libraries of redis-py's kind.

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
        """See :class:`~echomq.aio.cluster.ClusterDialler`."""
        return self.settings.where

    @property
    def options(self) -> ConnectionOptions:
        """See :class:`~echomq.aio.cluster.ClusterDialler`."""
        return self.settings.options

    def at(self, address: Address) -> ClientDialler:
        """See :meth:`echomq.aio.cluster.ClusterDialler.at`."""
        return _dialler(self.library, self.settings.at(address))

    def twin(self) -> Connection:
        """See :meth:`echomq.aio.cluster.ClusterDialler.twin`."""
        twin = BlockingClusterDialler(library=self.library, settings=self.settings, table=self.table)
        return ClusterLink(twin, is_single=True)


def _dialler(library: ClientLibrary, settings: ClientSettings) -> ClientDialler:
    return ClientDialler(library=library, settings=settings, resp=library.resp(settings.options.protocol))


def connect(library: ClientLibrary, source: ConnectionSource) -> AsyncConnection:
    """Make a connection from options or a ready client; touches no loop and no socket.

    Raises:
        UsageError: The ready client cannot be used.
    """
    settings = settings_for(library, source)
    cluster = settings.options.cluster
    if cluster is not None:
        return ClusterLane(ClusterDialler(library=library, settings=settings, table=SlotTable(cluster.seeds)))
    return Lane(_dialler(library, settings))
