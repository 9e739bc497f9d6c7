"""The numbers of queues at one moment, for whoever watches them: Prometheus, OpenTelemetry, health checks.

Source: protocol spec 05 sections 8 and 10.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .calls.metrics import get_metrics
from .calls.query import get_counts
from .keys import Keys
from .plans import Plan, ask_all
from .states import JobState
from .watching import first_in_line, longest_wait_ms

__all__ = ["GAUGED", "QueueGauges", "gauges"]

GAUGED = (
    *(JobState.ACTIVE, JobState.COMPLETED, JobState.DELAYED, JobState.FAILED),
    *(JobState.PRIORITIZED, JobState.WAITING, JobState.WAITING_CHILDREN),
)
"""States whose jobs are counted, in the order in which they are told."""

_TOTALS = (JobState.COMPLETED, JobState.FAILED)


@attrs.frozen(kw_only=True)
class QueueGauges:
    """A queue at one moment.

    Attributes:
        keys: Of the queue.
        counts: Number of jobs in each state of :data:`GAUGED`.
        oldest_waiting_ms: For how long the job that is first in line has waited since it could run; 0 if none waits.
        totals: Jobs that completed and that failed for good, as workers with ``metrics`` counted them.
    """

    keys: Keys
    counts: Mapping[JobState, int]
    oldest_waiting_ms: int
    totals: Mapping[JobState, int]


def gauges(queues: Sequence[Keys], now_ms: int) -> Plan[list[QueueGauges]]:
    """Read the numbers of queues, all in one batch.

    Args:
        queues: Which.
        now_ms: The present.
    """
    asked: list[tuple[Any, ...]] = [
        (get_counts(keys, GAUGED), *first_in_line(keys), *(get_metrics(keys, state, 0, 0) for state in _TOTALS))
        for keys in queues
    ]
    replies = iter((yield from ask_all([request for requests in asked for request in requests])))
    return [
        _gauges(keys, [next(replies) for _ in requests], now_ms) for keys, requests in zip(queues, asked, strict=True)
    ]


def _gauges(keys: Keys, found: Sequence[Any], now_ms: int) -> QueueGauges:
    counts, *first, completed, failed = found
    return QueueGauges(
        keys=keys,
        counts=counts,
        oldest_waiting_ms=longest_wait_ms(first, now_ms),
        totals=dict(zip(_TOTALS, (completed.count, failed.count), strict=True)),
    )
