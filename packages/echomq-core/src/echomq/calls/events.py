"""Read and write a queue's event log.

Source: protocol spec 01 section 8; 05 section 7.
"""

from collections.abc import Mapping
from itertools import chain

from echomq import replies
from echomq.call import Command, Reply
from echomq.entries import read_event
from echomq.events import BEGINNING, Event
from echomq.keys import Keys

__all__ = ["newest_id", "past_events", "publish_event", "read_events"]


def _read_entries(reply: Reply) -> list[Event]:
    return [read_event(replies.text(event_id), fields) for event_id, fields in replies.entries(reply)]


def _read_streams(reply: Reply) -> list[Event]:
    return [read_event(replies.text(event_id), fields) for event_id, fields in replies.stream(reply)]


def read_events(keys: Keys, after: str, block_ms: int, count: int = 1_000) -> Command[list[Event]]:
    """Read events that come after one, and wait for them; decodes to an empty list if none came.

    Args:
        keys: The queue.
        after: Id of the last event that is known.
        block_ms: Longest wait, at least 1.
        count: At most this many.
    """
    return Command(
        parts=("XREAD", "COUNT", count, "BLOCK", block_ms, "STREAMS", keys.events, after),
        decode=_read_streams,
        repeatable=True,
        block_ms=block_ms,
    )


def past_events(keys: Keys, before: str | None, count: int) -> Command[list[Event]]:
    """Read events, newest first.

    Args:
        keys: The queue.
        before: Only those before this id; None: from the newest on.
        count: At most this many.
    """
    end = "+" if before is None else f"({before}"
    return Command(parts=("XREVRANGE", keys.events, end, "-", "COUNT", count), decode=_read_entries, repeatable=True)


def newest_id(keys: Keys) -> Command[str]:
    """Ask for the id of the newest event, so that what comes after it can be read."""
    return Command(parts=("XREVRANGE", keys.events, "+", "-", "COUNT", 1), decode=_read_newest, repeatable=True)


def _read_newest(reply: Reply) -> str:
    found = replies.entries(reply)
    return replies.text(found[0][0]) if found else BEGINNING


def publish_event(keys: Keys, name: str, fields: Mapping[str, str], max_events: int) -> Command[str]:
    """Write an event of the user's own; decodes to its id.

    Args:
        keys: The queue.
        name: Of the event.
        fields: Its fields.
        max_events: Length at which the log is trimmed, about.

    Source: protocol spec 05 section 7.2.
    """
    cap = ("MAXLEN", "~", max_events)
    return Command(
        parts=("XADD", keys.events, *cap, "*", "event", name, *chain.from_iterable(fields.items())),
        decode=replies.text,
    )
