"""RESP: packing, parsing, and what error replies stand for."""

from typing import Any

import hiredis
import libvalkey
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq import resp
from echomq.errors import NotEncodable, ProtocolError, ServerNotReady, ServerRefused
from echomq.resp import INCOMPLETE, Push, Resp, canonical, new_parser, pack, packed, server_error

TABLE: list[tuple[bytes, Any]] = [
    (b"+OK\r\n", b"OK"),
    (b":-7\r\n", -7),
    (b"$5\r\nhel\r\n\r\n", b"hel\r\n"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"*0\r\n", []),
    (b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n+b\r\n", [1, [b"a", None], b"b"]),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b"#f\r\n", False),
    (b",1.5\r\n", 1.5),
    (b",inf\r\n", float("inf")),
    (b"(12345678901234567890\r\n", b"12345678901234567890"),
    (b"=8\r\ntxt:text\r\n", b"text"),
    (b"%2\r\n+a\r\n:1\r\n+b\r\n:2\r\n", [b"a", 1, b"b", 2]),
    (b"~2\r\n:1\r\n:2\r\n", [1, 2]),
]
"""Bytes of a reply, and the reply."""


def parsed(data: bytes) -> list[Any]:
    """All replies in these bytes."""
    parser = new_parser()
    parser.feed(data)
    replies = []
    while (reply := parser.gets()) is not INCOMPLETE:
        replies.append(reply)
    return replies


@pytest.mark.parametrize(("data", "reply"), TABLE)
def test_parse(data: bytes, reply: Any) -> None:
    """Each kind of reply is read."""
    assert parsed(data) == [reply]


@pytest.mark.parametrize("data", [data for data, _ in TABLE])
def test_same_as_the_c_libraries(data: bytes) -> None:
    """Our parser and the C libraries' give the same reply once it has its RESP2 form."""
    for reader in (hiredis.Reader(notEnoughData=INCOMPLETE), libvalkey.Reader(notEnoughData=INCOMPLETE)):
        reader.feed(data)
        assert canonical(reader.gets()) == canonical(parsed(data)[0])


@given(st.lists(st.sampled_from(TABLE), max_size=6), st.lists(st.integers(1, 9), max_size=40))
def test_any_cut(chosen: list[tuple[bytes, Any]], cuts: list[int]) -> None:
    """Replies are read whole however the bytes arrive."""
    rest = b"".join(data for data, _ in chosen)
    parser, replies = new_parser(), []
    for size in (*cuts, len(rest)):
        piece, rest = rest[:size], rest[size:]
        parser.feed(piece)
        while (reply := parser.gets()) is not INCOMPLETE:
            replies.append(reply)

    assert replies == [reply for _, reply in chosen]


def test_errors_are_instances() -> None:
    """An error reply is an instance, also inside a list, and carries its prefix."""
    single, (nested, number), long = parsed(b"-OOM full\r\n*2\r\n-ERR x\r\n:1\r\n!8\r\nERR a\r\nb\r\n")

    assert isinstance(single, ServerRefused)
    assert single.prefix == "OOM"
    assert isinstance(nested, ServerRefused)
    assert number == 1
    assert str(long) == "ERR a\r\nb"


def test_push() -> None:
    """A push message is told apart from a reply."""
    push, reply = parsed(b">2\r\n+invalidate\r\n*0\r\n+OK\r\n")

    assert isinstance(push, Push)
    assert reply == b"OK"


@pytest.mark.parametrize("data", [b"HTTP/1.1 400\r\n", b"\x15\x03\x01\r\n", b"\r\n"])
def test_noise(data: bytes) -> None:
    """Bytes of another protocol are an error that shows them."""
    with pytest.raises(ProtocolError):
        parsed(data)


PARTS: st.SearchStrategy[Any] = st.one_of(
    st.text(), st.binary(), st.integers(-(2**80), 2**80), st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_pack_as_the_c_libraries(parts: list[Any]) -> None:
    """We pack as the C libraries do."""
    try:
        mine = pack(parts)
    except UnicodeEncodeError:
        return
    assert mine == hiredis.pack_command(tuple(parts)) == libvalkey.pack_command(tuple(parts))


def test_libraries_get_no_numbers() -> None:
    """A C library gets numbers as text: it crashes where a signal handler raises while it makes that of them."""
    seen: list[Any] = []

    def spy(parts: Any) -> bytes:
        seen.extend(parts)
        return b""

    packed(Resp(pack=spy, new_parser=new_parser), ("SET", b"key", 7, 1.5))

    assert seen == ["SET", b"key", "7", "1.5"]


@pytest.mark.parametrize("packing", [pack, hiredis.pack_command, libvalkey.pack_command])
@pytest.mark.parametrize("bad", [None, True, [], {}, object(), "\ud800"])
def test_not_encodable(packing: Any, bad: Any) -> None:
    """What cannot be sent is named by its place, whoever packs."""
    with pytest.raises(NotEncodable, match=r"request SET is not JSON|request SET") as caught:
        packed(Resp(pack=packing, new_parser=new_parser), ("SET", "key", bad))

    assert caught.value.path == "$[2]"


@pytest.mark.parametrize(
    ("text", "prefix", "passing"),
    [
        ("ERR unknown command", "ERR", False),
        ("WRONGTYPE Operation against a key", "WRONGTYPE", False),
        ("OOM command not allowed", "OOM", False),
        ("NOPERM this user has no permissions", "NOPERM", False),
        ("NOSCRIPT No matching script", "NOSCRIPT", False),
        ("LOADING the dataset in memory", "LOADING", True),
        ("BUSY a script is running", "BUSY", True),
        ("READONLY You can't write against a read only replica.", "READONLY", True),
        ("MASTERDOWN Link with MASTER is down", "MASTERDOWN", True),
        ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN", True),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN", True),
        ("UNBLOCKED force unblock from blocking operation", "UNBLOCKED", True),
        ("user_script:3: attempt to index a nil value", "ERR", False),
        (
            "ERR Error running script (call to f_9c): @user_script:7: @user_script: 7: -READONLY You can't write.",
            "READONLY",
            True,
        ),
        ("ERR Error running script (call to f_9c): @user_script:7: WRONGTYPE Operation against", "WRONGTYPE", False),
        ("ERR Error running script (call to f_9c): @user_script:7: -OOM command not allowed", "OOM", False),
        ("ERR Error running script (call to f_9c): @user_script:1: user_script:1: NOT A PREFIX", "ERR", False),
        ("", "ERR", False),
    ],
)
def test_server_error(text: str, prefix: str, *, passing: bool) -> None:
    """The first word of an error reply says what it is; some of them pass with time."""
    error = server_error(text)

    assert error.prefix == prefix
    assert isinstance(error, ServerNotReady) is passing
    assert str(error) == text


def test_canonical() -> None:
    """RESP3's maps, sets, doubles and booleans take the form RESP2 has for them."""
    assert canonical({b"a": {1}, b"b": [1.5, True, None]}) == [b"a", [1], b"b", [b"1.5", 1, None]]


def test_plain_needs_no_library() -> None:
    """The core packs and parses by itself where no C library is installed."""
    parser = resp.PLAIN.new_parser()
    parser.feed(resp.PLAIN.pack(("ECHO", "é")))

    assert parser.gets() == [b"ECHO", "é".encode()]
