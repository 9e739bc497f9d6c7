"""A driver for URLs such as ``tincan://localhost:6379``.

This module is imported in every program that uses EchoMQ, so it imports what it
connects with only when somebody connects.
"""

from echomq.driver import AsyncConnection, Connection, ConnectionSource, DriverPlugin
from echomq.hookspecs import hookimpl


def _connect(source: ConnectionSource) -> Connection:
    from .tincan_links import connect

    return connect(source)


def _connect_async(source: ConnectionSource) -> AsyncConnection:
    from .tincan_links import connect_async

    return connect_async(source)


@hookimpl
def echomq_register_driver() -> DriverPlugin:
    """Serve ``tincan://`` URLs, with no client library at all."""
    return DriverPlugin(
        name="tincan",
        schemes=frozenset({"tincan"}),
        owns=lambda _: False,  # there are no ready clients of it
        connect=_connect,
        connect_async=_connect_async,
    )
