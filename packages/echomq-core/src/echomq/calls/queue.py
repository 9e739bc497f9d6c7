"""Steer a whole queue: pause, settings, emptying, moving all jobs of a state.

Repeatable are those that set a value or a mark. Those that drop or move what
they find are not: a second run would also take what came in between.

Source: protocol spec 04 sections 2.1, 2.2, 2.4 and 2.10; 01 section 7.
"""

from collections.abc import Mapping

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.checks import whole
from echomq.errors import InvalidOption, QueueHasActiveJobs, QueueNotPaused
from echomq.keys import Keys
from echomq.options import RateLimit
from echomq.states import JobState

__all__ = [
    "DEFAULT_MAX_EVENTS",
    "QueueMeta",
    "drain",
    "get_meta",
    "is_paused",
    "move_jobs_to_wait",
    "obliterate",
    "pause",
    "publish_event",
    "rate_limit",
    "remove_global_concurrency",
    "remove_global_rate_limit",
    "remove_rate_limit",
    "resume",
    "set_global_concurrency",
    "set_global_rate_limit",
    "trim_events",
    "write_meta",
]

DEFAULT_MAX_EVENTS = 10_000
"""Entries kept in the events stream, about."""

_FOREVER = "1.7976931348623157e+308"
_BLOCKED = 2**53 - 1
"""A count no limit reaches: what a manual rate limit writes into the counter (03 S10)."""


def pause(keys: Keys) -> ScriptCall[None]:
    """Let no worker take jobs of this queue until it is resumed. Repeatable; listeners may hear it twice."""
    return ScriptCall(
        script="pause",
        keys=(keys.wait, keys.paused, keys.meta, keys.prioritized, keys.events, keys.delayed, keys.marker),
        args=("paused", "1"),
        decode=replies.nothing,
        repeatable=True,
    )


def resume(keys: Keys, silent: bool = False) -> ScriptCall[int]:
    """Let workers take jobs again. Repeatable; listeners may hear it twice.

    Args:
        keys: The queue.
        silent: Tell no listener; for the second and later calls.

    Returns:
        Decodes to the number of jobs that an old client's pause put aside and that still
        are: call again until it is 0.
    """
    return ScriptCall(
        script="pause",
        keys=(keys.paused, keys.wait, keys.meta, keys.prioritized, keys.events, keys.delayed, keys.marker),
        args=("resumed", "0" if silent else "1"),
        decode=replies.number,
        repeatable=True,
    )


def is_paused(keys: Keys) -> Command[bool]:
    """Ask whether the queue is paused."""
    return Command(parts=("HEXISTS", keys.meta, "paused"), decode=replies.flag, repeatable=True)


def drain(keys: Keys, delayed: bool = False) -> ScriptCall[None]:
    """Drop all jobs that wait; the pending jobs of schedulers stay.

    Args:
        keys: The queue.
        delayed: Drop the delayed ones too.
    """
    return ScriptCall(
        script="drain",
        keys=(keys.wait, keys.paused, keys.delayed, keys.prioritized, keys.repeat),
        args=(keys.base, "1" if delayed else "0"),
        decode=replies.nothing,
    )


def _read_obliterated(reply: Reply) -> bool:
    code = replies.number(reply)
    if code == -1:
        raise QueueNotPaused("obliterate")
    if code == -2:
        raise QueueHasActiveJobs("obliterate")
    return code == 1


def obliterate(keys: Keys, count: int, force: bool) -> ScriptCall[bool]:
    """Delete a paused queue with all it holds, one step of it.

    Args:
        keys: The queue.
        count: Most jobs to remove in this step.
        force: Delete active jobs too.

    Returns:
        Decodes to True if there is more: call again.

    Raises:
        QueueNotPaused, QueueHasActiveJobs: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="obliterate",
        keys=(keys.meta, keys.base),
        args=(count, "force" if force else ""),
        decode=_read_obliterated,
    )


def move_jobs_to_wait(keys: Keys, state: JobState, count: int, until_ms: int | None = None) -> ScriptCall[bool]:
    """Put the jobs of one state back in line, one step of it.

    Args:
        keys: The queue.
        state: FAILED, COMPLETED or DELAYED.
        count: Most jobs to move in this step.
        until_ms: Only jobs that finished (or are due) until this moment; None for all.

    Returns:
        Decodes to True if there may be more: call again.

    Raises:
        InvalidOption: Another state.
    """
    if state not in (JobState.FAILED, JobState.COMPLETED, JobState.DELAYED):
        raise InvalidOption("state", f"failed, completed and delayed jobs can be moved to wait, not {state.value} ones")
    highest: int | str = _FOREVER
    if until_ms is not None:
        highest = (until_ms + 1) * 4096 - 1 if state is JobState.DELAYED else until_ms
    return ScriptCall(
        script="moveJobsToWait",
        keys=(
            *(keys.base, keys.events, keys.base + codec.STATE_NAMES[state], keys.wait),
            *(keys.paused, keys.meta, keys.active, keys.marker),
        ),
        args=(count, highest, state.value),
        decode=replies.flag,
    )


def rate_limit(keys: Keys, duration_ms: int) -> Command[None]:
    """Let no worker with a limit take jobs for a while. Repeatable: it starts anew.

    Source: protocol spec 03 section 2, S10.
    """
    return Command(parts=("SET", keys.limiter, _BLOCKED, "PX", duration_ms), decode=replies.nothing, repeatable=True)


def remove_rate_limit(keys: Keys) -> Command[bool]:
    """End a rate limit now; decodes to False if there was none."""
    return Command(parts=("DEL", keys.limiter), decode=replies.flag, repeatable=True)


def write_meta(keys: Keys, *, version: str, max_events: int = DEFAULT_MAX_EVENTS) -> Command[None]:
    """Store what a queue's client says once it is connected; workers do not. Repeatable.

    Args:
        keys: The queue.
        version: ``"<library>:<version>"``.
        max_events: Entries to keep in the events stream, about.
    """
    return Command(
        parts=("HSET", keys.meta, "opts.maxLenEvents", max_events, "version", version),
        decode=replies.nothing,
        repeatable=True,
    )


@attrs.frozen(kw_only=True)
class QueueMeta:
    """Settings of a queue that all its clients share.

    Attributes:
        is_paused: No worker takes jobs.
        concurrency: Most active jobs over all workers; None for no limit.
        max: Most jobs started in each ``duration_ms``; None for no limit.
        duration_ms: Length of that window.
        max_events: Entries kept in the events stream, about.
        version: Library and version of the client that wrote last.
        other: What this version does not know.
    """

    is_paused: bool = False
    concurrency: int | None = None
    max: int | None = None
    duration_ms: int | None = None
    max_events: int | None = None
    version: str | None = None
    other: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def rate_limit(self) -> RateLimit | None:
        """Most starts in a time; None unless both parts are set."""
        return RateLimit(self.max, self.duration_ms) if self.max and self.duration_ms else None


_META_NUMBERS = {
    "concurrency": "concurrency",
    "max": "max",
    "duration": "duration_ms",
    "opts.maxLenEvents": "max_events",
}


def get_meta(keys: Keys) -> Command[QueueMeta]:
    """Read the settings of a queue."""
    return Command(parts=("HGETALL", keys.meta), decode=_read_meta, repeatable=True)


def _read_meta(reply: Reply) -> QueueMeta:
    fields = replies.pairs(reply)
    is_paused = fields.pop("paused", None) is not None  # presence counts, whatever the value
    version = fields.pop("version", None)
    numbers = {name: codec.lenient_int(fields.pop(wire)) for wire, name in _META_NUMBERS.items() if wire in fields}
    return QueueMeta(is_paused=is_paused, version=version, other=fields, **numbers)


def set_global_concurrency(keys: Keys, concurrency: int) -> Command[None]:
    """Allow so many active jobs over all workers. Repeatable."""
    _at_least_one("concurrency", concurrency)
    return Command(parts=("HSET", keys.meta, "concurrency", concurrency), decode=replies.nothing, repeatable=True)


def remove_global_concurrency(keys: Keys) -> Command[bool]:
    """Allow any number of active jobs; decodes to False if nothing was set. Repeatable."""
    return Command(parts=("HDEL", keys.meta, "concurrency"), decode=replies.flag, repeatable=True)


def set_global_rate_limit(keys: Keys, max_jobs: int, duration_ms: int) -> Command[None]:
    """Allow so many starts in each window over all workers. Repeatable.

    Args:
        keys: The queue.
        max_jobs: Jobs in one window; wins over the workers' own.
        duration_ms: Length of the window; a worker's own wins over it.
    """
    _at_least_one("max", max_jobs)
    _at_least_one("duration", duration_ms)
    return Command(
        parts=("HSET", keys.meta, "max", max_jobs, "duration", duration_ms), decode=replies.nothing, repeatable=True
    )


def remove_global_rate_limit(keys: Keys) -> Command[bool]:
    """Allow any number of starts; decodes to False if nothing was set. Repeatable."""
    return Command(parts=("HDEL", keys.meta, "max", "duration"), decode=_is_positive, repeatable=True)


def _is_positive(reply: Reply) -> bool:
    return replies.number(reply) > 0


def _at_least_one(field: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidOption(field, f"must be a whole number of at least 1, not {value!r}")


def trim_events(keys: Keys, count: int) -> Command[int]:
    """Shorten the events stream to about ``count`` entries; decodes to how many went. Repeatable.

    Raises:
        InvalidOption: ``count`` is no count.
    """
    whole("length", count)
    return Command(parts=("XTRIM", keys.events, "MAXLEN", "~", count), decode=replies.number, repeatable=True)


def publish_event(
    keys: Keys, name: str, fields: Mapping[str, str], *, max_events: int = DEFAULT_MAX_EVENTS
) -> Command[str]:
    """Put an event of the user's own into the queue's stream; decodes to its id there.

    Args:
        keys: The queue.
        name: Name of the event; not empty.
        fields: Anything; values are text.
        max_events: Shortens the whole stream to about so many entries.

    Source: protocol spec 05 section 7.2.
    """
    if not name or "event" in fields:
        raise InvalidOption("event", "an event has a name, and no field called 'event'")
    flat = [part for pair in fields.items() for part in pair]
    return Command(
        parts=("XADD", keys.events, "MAXLEN", "~", max_events, "*", "event", name, *flat), decode=replies.text
    )
