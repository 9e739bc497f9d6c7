"""The numbers of a queue as text for Prometheus, with the names that BullMQ gives them.

Source: protocol spec 05 section 10.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .call import Batch
from .calls.metrics import get_metrics
from .calls.query import get_counts
from .errors import EchoMQError, InvalidOption
from .keys import Keys
from .plans import Plan
from .states import JobState

__all__ = ["exposition"]

_STATES = (
    *(JobState.ACTIVE, JobState.COMPLETED, JobState.DELAYED, JobState.FAILED),
    *(JobState.PRIORITIZED, JobState.WAITING, JobState.WAITING_CHILDREN),
)
_COUNTED = {
    JobState.COMPLETED: ("bullmq_job_completed_total", "Jobs that completed, as workers with metrics counted them"),
    JobState.FAILED: ("bullmq_job_failed_total", "Jobs that failed for good, as workers with metrics counted them"),
}
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN_LABELS = ("queue", "state")
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def exposition(keys: Keys, labels: Mapping[str, object] | None) -> Plan[str]:
    """Read a queue's numbers and return them as text.

    Args:
        keys: The queue.
        labels: Further labels of each line, in this order.

    Raises:
        InvalidOption: A label's name is not one, or taken.
    """
    extra = "".join(f', {name}="{_escaped(value)}"' for name, value in _checked(labels or {}))
    totals = tuple(get_metrics(keys, state, 0, 0) for state in _COUNTED)
    outcomes: list[Any] = yield Batch(requests=(get_counts(keys, _STATES), *totals))
    for outcome in outcomes:
        if isinstance(outcome, EchoMQError):
            raise outcome
    counts, *metrics = outcomes
    queue = f'queue="{_escaped(keys.queue)}"'
    lines = ["# HELP bullmq_job_count Jobs in each state", "# TYPE bullmq_job_count gauge"]
    lines += (f'bullmq_job_count{{{queue}, state="{state.value}"{extra}}} {counts[state]}' for state in _STATES)
    for (name, meaning), one in zip(_COUNTED.values(), metrics, strict=True):
        lines += (f"# HELP {name} {meaning}", f"# TYPE {name} counter", f"{name}{{{queue}{extra}}} {one.count}")
    return "\n".join(lines)


def _checked(labels: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    if not isinstance(labels, Mapping):
        raise InvalidOption("labels", f"expected a mapping of names to values, not {labels!r}")
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name) or name in _OWN_LABELS:
            raise InvalidOption("labels", f"a name is letters, digits and _, and not queue or state; not {name!r}")
        yield name, value


def _escaped(value: object) -> str:
    return str(value).translate(_ESCAPES)
