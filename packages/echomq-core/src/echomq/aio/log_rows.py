"""Rows for a job's log that its code does not wait for, such as records of ``logging``.

They are stored one after the other, and before the attempt ends.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import attrs

from echomq.errors import EchoMQError

__all__ = ["LogRows"]

_log = logging.getLogger("echomq.worker")

_MOST = 10_000
"""Rows that may wait; what a job logs beyond them while the server is away is counted, not kept."""


@attrs.define(eq=False)
class LogRows:
    """The rows of one job that are on their way.

    Attributes:
        job_id: The job.
        store: Appends a row to its log.
    """

    job_id: str
    store: Callable[[str], Awaitable[object]]
    _rows: "deque[str]" = attrs.field(init=False, factory=deque)
    _lost_count: int = attrs.field(init=False, default=0)
    _writing: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)

    def add(self, row: str) -> None:
        """Append a row when it is its turn."""
        if len(self._rows) >= _MOST:
            self._lost_count += 1
            return
        self._rows.append(row)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def settle(self) -> None:
        """Wait until all rows are stored, or cannot be."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        try:
            while self._rows:
                await self.store(self._rows.popleft())
            if self._lost_count:
                lost_count, self._lost_count = self._lost_count, 0
                await self.store(f"({lost_count} rows were lost)")
        except EchoMQError as error:
            self._rows.clear()
            _log.warning("job %s: what it logs cannot be stored: %s", self.job_id, error)
        finally:
            self._writing = None
