"""The two libraries that a server gives its scripts, ``cjson`` and ``cmsgpack``, as far as our scripts use them.

What differs from plain JSON is what servers do: text goes through as bytes, ``/`` is
escaped, whole numbers are written without a fraction, an empty table is an object.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

import msgpack
from lupa import lua51

__all__ = ["NULL", "json_decode", "json_encode", "msgpack_unpack", "msgpack_unpack_limit"]

NULL = object()
"""What ``cjson.null`` is; also in tables that were decoded."""

_DEEPEST = 1000
_ESCAPED = re.compile(rb'["\\/\x00-\x1f\x7f]')
_NAMES = {b'"': b'"', b"\\": b"\\", b"/": b"/", b"\b": b"b", b"\f": b"f", b"\n": b"n", b"\r": b"r", b"\t": b"t"}


def _escape(found: re.Match[bytes]) -> bytes:
    name = _NAMES.get(found[0])
    return b"\\" + name if name else b"\\u%04x" % found[0][0]


def _text(value: bytes) -> bytes:
    return b'"' + _ESCAPED.sub(_escape, value) + b'"'


def _number(value: float) -> bytes:
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("Cannot serialise number: must not be NaN or Inf")
    return b"%.14g" % value


def json_encode(value: Any, depth: int = 1) -> bytes:
    """Return the JSON text of a Lua value.

    Raises:
        ValueError: It has none.
    """
    if value is NULL or value is None:
        return b"null"
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, int | float):
        return _number(value)
    if lua51.lua_type(value) != "table":
        raise ValueError(f"Cannot serialise {lua51.lua_type(value)}: type not supported")
    if depth > _DEEPEST:
        raise ValueError(f"Cannot serialise, excessive depth ({depth})")
    pairs = list(value.items())
    length = _array_length(pairs)
    if length is not None:
        items = dict(pairs)
        return b"[" + b",".join(json_encode(items.get(at), depth + 1) for at in range(1, length + 1)) + b"]"
    return b"{" + b",".join(_key(key) + b":" + json_encode(item, depth + 1) for key, item in pairs) + b"}"


def _array_length(pairs: list[tuple[Any, Any]]) -> int | None:
    """Return how long the array is that a table stands for; None if it is an object."""
    if not pairs or not all(isinstance(key, int) and key > 0 for key, _ in pairs):
        return None
    return int(max(key for key, _ in pairs))


def _key(key: Any) -> bytes:
    if isinstance(key, bytes):
        return _text(key)
    if isinstance(key, int | float) and not isinstance(key, bool):
        return b'"' + _number(key) + b'"'
    raise ValueError("Cannot serialise table: table key must be a number or string")


def json_decode(runtime: Any, text: bytes) -> Any:
    """Return the Lua value of a JSON text.

    Raises:
        ValueError: It is no JSON.
    """
    return _to_lua(runtime, json.loads(text.decode("utf-8", "surrogateescape")))


def msgpack_unpack(runtime: Any, data: bytes) -> tuple[Any, ...]:
    """Return the Lua values of MessagePack bytes; nil is nil, and so left out of a table.

    Raises:
        ValueError: They are none.
    """
    return tuple(_to_lua(runtime, item, null=None) for item in _unpacker(data))


def msgpack_unpack_limit(runtime: Any, data: bytes, limit: int, offset: int = 0) -> tuple[Any, ...]:
    """Return where the next value begins, or -1 at the end, and then up to ``limit`` values from an offset.

    Raises:
        ValueError: They are none.
    """
    found = _unpacker(data[int(offset) :])
    items = tuple(_to_lua(runtime, item, null=None) for item in islice(found, int(limit)))
    at = int(offset) + found.tell()
    return (at if at < len(data) else -1, *items)


def _unpacker(data: bytes) -> msgpack.Unpacker:
    # Text as bytes: whatever a client sent is stored untouched.
    found = msgpack.Unpacker(raw=True, strict_map_key=False, max_buffer_size=0)
    found.feed(data)
    return found


def _to_lua(runtime: Any, value: Any, null: object = NULL) -> Any:
    if value is None:
        return null
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return runtime.table_from([_to_lua(runtime, item, null) for item in value])
    if isinstance(value, dict):
        return runtime.table_from({_to_lua(runtime, k, null): _to_lua(runtime, v, null) for k, v in value.items()})
    return value
