"""Read what workers counted, minute by minute.

Source: protocol spec 01 section 2; 04 section 3.6.
"""

import attrs

from echomq import replies
from echomq.call import Reply, ScriptCall
from echomq.errors import InvalidOption
from echomq.keys import Keys
from echomq.states import JobState

__all__ = ["Metrics", "get_metrics"]


@attrs.frozen(kw_only=True)
class Metrics:
    """What a queue counted.

    Attributes:
        count: Jobs so far.
        previous_ms: When the last point was written; 0 for never.
        previous_count: Jobs so far at that moment.
        points: Jobs in each minute, newest first.
        point_count: How many points there are in all.
    """

    count: int
    previous_ms: int
    previous_count: int
    points: tuple[int, ...]
    point_count: int


def get_metrics(keys: Keys, state: JobState, start: int = 0, end: int = -1) -> ScriptCall[Metrics]:
    """Read how many jobs completed or failed, in all and in each minute.

    Args:
        keys: The queue.
        state: COMPLETED or FAILED.
        start: First point, 0 is the newest.
        end: Last point; -1 for all.

    Raises:
        InvalidOption: Another state.

    Source: protocol spec 04 section 3.6.
    """
    if not state.is_finished:
        raise InvalidOption("state", f"only completed and failed jobs are counted, not {state.value} ones")
    return ScriptCall(
        script="getMetrics",
        keys=(keys.metrics(state.value), keys.metrics_data(state.value)),
        args=(start, end),
        decode=_read_metrics,
        repeatable=True,
    )


def _read_metrics(reply: Reply) -> Metrics:
    meta, points, point_count = replies.rows(reply, 3)
    count, previous_ms, previous_count = (*replies.items(meta), None, None, None)[:3]
    return Metrics(
        count=replies.number(count),
        previous_ms=replies.number(previous_ms),
        previous_count=replies.number(previous_count),
        points=tuple(map(replies.number, replies.items(points))),
        point_count=replies.number(point_count),
    )
