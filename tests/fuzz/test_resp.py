"""Whatever bytes a server sends, the parser gives replies, asks for more, or raises our error."""

import time

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq.errors import ProtocolError, ServerRefused
from echomq.resp import INCOMPLETE, canonical, new_parser, server_error

SIZES = [b"0", b"1", b"2", b"-1", b"-2", b"3000000000000", b"9" * 30, b"x", b"", b"1.5", b"+1", b" 1", b"1_0"]
HEADS = [bytes([letter]) for letter in b"+-:$*_,#(=!~>%"]


def lines() -> st.SearchStrategy[bytes]:
    """Lines of RESP, right and wrong."""
    return st.tuples(st.sampled_from(HEADS), st.sampled_from(SIZES) | st.binary(max_size=6)).map(
        lambda line: line[0] + line[1] + b"\r\n"
    )


@given(st.lists(lines() | st.binary(max_size=8), max_size=12), st.integers(1, 7))
def test_any_bytes(pieces: list[bytes], cut: int) -> None:
    """Bytes of any kind, cut anywhere, end in replies, in waiting for more, or in our error."""
    stream = b"".join(pieces)
    parser = new_parser()
    try:
        for start in range(0, len(stream), cut):
            parser.feed(stream[start : start + cut])
            for _ in range(len(stream) + 1):
                reply = parser.gets()
                if reply is INCOMPLETE:
                    break
                canonical(reply)
            else:
                pytest.fail("more replies than bytes")
    except ProtocolError:
        return


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda data: data.decode("utf-8", "replace")))
def test_any_error_text(text: str) -> None:
    """An error reply of any text is an error of ours with a prefix."""
    error = server_error(text)

    assert isinstance(error, ServerRefused)
    assert error.prefix


@pytest.mark.parametrize(
    "data",
    [
        b"*1\r\n" * 100_000,
        b"*-2\r\n",
        b"$-2\r\n",
        b"$999999999999\r\n",
        b"*9999999999999\r\n",
        b":abc\r\n",
        b",abc\r\n",
        b":" + b"9" * 10_000 + b"\r\n",
        b"+" + b"x" * 2_000_000,
        b"?\r\n",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_mad_servers(data: bytes) -> None:
    """Endless nesting, sizes beyond sense, numbers that are none and lines without an end are refused at once."""
    parser = new_parser()
    began_s = time.process_time()
    parser.feed(data)

    with pytest.raises(ProtocolError):
        parser.gets()
    assert time.process_time() - began_s < 1


def test_c_library_refuses_nesting() -> None:
    """The C library that parses where it is installed refuses endless nesting too."""
    reader = hiredis.Reader(protocolError=ProtocolError, notEnoughData=INCOMPLETE)
    reader.feed(b"*1\r\n" * 100_000)

    with pytest.raises(ProtocolError):
        reader.gets()
