"""Options that are stored with jobs, read whatever any client of any age wrote.

Nothing here raises: numbers are read in any spelling, and what this version
does not understand is set aside in ``extra``, from where it is written again.

Source: protocol spec 01 section 4; 05 sections 3 and 12.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from . import codec
from .backoff import Backoff
from .checks import MAX_INTEGER
from .errors import InvalidOption, ProtocolError, UsageError
from .options import Deduplication, JobOptions, Keep, Parent
from .repeat import Repeat

__all__ = ["options_from_wire", "read_options"]

Nested = TypeVar("Nested")

_NUMBERS = frozenset(
    {"attempts", "delay", "priority", "timestamp", "keep_logs", "stack_trace_limit", "size_limit", "timeout"}
    | {"age_s", "count", "limit", "ttl", "every", "offset", "start_date", "end_date"}
)
_NESTED_CLASSES: Mapping[str, type[Any]] = {
    "backoff": Backoff,
    "deduplication": Deduplication,
    "parent": Parent,
    "repeat": Repeat,
}


def read_options(raw: codec.Raw) -> JobOptions:
    """Return the options stored with a job; broken ones read as none.

    Most jobs of a queue carry the same text, so short texts are remembered.
    """
    return _remembered(raw) if len(raw) <= 300 else _read_text(raw)


def _read_text(raw: codec.Raw) -> JobOptions:
    try:
        wire = codec.decode_json(raw)
    except ProtocolError:
        return JobOptions()
    return options_from_wire(wire) if isinstance(wire, dict) else JobOptions()


_remembered = lru_cache(maxsize=512)(_read_text)


def options_from_wire(wire: Mapping[str, Any]) -> JobOptions:
    """Return stored options of any client; what is odd or unknown goes to ``extra``, nothing raises."""
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in wire.items():
        field = codec.JOB_OPTION_FIELDS.get(name)
        read = None if field is None else _read(field, value)
        if field is None or read is None:
            extra[name] = value
        else:
            known[field] = read
    while True:
        try:
            return JobOptions(**known, extra=extra)
        except InvalidOption as problem:
            for refused in [problem.field] if problem.field in known else list(known):
                del known[refused]
                extra[codec.JOB_OPTION_NAMES[refused]] = wire[codec.JOB_OPTION_NAMES[refused]]
        except UsageError:  # the unknown options are no JSON: only hand-made mappings can be like that
            return JobOptions(**known)


def _read(field: str, value: object) -> Any:
    """Return the stored value of an option as its field takes it, or None if it makes no sense."""
    if value is None:
        return None
    if field in ("remove_on_complete", "remove_on_fail"):
        return _read_keep(value)
    if field in _NESTED_CLASSES:
        if field == "backoff" and not isinstance(value, Mapping):
            value = {"delay": value}
        return _read_nested(_NESTED_CLASSES[field], codec.NESTED_OPTION_NAMES[field], value)
    return _read_plain(field, value)


def _read_plain(field: str, value: Any) -> Any:
    if field in _NUMBERS and not isinstance(value, bool):
        number = codec.lenient_int(value, -1)
        return number if 0 <= number <= MAX_INTEGER else None
    return value


def _read_keep(value: object) -> Keep | None:
    if isinstance(value, bool):
        return Keep(count=0) if value else Keep()
    if isinstance(value, Mapping):
        return _read_nested(Keep, codec.KEEP_NAMES, value)
    count = _read_plain("count", value)
    return Keep() if count is None else Keep(count=count)


def _read_nested(cls: type[Nested], names: Mapping[str, str], value: object) -> Nested | None:
    if not isinstance(value, Mapping):
        return None
    parts = {field: _read_plain(field, value[wire]) for field, wire in names.items() if value.get(wire) is not None}
    if cls is Backoff and "delay" in parts:
        parts["delay"] = codec.lenient_int(value["delay"])
    try:
        return cls(**{field: part for field, part in parts.items() if part is not None})
    except (InvalidOption, TypeError):
        return None
