"""JSON texts: what is refused, where it says the culprit is, and what is read all the same."""

import json
import math
from collections import OrderedDict, namedtuple
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import msgspec
import pytest

from echomq.codec import MAX_DEPTH, decode_json, encode_json, lenient_int, pack, text
from echomq.errors import NotEncodable, ProtocolError


class Colour(str, Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 3


class Text(str):
    """A text of the user's own kind."""

    __slots__ = ()


Point = namedtuple("Point", "x y")  # noqa: PYI024  # what users hand in

STRICT: list[tuple[Any, str]] = [
    ("str", '"str"'),
    (None, "null"),
    (True, "true"),
    (2**53, "9007199254740992"),
    (2**53 - 1, "9007199254740991"),
    (2**70, "1180591620717411303424"),
    (-0.5, "-0.5"),
    ([], "[]"),
    ({}, "{}"),
    ("\U0001f600/é", '"\U0001f600/é"'),
    ({"a": [1, {"b": None}], "": {}}, '{"a":[1,{"b":null}],"":{}}'),
    ((1, 2), "[1,2]"),
    (Point(1, 2), "[1,2]"),
    (OrderedDict(a=1), '{"a":1}'),
    ({"c": Colour.RED, "s": Size.BIG, "t": Text("x")}, '{"c":"red","s":3,"t":"x"}'),
    ({"price": 1.5, "note": None}, '{"price":1.5,"note":null}'),
    ({"price": 1.5, "note": "é null"}, '{"price":1.5,"note":"é null"}'),
    ("\ud800", '"\\ud800"'),
]


@pytest.mark.parametrize(("value", "wire"), STRICT)
def test_json_text(value: Any, wire: str) -> None:
    """JSON values become compact text, and reading the text gives the value back."""
    assert encode_json("data", value) == wire
    assert decode_json(wire) == json.loads(wire)
    assert decode_json(wire.encode("utf-8", "surrogatepass")) == json.loads(wire)


LOOPED: list[Any] = []
LOOPED.append({"again": LOOPED})

REFUSED: list[tuple[Any, str, str]] = [
    (math.nan, "$", "nan"),
    ([1, {"x": math.inf}], "$[1].x", "inf"),
    ({"a": [None, -math.inf]}, "$.a[1]", "inf"),
    ({"a": 1.0, "b": [math.nan]}, "$.b[0]", "nan"),
    (b"x", "$", "bytes"),
    ({"items": [{}, {"price": Decimal(1)}]}, "$.items[1].price", "Decimal"),
    ({"when": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "$.when", "datetime"),
    ([{1, 2}], "$[0]", "set"),
    ({"a b": object()}, '$["a b"]', "object"),
    ({"a": {1: 2}}, "$.a", "key 1 is int"),
    ({None: 1}, "$", "key None"),
    ({"c": {Size.BIG: 1}}, "$.c", "key"),
    (LOOPED, "$", "contains itself"),
    ({"n": [10**5000]}, "$.n[0]", "digits"),
]


@pytest.mark.parametrize(("value", "path", "problem"), REFUSED)
def test_refused(value: Any, path: str, problem: str) -> None:
    """What no other runtime would read back is refused, with the path of the culprit."""
    with pytest.raises(NotEncodable) as caught:
        encode_json("data of job 'welcome'", value)

    assert caught.value.path.startswith(path)
    assert problem in str(caught.value)
    assert "data of job 'welcome'" in str(caught.value)


def _nested(depth: int) -> Any:
    value: Any = "core"
    for _ in range(depth):
        value = [value]
    return value


def test_depth() -> None:
    """Nesting is taken down to a stated depth and refused below it."""
    assert decode_json(encode_json("data", _nested(MAX_DEPTH))) == _nested(MAX_DEPTH)
    with pytest.raises(NotEncodable, match="deeper than 500"):
        encode_json("data", _nested(MAX_DEPTH + 1))


def test_wide_cycle_is_found_quickly() -> None:
    """A value that holds itself many times is refused, not walked for ever."""
    wide: dict[str, Any] = {}
    wide.update({str(n): [wide, wide] for n in range(50)})
    with pytest.raises(NotEncodable, match="contains itself"):
        encode_json("data", wide)


@pytest.mark.parametrize("raw", [b"", b"{", b"undefined", b"\xff\xfe", b"[" * 100_000, "{'a':1}"])
def test_not_json(raw: bytes | str) -> None:
    """Text that is no JSON is told as such, never as some other error."""
    with pytest.raises(ProtocolError, match="not JSON"):
        decode_json(raw)


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"5", 5),
        ("5", 5),
        (b"10.5", 10),
        (b"-2.9", -2),
        ("1e+15", 10**15),
        (b" 7 ", 7),
        (5.5, 5),
        (b"", 0),
        (b"x", 0),
        ("NaN", 0),
        (b"1e400", 0),
        (b"9" * 5_000, 0),
        (b"\xff", 0),
    ],
)
def test_lenient_numbers(raw: Any, number: int) -> None:
    """Numbers are read as the whole part of whatever stands there, and nonsense as the default."""
    assert lenient_int(raw) == number


def test_broken_utf8() -> None:
    """Bytes that are no UTF-8 are shown as the replacement character."""
    assert text(b"a\xffb") == "a\ufffdb"


def test_msgpack_texts() -> None:
    """Texts are packed as the str types, since servers refuse the bin types."""
    packed = pack({"a": "x" * 300, "b": ["é"]})

    assert msgspec.msgpack.decode(packed) == {"a": "x" * 300, "b": ["é"]}
    assert not {0xC4, 0xC5, 0xC6} & set(packed[:6])
