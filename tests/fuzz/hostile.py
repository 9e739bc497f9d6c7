"""What a hostile or broken server, or another client, may send."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from echomq import codec

__all__ = ["DEEP", "hashes", "json_texts", "replies", "texts"]

T = TypeVar("T")


def _plainly(strategy: Callable[[], st.SearchStrategy[T]]) -> st.SearchStrategy[T]:
    """The same with a short repr: what is nested here would write pages of it."""

    @st.composite
    def drawn(draw: st.DrawFn) -> T:
        return draw(strategy())

    return drawn()


DEEP = b"[" * 100_000 + b"]" * 100_000

NAMES = [*codec._HASH_FIELDS, "attemptsMade", "tm", "nrjid", "x", ""]

ODD = [
    *(b"", b"0", b"-1", b"nan", b"inf", b"-inf", b"1e999", b"1e400", b"0x10", b"1_000", b" 1", b"9" * 5_000),
    *(b"\xff\xfe", b"\xed\xa0\x80", "\u0661".encode(), b"null", b"true", b"NaN", b'"', b"{", b"[1,", b"{}", b"[]"),
    *(b'"\\ud800"', b'{"a":' * 600 + b"1" + b"}" * 600, DEEP, b'{"":{"":[]}}', b"1" * 400, b"-0", b"1.5"),
    *(b'{"id":{},"queueKey":[]}', b'{"attempts":{},"backoff":[[]],"repeat":{"every":"x"}}', b"1700000000000-0"),
    *(b'{"repeat":{"pattern":"* * * * * *","tz":"No/Where"}}', b'{"delay":1e999,"priority":-1,"attempts":"3"}'),
]


def json_texts() -> st.SearchStrategy[bytes]:
    """JSON of any shape, and what nearly is."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=8,
    )
    return values.map(lambda value: json.dumps(value).encode())


@cache
def _texts() -> st.SearchStrategy[Any]:
    odd = st.sampled_from(range(len(ODD))).map(ODD.__getitem__)
    raw = odd | st.binary(max_size=20) | json_texts()
    return raw | raw.map(lambda data: data.decode("utf-8", "surrogateescape"))


def texts() -> st.SearchStrategy[Any]:
    """Texts as they come: bytes, or str from clients that decode."""
    return _plainly(_texts)


def hashes() -> st.SearchStrategy[list[Any]]:
    """HGETALL: names a job may have, values of any kind."""
    return _plainly(_hashes)


@cache
def _hashes() -> st.SearchStrategy[list[Any]]:
    names = st.sampled_from(NAMES).map(str.encode) | st.sampled_from(NAMES) | st.binary(max_size=4)
    return st.lists(st.tuples(names, texts()), max_size=10).map(lambda pairs: [part for pair in pairs for part in pair])


def replies() -> st.SearchStrategy[Any]:
    """Replies of any shape; those of calls among them."""
    return _plainly(_replies)


@cache
def _replies() -> st.SearchStrategy[Any]:
    plain = st.none() | st.integers() | st.integers(-12, 3) | texts() | st.floats() | st.booleans()
    shaped = st.one_of(
        hashes(),
        st.tuples(hashes(), texts(), st.integers(), st.integers()).map(list),
        st.tuples(st.just(0), st.just(0), plain, plain).map(list),
        st.lists(st.tuples(texts(), hashes()).map(list), max_size=3),
        st.tuples(texts(), st.lists(texts(), max_size=4)).map(list),
        st.dictionaries(st.binary(max_size=4) | st.text(max_size=4), plain, max_size=3),
    )
    return st.recursive(plain | shaped, lambda inner: st.lists(inner, max_size=4), max_leaves=10)
