"""The numbers of queues as text for Prometheus, with the names that BullMQ gives them and a few of our own.

Labels are the queue, the state, and what the user adds: none grows with the jobs.

Source: protocol spec 05 section 10.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .errors import InvalidOption
from .gauging import GAUGED, QueueGauges, gauges
from .keys import Keys
from .plans import Plan
from .states import JobState

__all__ = ["CONTENT_TYPE", "checked_labels", "exposition", "told"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTED = {
    JobState.COMPLETED: ("bullmq_job_completed_total", "Jobs that completed, as workers with metrics counted them"),
    JobState.FAILED: ("bullmq_job_failed_total", "Jobs that failed for good, as workers with metrics counted them"),
}
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_LABELS = ("queue", "state")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(keys: Keys, labels: Mapping[str, object] | None, now_ms: int) -> Plan[str]:
    """Read a queue's numbers and return them as text.

    Args:
        keys: The queue.
        labels: Further labels of each line, in this order.
        now_ms: The present.

    Raises:
        InvalidOption: A label's name is not one, or taken.
    """
    extra = checked_labels(labels)
    found = yield from gauges([keys], now_ms)
    return told(found, extra)


def checked_labels(labels: Mapping[str, object] | None) -> str:
    """Return further labels as they stand in each line.

    Raises:
        InvalidOption: A label's name is not one, or taken.
    """
    return "".join(f', {name}="{_escaped(value)}"' for name, value in _checked({} if labels is None else labels))


def told(found: Sequence[QueueGauges], extra: str = "", workers: Mapping[Keys, int] | None = None) -> str:
    """Return numbers of queues as text, each metric once with the lines of all queues.

    Args:
        found: The numbers.
        extra: Further labels, from :func:`checked_labels`.
        workers: Connected workers of each queue, where the server tells.
    """
    each = [(f'queue="{_escaped(one.keys.queue)}"', one) for one in found]
    lines = _metric(
        *("bullmq_job_count", "gauge", "Jobs in each state"),
        ((f'{queue}, state="{state.value}"{extra}', one.counts[state]) for queue, one in each for state in GAUGED),
    )
    for state, (name, meaning) in _COUNTED.items():
        lines += _metric(name, "counter", meaning, ((f"{queue}{extra}", one.totals[state]) for queue, one in each))
    lines += _metric(
        *("echomq_oldest_waiting_seconds", "gauge", "How long the job that is first in line has waited, 0 if none is"),
        ((f"{queue}{extra}", one.oldest_waiting_ms / 1000) for queue, one in each),
    )
    if workers is not None:
        counted = ((f"{queue}{extra}", workers[one.keys]) for queue, one in each)
        lines += _metric("echomq_workers", "gauge", "Connected workers, of all runtimes", counted)
    return "\n".join(lines)


def _metric(name: str, kind: str, meaning: str, values: Iterable[tuple[str, float]]) -> list[str]:
    lines = (f"{name}{{{labels}}} {value}" for labels, value in values)
    return [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *lines]


def _checked(labels: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    if not isinstance(labels, Mapping):
        raise InvalidOption("labels", f"expected a mapping of names to values, not {labels!r}")
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name) or name in _OWN_LABELS:
            raise InvalidOption("labels", f"a name is letters, digits and _, and not queue or state; not {name!r}")
        yield name, value


def _escaped(value: object) -> str:
    return str(value).translate(_ESCAPES)
