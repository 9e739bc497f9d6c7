"""How fast jobs come and go, told from a queue's event log.

The log is short on a busy queue, so what it no longer holds is not counted but
estimated: by the time between the events that were read.
"""

from collections import Counter
from collections.abc import Sequence

import attrs

from echomq.events import Added, Completed, Event, Failed

__all__ = ["Rates", "millisecond", "rates"]

_KINDS = {Added: "added", Completed: "completed", Failed: "failed"}


@attrs.frozen(kw_only=True)
class Rates:
    """Jobs a second.

    Attributes:
        added: That came.
        completed: That completed.
        failed: That failed for good.
    """

    added: float = 0.0
    completed: float = 0.0
    failed: float = 0.0


def rates(events: Sequence[Event], since_ms: int, until_ms: int, *, is_cut: bool) -> Rates:
    """Return how fast jobs came and went.

    Args:
        events: What happened, newest first.
        since_ms: The last look, by the server's clock.
        until_ms: This look.
        is_cut: There were more events than these.
    """
    if is_cut and events:
        since_ms = millisecond(events[-1].id)
    seconds = max(until_ms - since_ms, 1) / 1_000
    found = Counter(_KINDS.get(type(event)) for event in events)
    return Rates(
        added=found["added"] / seconds, completed=found["completed"] / seconds, failed=found["failed"] / seconds
    )


def millisecond(event_id: str) -> int:
    """Return when an event was written; 0 if its id does not say."""
    first = event_id.partition("-")[0]
    return int(first) if first.isdecimal() else 0
