"""JSON and msgpack texts, and how the wire spells what Python calls otherwise.

JSON is strict both ways for users: what they hand in is refused unless any
other runtime reads back the same value. Reading hashes is lenient: other
clients wrote them, and one odd field must not take a job down.

Source: protocol spec 01 sections 3, 4 and 13; 05 section 3.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, overload

import msgspec

from .errors import NotEncodable, ProtocolError
from .states import JobState

__all__ = [
    "BACKOFF_NAMES",
    "DEDUPLICATION_NAMES",
    "JOB_OPTION_NAMES",
    "KEEP_NAMES",
    "MAX_DEPTH",
    "PARENT_NAMES",
    "REPEAT_NAMES",
    "STATE_NAMES",
    "Raw",
    "check_json",
    "decode_json",
    "encode_json",
    "lenient_int",
    "pack",
    "pairs",
    "read_hash",
    "text",
    "to_wire",
]

Raw: TypeAlias = bytes | str
"""A text as it came from the server: bytes, or str where a foreign client decodes."""

MAX_DEPTH = 500
"""Deepest nesting of a payload; far beyond real data, and safe for every reader's stack."""

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

STATE_NAMES: Mapping[JobState, str] = {state: state.value for state in JobState} | {JobState.WAITING: "wait"}
"""Names of the states as key suffixes and script arguments."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
pack: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode
"""Return a value as msgpack. Texts must be ``str``: servers refuse the bin types (01 section 13)."""

_ATOMS = frozenset({str, int, float, bool, type(None)})
_KEYS = frozenset({str})
_CONTAINERS = frozenset({dict, list, tuple})
_HARMLESS = _ATOMS | _CONTAINERS
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _MaybeNotStrictError(Exception):
    """Something in a value may not be JSON; the slow check says what and where."""


def encode_json(subject: str, value: object) -> str:
    """Return a value as compact JSON text.

    Args:
        subject: What the value is, for the message: ``"data of job 'welcome'"``.
        value: None, bool, int, finite float, str, or lists, tuples and dicts with text keys of these.

    Raises:
        NotEncodable: Anything else, with the path of the culprit.

    Source: protocol spec 05 section 3.
    """
    try:
        has_floats = _require_strict((value,), MAX_DEPTH + 1)
    except (_MaybeNotStrictError, RecursionError):
        check_json(subject, value)
        has_floats = True
    try:
        encoded = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Subclasses of str and numbers, and lone surrogates: JSON, but beyond msgspec.
        return _encode_slowly(subject, value)
    if has_floats and b"null" in encoded:
        return _encode_slowly(subject, value)  # a null may be a NaN, which only the standard library refuses
    return encoded.decode()


def _encode_slowly(subject: str, value: object) -> str:
    try:
        encoded = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        check_json(subject, value)
        raise
    except RecursionError:
        raise NotEncodable(subject, "$", "nested too deep for the stack that is left here") from None
    if _LONE_SURROGATE.search(encoded):  # no UTF-8 form, but an escape
        return json.dumps(value, separators=(",", ":"))
    return encoded


def _require_strict(container: Any, depth: int) -> bool:
    """Raise unless a container is certainly strict JSON but for NaN and the infinities; tell if it has floats.

    msgspec itself would write bytes as base64, sets as arrays and integer keys
    as text. The work per element stays inside C.
    """
    if isinstance(container, dict):
        if not {*map(type, container)} <= _KEYS:
            raise _MaybeNotStrictError
        container = container.values()
    kinds = {*map(type, container)}
    if kinds <= _ATOMS:
        return float in kinds
    if not depth or not kinds <= _HARMLESS:
        raise _MaybeNotStrictError
    has_floats = float in kinds
    for item in container:
        if type(item) in _CONTAINERS:
            has_floats |= _require_strict(item, depth - 1)
    return has_floats


def check_json(subject: str, value: object) -> None:
    """Refuse a value that is not strict JSON, element by element.

    Raises:
        NotEncodable: With the path of the first culprit, ``"$.items[3].price"``.
    """
    stack: list[tuple[str, object, Iterator[tuple[str, object]]]] = []
    path, current = "$", value
    while True:
        problem = _problem(current)
        if problem is None and len(stack) > MAX_DEPTH:
            cycle = any(current is holder for _, holder, _ in stack)
            problem = "it contains itself" if cycle else f"nested deeper than {MAX_DEPTH} levels"
        if problem is not None:
            raise NotEncodable(subject, path, problem)
        if isinstance(current, (dict, list, tuple)):
            stack.append((path, current, _children(subject, path, current)))
        while True:
            if not stack:
                return
            step = next(stack[-1][2], None)
            if step is not None:
                path, current = step
                break
            stack.pop()


def _children(subject: str, path: str, container: Any) -> Iterator[tuple[str, object]]:
    if not isinstance(container, dict):
        yield from ((f"{path}[{index}]", item) for index, item in enumerate(container))
        return
    for key, item in container.items():
        if not isinstance(key, str):
            raise NotEncodable(subject, path, f"key {key!r} is {type(key).__name__}, but keys are text")
        yield (f"{path}.{key}" if key.isidentifier() else f"{path}[{json.dumps(key)}]"), item


def _problem(value: object) -> str | None:
    if value is None or isinstance(value, (str, int, dict, list, tuple)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} has no JSON form; use null or text"
    return f"{type(value).__name__} is no JSON type; convert it to text, a number, a list or a dict first"


def decode_json(raw: Raw) -> Any:
    """Return the value of a JSON text.

    Raises:
        ProtocolError: The text is not JSON.
    """
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        # Numbers beyond the double range and lone surrogates: other runtimes write and read them.
        return json.loads(text(raw))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}") from None


def text(raw: Raw) -> str:
    """Return a raw text as ``str``; bytes that are not UTF-8 become U+FFFD."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "replace")
    raise TypeError(f"no text: {type(raw).__name__}")


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
    found = ((wire, getattr(value, field)) for field, wire in names.items())
    return {wire: item for wire, item in found if item is not None and item is not False}


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
_OLD_ATTEMPTS = "attemptsMade"


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
