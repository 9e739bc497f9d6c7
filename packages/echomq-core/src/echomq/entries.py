"""Entries of a queue's event log, read into events, and who listens to which.

Source: protocol spec 01 section 8; 05 section 7.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from . import codec, events, replies
from .call import Reply
from .checks import filled
from .errors import InvalidOption, ProtocolError
from .events import Broken, Event, Own
from .states import JobState

__all__ = ["Listeners", "check_own", "read_event", "start_id"]

_ID = re.compile(r"\d+(-\d+)?")

_KINDS: Mapping[str, type[Any]] = {
    "added": events.Added,
    "waiting": events.Waiting,
    "delayed": events.Delayed,
    "waiting-children": events.WaitingChildren,
    "active": events.Active,
    "progress": events.Progress,
    "completed": events.Completed,
    "failed": events.Failed,
    "retries-exhausted": events.RetriesExhausted,
    "stalled": events.Stalled,
    "duplicated": events.Duplicated,
    "deduplicated": events.Deduplicated,
    "removed": events.Removed,
    "drained": events.Drained,
    "paused": events.Paused,
    "resumed": events.Resumed,
    "cleaned": events.Cleaned,
}


def _state(word: str) -> JobState:
    try:
        return JobState.WAITING if word == "paused" else JobState.of(word)
    except InvalidOption:
        return JobState.UNKNOWN


def _number(text: str) -> int:
    found = codec.lenient_int(text, None)
    if found is None:
        raise ProtocolError("not a number")
    return found


_PARTS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "job_id": ("jobId", str),
    "name": ("name", str),
    "previous": ("prev", _state),
    "due_ms": ("delay", _number),
    "progress": ("data", codec.decode_json),
    "return_value": ("returnvalue", codec.decode_json),
    "reason": ("failedReason", str),
    "attempts_made": ("attemptsMade", _number),
    "deduplication_id": ("deduplicationId", str),
    "refused_job_id": ("deduplicatedJobId", str),
    "count": ("count", _number),
}
"""Attribute -> field of an entry, and how it is read."""

_ATTRIBUTES = {kind: [part for part in attrs.fields(kind) if part.name in _PARTS] for kind in _KINDS.values()}


def read_event(event_id: str, reply: Reply) -> Event:
    """Return the value of one entry of the log; never raises.

    Args:
        event_id: Its id.
        reply: Its fields: a flat list of names and values.
    """
    try:
        fields = replies.pairs(reply)
    except (ProtocolError, ValueError):
        return Broken(id=event_id, fields={}, problem="expected names and values")
    name = fields.get("event")
    if not name:
        return Broken(id=event_id, fields=fields, problem="it has no field 'event' with a name")
    kind = _KINDS.get(name)
    if kind is None:
        del fields["event"]
        return Own(id=event_id, name=name, fields=fields)
    return _known(kind, event_id, fields)


def _known(kind: type[Any], event_id: str, fields: Mapping[str, str]) -> Event:
    values = {"id": event_id}
    for part in _ATTRIBUTES[kind]:
        wire, read = _PARTS[part.name]
        if wire in fields:
            try:
                values[part.name] = read(fields[wire])
            except ProtocolError as error:
                return Broken(id=event_id, fields=fields, problem=f"its field {wire!r} is {error}")
        elif part.default is attrs.NOTHING:
            return Broken(id=event_id, fields=fields, problem=f"it has no field {wire!r}")
    event: Event = kind(**values)
    return event


def start_id(last_event_id: object) -> str | None:
    """Return the id after which a user wants to read; None for "from now on".

    Raises:
        InvalidOption: It is no id of an event.
    """
    if last_event_id is None or last_event_id == "$":
        return None
    if not isinstance(last_event_id, str) or not _ID.fullmatch(last_event_id):
        raise InvalidOption(
            "last_event_id",
            f"expected an event's id, '1700000000000-0', or '0-0' for the beginning, not {last_event_id!r}",
        )
    return last_event_id


def check_own(name: object, fields: Mapping[str, object]) -> dict[str, str]:
    """Return the fields of an event of the user's own as text.

    Raises:
        InvalidOption: The name is the protocol's, or empty, or a field is neither text nor a number.
    """
    if filled("name", name) in _KINDS:
        raise InvalidOption("name", f"{name!r} is what queues themselves tell; choose another name")
    texts = {}
    for field, value in fields.items():
        if not isinstance(field, str) or not field or field == "event":
            raise InvalidOption("fields", f"expected names that are text, not empty and not 'event', not {field!r}")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            raise InvalidOption(
                f"fields.{field}", f"expected text or a number, not {value!r}; JSON text holds the rest"
            )
        texts[field] = str(value)
    return texts


@attrs.define(eq=False)
class Listeners:
    """Who wants to hear of which events."""

    _by_kind: dict[type[Any] | str, tuple[Callable[..., Any], ...]] = attrs.field(init=False, factory=dict)

    def add(self, kind: type[Any] | str, listener: Callable[..., Any]) -> None:
        """Remember a listener.

        Args:
            kind: A class of events, or a name: the protocol's or an own one.
            listener: Called with the event.

        Raises:
            InvalidOption: It is neither.
        """
        kind = _kind_of(kind)
        self._by_kind[kind] = (*self._by_kind.get(kind, ()), listener)

    def remove(self, kind: type[Any] | str, listener: Callable[..., Any]) -> None:
        """Forget a listener; one that is not known is no error."""
        kind = _kind_of(kind)
        self._by_kind[kind] = tuple(known for known in self._by_kind.get(kind, ()) if known is not listener)

    def of(self, event: Event) -> tuple[Callable[..., Any], ...]:
        """Return whom to call, in the order they were added."""
        named = self._by_kind.get(event.name, ()) if isinstance(event, Own) else ()
        return self._by_kind.get(type(event), ()) + named


def _kind_of(kind: type[Any] | str) -> type[Any] | str:
    if isinstance(kind, str) and kind:
        return _KINDS.get(kind, kind)
    if kind in (*_KINDS.values(), Own, Broken):
        return kind
    raise InvalidOption("kind", f"expected a class of echomq.events or the name of an event, not {kind!r}")
