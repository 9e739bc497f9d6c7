"""What only the server knows of queues: how many jobs there are, and for how long the first in line has waited."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter

from echomq.clock import wall_ms
from echomq.errors import EchoMQError
from echomq.gauging import QueueGauges as Found
from echomq.gauging import gauges
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.sync import connect
from echomq.sync.run import is_open, perform
from echomq.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self

    from echomq.driver import Connection, ConnectionSource

__all__ = ["QueueGauges"]

_log = logging.getLogger("echomq.opentelemetry")

_PATIENCE_MS = 5_000
"""Longest wait for the server; a reader of metrics waits for all its callbacks."""

_FRESH_MS = 500
"""The instruments are asked one after the other, and answer out of one reading."""


class QueueGauges:
    """Observes queues: asks the server whenever measurements are exported, and never else.

    It blocks the thread that exports, not the program's own, and tells nothing while
    the server does not answer. Observe each queue in one process, not in every worker.

    ``bullmq.queue.jobs`` is the number of jobs in each state, under the name that BullMQ for Node
    gives it; ``echomq.queue.oldest_waiting`` for how long the job that is first in line has waited.

    Args:
        queues: Their names.
        connection: A URL, options, a ready blocking client, or an open blocking connection, which stays open.
            None takes the URL from ``ECHOMQ_URL``.
        prefix: Name space of the queues.
        meter_provider: Takes the measurements; None: the one that the program has set.

    Raises:
        InvalidOption: A name is not acceptable.
        DriverMissing: No installed driver serves the connection.
    """

    def __init__(
        self,
        queues: Iterable[str],
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._queues = [Keys(queue, prefix) for queue in queues]
        self._is_owner = not is_open(connection)
        self._connection: Connection = connect(connection) if self._is_owner else connection
        self._lock = threading.Lock()
        self._found: list[Found] = []
        self._read_at_ms = 0
        self._is_closed = self._has_complained = False
        meter = get_meter("echomq", __version__, meter_provider)
        meter.create_observable_gauge(
            "bullmq.queue.jobs", [self._counts], "{jobs}", "Number of jobs in the queue by state"
        )
        meter.create_observable_gauge(
            "echomq.queue.oldest_waiting", [self._waits], "s", "How long the job that is first in line has waited"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Observe no more, and let go of the connection if it was made here. Twice does no harm."""
        with self._lock:
            self._is_closed = True
            if self._is_owner:
                self._is_owner = False
                self._connection.close()

    def _counts(self, _: CallbackOptions) -> Iterable[Observation]:
        for one in self._read():
            for state, count in one.counts.items():
                yield Observation(count, {"bullmq.queue.name": one.keys.queue, "bullmq.queue.jobs.state": state.value})

    def _waits(self, _: CallbackOptions) -> Iterable[Observation]:
        for one in self._read():
            yield Observation(one.oldest_waiting_ms / 1000, {"bullmq.queue.name": one.keys.queue})

    def _read(self) -> list[Found]:
        with self._lock:
            now_ms = wall_ms()
            if self._is_closed:
                return []
            if abs(now_ms - self._read_at_ms) > _FRESH_MS:
                self._found = self._asked(now_ms)
                self._read_at_ms = now_ms
            return self._found

    def _asked(self, now_ms: int) -> list[Found]:
        try:
            found = perform(self._connection, gauges(self._queues, now_ms), deadline_ms=_PATIENCE_MS)
        except EchoMQError as error:
            if not self._has_complained:
                _log.warning("queues cannot be observed now: %s", error)
            self._has_complained = True
            return []
        self._has_complained = False
        return found
