"""Registers the driver; imports the engine only when a connection is made."""

from echomq.driver import AsyncConnection, Connection, ConnectionSource, DriverPlugin
from echomq.hookspecs import hookimpl

__all__ = ["echomq_register_driver"]


def _connect(source: ConnectionSource) -> Connection:
    from .dialling import connect

    return connect(source)


def _connect_async(source: ConnectionSource) -> AsyncConnection:
    from .dialling import connect_async

    return connect_async(source)


def _owns(_source: object) -> bool:
    return False


@hookimpl
def echomq_register_driver() -> DriverPlugin:
    """Serve ``memory://NAME``: queues that live in this process."""
    return DriverPlugin(
        name="memory",
        schemes=frozenset({"memory"}),
        owns=_owns,
        connect=_connect,
        connect_async=_connect_async,
    )
