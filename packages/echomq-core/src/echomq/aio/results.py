"""Wait for the results of jobs, for asyncio.

All waiters of a queue share one blocking read of its event log. It lives as long
as somebody waits.

Source: protocol spec 05 section 7.3; how no end is missed: :mod:`echomq.endings`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

from echomq.calls.events import newest_id, read_events
from echomq.endings import CHECK_MS, as_ending, find_ending, value_of
from echomq.errors import ConnectionClosed, EchoMQError, ResultTimeout
from echomq.moments import duration_ms

from .run import perform

if TYPE_CHECKING:
    from echomq.driver import AsyncConnection
    from echomq.endings import Ending
    from echomq.keys import Keys
    from echomq.moments import Duration

    from .queue import Queue

__all__ = ["Results", "result"]


async def result(self: Queue, job_id: str, *, timeout: Duration | None = None) -> Any:
    """Wait until a job has ended, and return its result.

    It may have ended long before, and retention may have removed it: as long as the
    event log tells of its end, the result is known.

    Args:
        job_id: The job.
        timeout: Longest wait, in ms or as ``timedelta``; None: as long as it takes.

    Raises:
        InvalidOption: That is no id of a job.
        JobFailed: It failed, and no attempt is left; tells why.
        JobRemoved: It does not exist, and nothing is known of its end.
        ResultTimeout: It did not end in time.
        DriverError: The server was not reached within the connection's deadline, or refused.
    """
    self.keys.job_named(job_id)
    limit_ms = None if timeout is None else duration_ms("timeout", timeout, minimum=1)
    ending = self._results.ending(job_id)
    try:
        found = await asyncio.wait_for(ending, None if limit_ms is None else limit_ms / 1000)
    except asyncio.TimeoutError:
        raise ResultTimeout(self.name, job_id, limit_ms or 0) from None
    return value_of(self.keys, found)


@attrs.define(eq=False)
class Results:
    """Who waits for which job of a queue.

    Attributes:
        keys: The queue.
        connection: For all but the blocking read.
    """

    keys: Keys
    connection: AsyncConnection
    _waiting: dict[str, list[asyncio.Future[Ending]]] = attrs.field(init=False, factory=dict)
    _link: AsyncConnection | None = attrs.field(init=False, default=None)
    _reader: asyncio.Task[None] | None = attrs.field(init=False, default=None)
    _begun: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    _is_closed: bool = attrs.field(init=False, default=False)

    async def ending(self, job_id: str) -> Ending:
        """Wait for the end of a job.

        Raises:
            EchoMQError: As :func:`result`, but for the timeout.
        """
        if self._is_closed:
            raise ConnectionClosed(f"queue {self.keys.queue!r} is closed; make another one")
        told: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job_id, []).append(told)
        try:
            await self._reading()
            while not told.done():
                found = await perform(self.connection, find_ending(self.keys, job_id))
                if found is not None:
                    return found
                await asyncio.wait([told], timeout=CHECK_MS / 1000)
            return await told
        finally:
            self._forget(job_id, told)

    def _forget(self, job_id: str, told: asyncio.Future[Ending]) -> None:
        self._waiting[job_id].remove(told)
        if not self._waiting[job_id]:
            del self._waiting[job_id]
        if told.done() and not told.cancelled():
            told.exception()  # seen, though perhaps nobody needed it

    async def _reading(self) -> None:
        """Return when a reader is at work that misses nothing from now on."""
        if self._reader is None or self._reader.done():
            if self._link is None:
                self._link = self.connection.dedicated()
            self._begun = asyncio.Event()
            self._reader = asyncio.get_running_loop().create_task(self._read(self._link, self._begun))
        await self._begun.wait()

    async def _read(self, link: AsyncConnection, begun: asyncio.Event) -> None:
        try:
            last_id = await link.send(newest_id(self.keys))
            begun.set()
            while self._waiting:
                for event in await link.send(read_events(self.keys, last_id, CHECK_MS)):
                    last_id = event.id
                    ending = as_ending(event)
                    if ending is not None:
                        self._tell(ending)
        except EchoMQError as error:
            for told in [told for waiters in self._waiting.values() for told in waiters if not told.done()]:
                told.set_exception(error)
        finally:
            begun.set()

    def _tell(self, ending: Ending) -> None:
        for told in self._waiting.get(ending.job_id, ()):
            if not told.done():
                told.set_result(ending)

    async def close(self) -> None:
        """End all waits with ``ConnectionClosed``."""
        self._is_closed = True
        if self._link is not None:
            await self._link.close()
        if self._reader is not None and self._reader.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([self._reader])
