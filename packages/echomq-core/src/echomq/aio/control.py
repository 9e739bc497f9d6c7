"""Hears what others want of the jobs that a worker runs.

One more connection, and only while it can matter: it is opened when a job has run
for a moment, and let go when the worker holds none. Short jobs cost one timer now
and then. Wishes stay in the channel, so one that came before is heard too.

Source: :mod:`echomq.calls.control`.
"""

import asyncio
import logging
import time
from collections.abc import Callable

import attrs

from echomq.calls.control import BEGINNING, read_wishes
from echomq.chance import dice
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.scheduling.settling import is_passing
from echomq.scheduling.timing import pause_ms

from .slots import Slots

__all__ = ["Control"]

_log = logging.getLogger("echomq.worker")

_LISTEN_AFTER_S = 0.2
"""How long a job runs before its worker listens; what ends sooner can hardly be cancelled in time."""

_BLOCK_MS = 5_000
"""Longest single read; an idle worker lets go of the connection after it."""


@attrs.define(eq=False)
class Control:
    """Listens for one run of a worker.

    Attributes:
        keys: The queue.
        connect: Makes the connection.
        slots: The jobs.
    """

    keys: Keys
    connect: Callable[[], AsyncConnection]
    slots: Slots
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _timer: asyncio.TimerHandle | None = attrs.field(init=False, default=None)
    _reader: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)
    _heard: str = attrs.field(init=False, default=BEGINNING)
    _is_off: bool = attrs.field(init=False, default=False)

    def started(self) -> None:
        """Note that a job started; called for each, so it does as good as nothing."""
        if self._timer is None and self._reader is None and not self._is_off:
            self._timer = self._loop.call_later(_LISTEN_AFTER_S, self._look)

    def _look(self) -> None:
        self._timer = None
        oldest = next(iter(self.slots.held), None)
        if oldest is None:
            return
        if time.monotonic() - oldest.renewed_at_s < _LISTEN_AFTER_S:
            self.started()
        else:
            self._reader = self._loop.create_task(self._read())

    async def close(self) -> None:
        """Listen no more."""
        self._is_off = True
        if self._timer is not None:
            self._timer.cancel()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def _read(self) -> None:
        connection = self.connect()
        failures = 0
        try:
            while self.slots.held and not self._is_off:
                try:
                    await self._read_once(connection)
                    failures = 0
                except EchoMQError as error:
                    failures += 1
                    await self._rest(error, failures)
        finally:
            self._reader = None
            await connection.close()

    async def _read_once(self, connection: AsyncConnection) -> None:
        for wish in await connection.send(read_wishes(self.keys, self._heard, _BLOCK_MS)):
            self._heard = wish.id
            self.slots.cancel(wish.job_id, wish.reason, wish.token)

    async def _rest(self, error: EchoMQError, failures: int) -> None:
        """Wait through an outage, of which the worker's other calls tell; else leave off."""
        if is_passing(error):
            await asyncio.sleep(pause_ms(failures, dice()) / 1000)
            return
        self._is_off = True
        _log.warning("worker of queue %s: its jobs cannot be cancelled from elsewhere: %s", self.keys.queue, error)
