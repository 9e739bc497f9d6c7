"""How the wire spells what Python calls otherwise: options, states, fields of a job's hash.

The texts themselves (JSON, msgpack) are :mod:`echomq.texts`; their functions can be had here too.

Source: protocol spec 01 sections 3 and 4.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from .states import JobState
from .texts import MAX_DEPTH, Raw, as_utf8, check_json, decode_json, encode_json, pack, quick_json, strict_json, text

__all__ = [
    "BACKOFF_NAMES",
    "DEDUPLICATION_NAMES",
    "JOB_OPTION_FIELDS",
    "JOB_OPTION_NAMES",
    "KEEP_NAMES",
    "MAX_DEPTH",
    "NESTED_OPTION_NAMES",
    "PARENT_NAMES",
    "PLAIN_FIELDS",
    "REPEAT_NAMES",
    "STATE_NAMES",
    "Raw",
    "as_utf8",
    "check_json",
    "decode_json",
    "encode_json",
    "lenient_int",
    "pack",
    "pairs",
    "plain_hash",
    "quick_json",
    "read_hash",
    "strict_json",
    "text",
    "to_wire",
]

JOB_OPTION_NAMES: Mapping[str, str] = {
    "attempts": "attempts",
    "backoff": "backoff",
    "delay": "delay",
    "priority": "priority",
    "lifo": "lifo",
    "remove_on_complete": "removeOnComplete",
    "remove_on_fail": "removeOnFail",
    "stack_trace_limit": "stackTraceLimit",
    "size_limit": "sizeLimit",
    "job_id": "jobId",
    "timestamp": "timestamp",
    "parent": "parent",
    "repeat": "repeat",
    "keep_logs": "kl",
    "deduplication": "de",
    "fail_parent_on_failure": "fpof",
    "continue_parent_on_failure": "cpof",
    "ignore_dependency_on_failure": "idof",
    "remove_dependency_on_failure": "rdof",
    "telemetry_metadata": "tm",
    "omit_context": "omc",
    "timeout": "timeout",  # ours; other clients keep it and do not look at it
}
"""Job options: Python name -> name inside the stored ``opts``."""

DEDUPLICATION_NAMES: Mapping[str, str] = {
    "id": "id",
    "ttl": "ttl",
    "extend": "extend",
    "replace": "replace",
    "reschedule": "reschedule",
    "keep_last_if_active": "keepLastIfActive",
}
BACKOFF_NAMES: Mapping[str, str] = {"type": "type", "delay": "delay", "jitter": "jitter"}
KEEP_NAMES: Mapping[str, str] = {"age_s": "age", "count": "count", "limit": "limit"}
PARENT_NAMES: Mapping[str, str] = {"id": "id", "queue": "queue"}
REPEAT_NAMES: Mapping[str, str] = {
    "every": "every",
    "pattern": "pattern",
    "tz": "tz",
    "limit": "limit",
    "start_date": "startDate",
    "end_date": "endDate",
    "offset": "offset",
    "count": "count",
}

JOB_OPTION_FIELDS: Mapping[str, str] = {wire: field for field, wire in JOB_OPTION_NAMES.items()}
"""The same, from the stored name to Python's."""

NESTED_OPTION_NAMES: Mapping[str, Mapping[str, str]] = {
    "backoff": BACKOFF_NAMES,
    "deduplication": DEDUPLICATION_NAMES,
    "parent": PARENT_NAMES,
    "repeat": REPEAT_NAMES,
}
"""Options that are maps: Python name -> names of their parts."""

STATE_NAMES: Mapping[JobState, str] = {state: state.value for state in JobState} | {JobState.WAITING: "wait"}
"""Names of the states as key suffixes and script arguments."""


@overload
def lenient_int(raw: Raw | float, default: int = 0) -> int: ...
@overload
def lenient_int(raw: Raw | float, default: None) -> int | None: ...
def lenient_int(raw: Raw | float, default: int | None = 0) -> int | None:
    """Return the whole number a text stands for, cut toward zero, or the default.

    Other clients wrote ``10.5`` and ``1e+15`` where an integer belongs.

    Source: protocol spec 05 section 3.
    """
    try:
        return int(raw)
    except (ValueError, OverflowError, TypeError):
        pass
    try:
        return int(float(raw))
    except (ValueError, OverflowError, TypeError):
        return default


def to_wire(names: Mapping[str, str], value: object) -> dict[str, Any]:
    """Return the fields of a value that differ from "not given", in wire spelling.

    Args:
        names: Field -> wire name.
        value: Has these fields; None and False mean "not given".
    """
    found = {}
    for field, wire in names.items():
        item = getattr(value, field)
        if item is not None and item is not False:
            found[wire] = item
    return found


def _optional_int(raw: Raw) -> int | None:
    return lenient_int(raw, None)


def _kept(raw: Raw) -> Raw:
    if not isinstance(raw, (bytes, str)):
        raise TypeError("no text")
    return raw


_HASH_FIELDS: Mapping[str, tuple[str, Callable[[Raw], Any]]] = {
    "name": ("name", text),
    "data": ("raw_data", _kept),
    "opts": ("raw_options", _kept),
    "timestamp": ("timestamp_ms", lenient_int),
    "delay": ("delay_ms", lenient_int),
    "priority": ("priority", lenient_int),
    "atm": ("attempts_made", lenient_int),
    "ats": ("attempts_started", lenient_int),
    "stc": ("stalled_count", lenient_int),
    "pb": ("processed_by", text),
    "processedOn": ("processed_on_ms", _optional_int),
    "finishedOn": ("finished_on_ms", _optional_int),
    "defa": ("deferred_failure", text),
    "rjk": ("scheduler_id", text),
    "deid": ("deduplication_id", text),
    "parentKey": ("parent_key", text),
    "parent": ("raw_parent", _kept),
    "progress": ("raw_progress", _kept),
    "returnvalue": ("raw_return_value", _kept),
    "failedReason": ("failed_reason", text),
    "stacktrace": ("raw_stacktrace", _kept),
}
_HASH_READERS: dict[Any, tuple[str, Callable[[Raw], Any]]] = {
    **_HASH_FIELDS,
    **{name.encode(): reader for name, reader in _HASH_FIELDS.items()},
}
_QUICK: Mapping[Callable[[Raw], Any], Callable[[Any], Any]] = {
    text: bytes.decode,
    lenient_int: int,
    _optional_int: int,
    _kept: _kept,
}
_QUICK_READERS = {name.encode(): (field, _QUICK[reader]) for name, (field, reader) in _HASH_FIELDS.items()}
PLAIN_FIELDS: Mapping[bytes, tuple[str, Callable[[Raw], Any]]] = {
    name.encode(): reader
    for name, reader in _HASH_FIELDS.items()
    if name not in ("defa", "rjk", "deid", "parentKey", "parent")
}
"""Fields that most jobs have, and whose reading can wait, since they do not decide how a worker treats its job."""
_PLAIN_NAMES = frozenset(PLAIN_FIELDS)
_OLD_ATTEMPTS = "attemptsMade"


def plain_hash(fields: Any) -> dict[bytes, Raw] | None:
    """Return the hash of a job that has but plain fields, to be read later; None if it is any other.

    Args:
        fields: HGETALL: a flat list of names and values, or something else.
    """
    if type(fields) is not list or len(fields) % 2:
        return None
    plain: dict[bytes, Raw] = {}
    flat = iter(fields)
    try:
        for name, raw in zip(flat, flat):  # noqa: B905  # it is even; to say strict costs a sixth of all this
            if name not in _PLAIN_NAMES or type(raw) is not bytes:
                return None
            plain[name] = raw
    except TypeError:  # a name is no text
        return None
    return plain


def read_hash(fields: Any) -> tuple[dict[str, Any], dict[str, Raw]]:
    """Return the fields of a job's hash as attributes of a job, and the unknown ones as they are.

    Args:
        fields: HGETALL: a flat list of names and values, or a mapping.

    Raises:
        TypeError: It is neither, or holds other things than texts.

    Source: protocol spec 01 section 3.
    """
    known, unknown = _read_quickly(fields) or _read_with(_HASH_READERS, fields)
    if _OLD_ATTEMPTS in unknown:  # a reader prefers the old spelling where there are both
        known["attempts_made"] = lenient_int(unknown[_OLD_ATTEMPTS])
    return known, unknown


def _read_quickly(fields: Any) -> tuple[dict[str, Any], dict[str, Raw]] | None:
    """Read a hash without any oddity; None if there is one."""
    try:
        known, unknown = _read_with(_QUICK_READERS, fields)
    except (TypeError, ValueError):
        return None
    # Names that came as text, not bytes, land among the unknown.
    return (known, unknown) if unknown.keys().isdisjoint(_HASH_FIELDS) else None


def _read_with(
    readers: Mapping[Any, tuple[str, Callable[[Any], Any]]], fields: Any
) -> tuple[dict[str, Any], dict[str, Raw]]:
    known: dict[str, Any] = {}
    unknown: dict[str, Raw] = {}
    for name, raw in pairs(fields):
        reader = readers.get(name)
        if reader is None:
            unknown[text(name)] = _kept(raw)
        else:
            known[reader[0]] = reader[1](raw)
    return known, unknown


def pairs(fields: Any) -> Iterable[tuple[Any, Any]]:
    """Go through a hash, given as a flat list of names and values or as a mapping.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(fields, Mapping):
        return fields.items()
    if not isinstance(fields, (list, tuple)) or len(fields) % 2:
        raise TypeError("no flat list of names and values")
    flat = iter(fields)
    return zip(flat, flat, strict=True)
