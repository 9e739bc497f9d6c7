"""How a queue is doing, blocking: its counters, its workers, how long jobs wait.

Methods of :class:`~echomq.Queue`.

Source: protocol spec 05 sections 1, 8 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import prometheus as prometheus_text
from echomq import watching
from echomq.calls import metrics
from echomq.clock import wall_ms
from echomq.states import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from echomq.calls.clients import Client
    from echomq.calls.metrics import Metrics
    from echomq.calls.presence import WorkerDetails

    from .queue import Queue

__all__ = ["get_event_readers", "get_latency_ms", "get_metrics", "get_worker_details", "get_workers", "prometheus"]


def get_metrics(self: Queue, state: JobState | str, start: int = 0, end: int = -1) -> Metrics:
    """Return how many jobs completed or failed in each minute, if a worker counts them."""
    return self._send(metrics.get_metrics(self.keys, JobState.of(state), start, end))


def prometheus(self: Queue, labels: Mapping[str, object] | None = None) -> str:
    """Return counts, totals and the age of the oldest waiting job as text for Prometheus, named as by BullMQ.

    Totals are 0 unless a worker counts (its option ``metrics``).

    Args:
        labels: Further labels of each line.

    Raises:
        InvalidOption: A label's name is not one.
    """
    return self._perform(prometheus_text.exposition(self.keys, labels, wall_ms()))


def get_latency_ms(self: Queue) -> int:
    """Return for how long the job that is first in line has waited since it could run; 0 if none waits."""
    return self._perform(watching.latency(self.keys, wall_ms()))


def get_workers(self: Queue) -> list[Client]:
    """List the workers that are connected, of all runtimes that name their connections as Node does.

    Raises:
        ServerRefused: The server, or the user's rights, does not allow to list clients.
    """
    return self._perform(watching.workers(self.keys))


def get_worker_details(self: Queue) -> list[WorkerDetails]:
    """Tell of the workers that run now, on which machine, since when, and what they run; of this library only.

    A worker tells of itself every 15 s, first after a quarter of its ``lock_duration``; one that dies is
    gone after 45 s. One with ``skip_lock_renewal`` tells nothing.
    """
    return self._perform(watching.worker_details(self.keys))


def get_event_readers(self: Queue) -> list[Client]:
    """List the readers of the queue's events that are connected; as :meth:`get_workers`."""
    return self._perform(watching.event_readers(self.keys))
