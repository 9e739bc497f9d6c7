"""Opens connections for asyncio."""

import os

from echomq import embedded, plugins
from echomq.driver import AsyncConnection, ConnectionSource

__all__ = ["connect"]


def connect(source: ConnectionSource = None, *, driver: str | None = None) -> AsyncConnection:
    """Make a connection; it is opened by its first request, in the loop that sends it.

    Args:
        source: A URL (``redis://``, ``rediss://``, ``valkey://``, ``valkeys://``, ``unix://``, or
            ``embedded:``, which starts a server at once), :class:`~echomq.driver.ConnectionOptions`,
            or a ready client of redis-py or valkey-py, which is only read. None takes the URL
            from the environment variable ``ECHOMQ_URL``.
        driver: Name of the driver, ``"redis"`` or ``"valkey"``; None chooses by ``source``.

    Raises:
        DriverMissing: No installed driver serves this.
        UsageError: The URL is wrong, or there is none.
    """
    where = os.environ.get("ECHOMQ_URL") if source is None else source
    return plugins.connect_async(embedded.resolve(where), driver=driver)
