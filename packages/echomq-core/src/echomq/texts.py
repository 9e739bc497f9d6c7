"""Texts on their way to the server and back: JSON, msgpack, UTF-8.

What users hand in is refused unless any other runtime reads back the same
value. Reading is lenient: other clients wrote it.

Source: protocol spec 01 section 13; 05 section 3.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from .errors import NotEncodable, ProtocolError

__all__ = [
    "MAX_DEPTH",
    "Raw",
    "as_utf8",
    "check_json",
    "decode_json",
    "encode_json",
    "pack",
    "quick_json",
    "strict_json",
    "text",
]

Raw: TypeAlias = bytes | str
"""A text as it came from the server: bytes, or str where a foreign client decodes."""

MAX_DEPTH = 500
"""Deepest nesting of a payload; far beyond real data, and safe for every reader's stack."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode

_ATOMS = frozenset({str, int, float, bool, type(None)})
_KEYS = frozenset({str})
_SIMPLE = _ATOMS - {float}
_SMALL = 8
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
    quick = quick_json(value)
    return strict_json(subject, value) if quick is None else quick


def strict_json(subject: str, value: object) -> str:
    """Do what :func:`encode_json` does, where :func:`quick_json` has nothing to say."""
    try:
        has_floats = _require_strict((value,), MAX_DEPTH)
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


def quick_json(value: Any) -> str | None:
    """Return the JSON text of a small flat dict without floats, as most data are, or of what may stand in one.

    None says nothing.
    """
    if type(value) is dict:
        if len(value) > _SMALL:
            return None
        for name, item in value.items():
            if type(name) is not str or type(item) not in _SIMPLE:
                return None
    elif type(value) not in _SIMPLE:
        return None
    try:
        return _encode(value).decode()
    except (ValueError, OverflowError):
        return None


def _require_strict(container: Any, depth: int) -> bool:
    """Raise unless a container is certainly strict JSON but for NaN and the infinities; tell if it has floats.

    msgspec itself would write bytes as base64, sets as arrays and integer keys
    as text. Of large containers the work per element stays inside C.
    """
    if type(container) is dict:
        _require_text_keys(container)
        container = container.values()
    has_floats = False
    if len(container) > _SMALL:
        kinds = {*map(type, container)}
        has_floats = float in kinds
        if kinds <= _ATOMS:
            return has_floats
        if not kinds <= _HARMLESS:
            raise _MaybeNotStrictError
    for item in container:
        kind = type(item)
        if kind in _SIMPLE:
            continue
        if kind is float:
            has_floats = True
        elif depth and kind in _CONTAINERS:
            has_floats |= _require_strict(item, depth - 1)
        else:
            raise _MaybeNotStrictError
    return has_floats


def _require_text_keys(container: dict[Any, Any]) -> None:
    if len(container) > _SMALL:
        if not _KEYS.issuperset(map(type, container)):
            raise _MaybeNotStrictError
        return
    for name in container:
        if type(name) is not str:
            raise _MaybeNotStrictError


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
            raise NotEncodable(subject, path, problem) from None
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
    if isinstance(value, int):
        return _problem_of_whole(value)
    if value is None or isinstance(value, (str, dict, list, tuple)):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} has no JSON form; use null or text"
    return f"{type(value).__name__} is no JSON type; convert it to text, a number, a list or a dict first"


def _problem_of_whole(value: int) -> str | None:
    try:
        str(value)
    except ValueError as error:  # Python writes only so many digits
        return f"{error}; pass the number as text"
    return None


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


def pack(value: object) -> bytes:
    """Return a value as msgpack. Texts must be ``str``: servers refuse the bin types.

    Raises:
        NotEncodable: A whole number has more than 64 bits, or a text holds a lone surrogate.

    Source: protocol spec 01 section 13.
    """
    try:
        return _pack(value)
    except (OverflowError, UnicodeEncodeError) as error:
        raise NotEncodable("an argument", "$", str(error)) from None


def as_utf8(line: str) -> str:
    """Return a text that can be sent: lone surrogates, as in odd file names, become escapes."""
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-8", "backslashreplace").decode()
    return line


def text(raw: Raw) -> str:
    """Return a raw text as ``str``; bytes that are not UTF-8 become U+FFFD."""
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bytes):
        return raw.decode("utf-8", "replace")
    raise TypeError(f"no text: {type(raw).__name__}")
