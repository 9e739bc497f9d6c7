"""What a driver gives to make a lane, and how long it may take to connect.

Source: design.md section 4.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from echomq.driver import Connection, ConnectionOptions
from echomq.errors import ConnectionLost
from echomq.resp import Resp

from .flights import Line

__all__ = ["Dialler", "cancelled_after"]


class Dialler(Protocol):
    """What a driver gives to make a lane.

    Attributes:
        where: Host and port, or path, for messages; no password.
        options: Deadlines and limits.
        resp: How to pack and parse.
    """

    @property
    def where(self) -> str: ...  # noqa: D102

    @property
    def options(self) -> ConnectionOptions: ...  # noqa: D102

    @property
    def resp(self) -> Resp: ...  # noqa: D102

    async def dial(self, name: str | None) -> Line:
        """Connect, greet, authenticate, select the database, set the client name.

        Nothing may be awaited between the last byte read and the return.

        Raises:
            ServerRefused: The server is there and does not want us.
            ConnectionLost: It cannot be reached.
        """
        ...

    def twin(self) -> Connection:
        """Return a blocking connection to the same server."""
        ...


@contextmanager
def cancelled_after(limit_ms: int, where: str) -> Iterator[None]:
    """Turn what takes too long into ``ConnectionLost``, without a task of its own as ``asyncio.wait_for`` has."""
    task = asyncio.current_task()
    late = False

    def cancel() -> None:
        nonlocal late
        late = True
        if task is not None:
            task.cancel()

    timer = asyncio.get_running_loop().call_later(limit_ms / 1000, cancel)
    try:
        yield
    except asyncio.CancelledError:
        if not late:
            raise
        uncancel = getattr(task, "uncancel", None)  # from Python 3.11 on a task counts its cancellations
        if uncancel is not None:
            uncancel()
        raise ConnectionLost(f"connecting to {where} took longer than {limit_ms} ms") from None
    finally:
        timer.cancel()
