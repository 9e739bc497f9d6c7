"""Hears what others want of the jobs that a blocking worker runs; the twin of :mod:`echomq.aio.control`.

One more connection, and only while it can matter: it is opened when a job has run
for a moment, and let go when the worker holds none.

Source: :mod:`echomq.calls.control`.
"""

import logging
import threading
import time
from collections.abc import Callable

import attrs

from echomq.calls.control import BEGINNING, read_wishes
from echomq.chance import dice
from echomq.driver import Connection
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


@attrs.define(eq=False, kw_only=True)
class Control:
    """Listens for one run of a worker.

    Attributes:
        keys: The queue.
        connect: Makes the connection.
        slots: The jobs.
        later: Calls a function after so many seconds, in the thread that runs the worker.
        start: Runs a function in another thread.
    """

    keys: Keys
    connect: Callable[[], Connection]
    slots: Slots
    later: Callable[[float, Callable[[], object]], object]
    start: Callable[[Callable[[], object]], None]
    _is_busy: bool = attrs.field(init=False, default=False)
    _heard: str = attrs.field(init=False, default=BEGINNING)
    _off: threading.Event = attrs.field(init=False, factory=threading.Event)
    _connection: Connection | None = attrs.field(init=False, default=None)

    def started(self) -> None:
        """Note that a job started; called for each, so it does as good as nothing."""
        if not self._is_busy and not self._off.is_set():
            self._is_busy = True
            self.later(_LISTEN_AFTER_S, self._look)

    def _look(self) -> None:
        oldest = next(iter(list(self.slots.held)), None)
        if oldest is None:
            self._is_busy = False
        elif time.monotonic() - oldest.renewed_at_s < _LISTEN_AFTER_S:
            self.later(_LISTEN_AFTER_S, self._look)
        else:
            self.start(self._read)

    def close(self) -> None:
        """Listen no more."""
        self._off.set()
        connection = self._connection
        if connection is not None:
            connection.close()

    def _read(self) -> None:
        self._connection = connection = self.connect()
        failures = 0
        while self.slots.held and not self._off.is_set():
            try:
                self._read_once(connection)
                failures = 0
            except EchoMQError as error:
                failures += 1
                self._rest(error, failures)
        connection.close()
        self._connection = None
        self._is_busy = False
        if self.slots.held:
            self.started()  # it came while this ended

    def _read_once(self, connection: Connection) -> None:
        for wish in connection.send(read_wishes(self.keys, self._heard, _BLOCK_MS)):
            self._heard = wish.id
            self.slots.cancel(wish.job_id, wish.reason, wish.token)

    def _rest(self, error: EchoMQError, failures: int) -> None:
        """Wait through an outage, of which the worker's other calls tell; else leave off."""
        if is_passing(error):
            self._off.wait(pause_ms(failures, dice()) / 1000)
            return
        if not self._off.is_set():
            _log.warning("worker of queue %s: its jobs cannot be cancelled from elsewhere: %s", self.keys.queue, error)
        self._off.set()
