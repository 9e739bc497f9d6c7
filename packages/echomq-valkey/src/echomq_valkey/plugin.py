"""Registers the driver; imports valkey-py only when a connection is made."""

from echomq.driver import AsyncConnection, Connection, ConnectionSource, DriverPlugin
from echomq.hookspecs import hookimpl

__all__ = ["echomq_register_driver"]

_REDIS = frozenset(["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"])
_VALKEY = frozenset(["valkey", "valkeys", "valkey+sentinel", "valkeys+sentinel", "valkey+cluster", "valkeys+cluster"])


def _owns(source: object) -> bool:
    return any(kind.__module__.partition(".")[0] == "valkey" for kind in type(source).__mro__)


def _connect(source: ConnectionSource) -> Connection:
    from echomq.sync.dialling import connect

    from .settings import LIBRARY

    return connect(LIBRARY, source)


def _connect_async(source: ConnectionSource) -> AsyncConnection:
    from echomq.aio.dialling import connect

    from .settings import LIBRARY

    return connect(LIBRARY, source)


@hookimpl
def echomq_register_driver() -> DriverPlugin:
    """Serve Valkey, and Redis where its own driver is not installed."""
    return DriverPlugin(
        name="valkey",
        schemes=_VALKEY,
        also=_REDIS | {"unix"},
        owns=_owns,
        connect=_connect,
        connect_async=_connect_async,
    )
