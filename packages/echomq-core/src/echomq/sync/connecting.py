"""Opens blocking connections."""

import os

from echomq import embedded, plugins
from echomq.driver import Connection, ConnectionSource

__all__ = ["connect"]


def connect(source: ConnectionSource = None, *, driver: str | None = None) -> Connection:
    """Make a blocking connection; it is opened by its first request. Threads may share it.

    Args:
        source: As :func:`echomq.connect` takes it.
        driver: As :func:`echomq.connect` takes it.

    Raises:
        DriverMissing: No installed driver serves this.
        UsageError: The URL is wrong, or there is none.
    """
    where = os.environ.get("ECHOMQ_URL") if source is None else source
    return plugins.connect(embedded.resolve(where), driver=driver)
