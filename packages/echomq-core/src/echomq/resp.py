"""RESP, the protocol between client and server: requests to bytes, bytes to replies. Pure.

A driver packs and parses with its client's C library where that is installed
and with this module where it is not. Both make the same replies: bytes, int,
None, and lists of these; an error reply is an instance of
:class:`~echomq.errors.ServerRefused`, not raised; a push message is a
:class:`Push`. RESP3's maps, sets, doubles and booleans become what RESP2 sends
for them (:func:`canonical`), so that a decoder knows one form only.

Source: design.md section 4.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs

from .call import Argument, Reply
from .errors import NotEncodable, ProtocolError, ServerNotReady, ServerRefused

__all__ = ["INCOMPLETE", "PLAIN", "Parser", "Push", "Resp", "canonical", "new_parser", "pack", "packed", "server_error"]

INCOMPLETE = object()
"""What a parser answers while the next reply has not arrived whole."""

_PASSING = frozenset({"LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "UNBLOCKED"})

_INNER = re.compile(r"Error running script .*@user_script: ?\d+: -?([A-Z]{3,}) ")
"""Redis before 7 wraps the error that ended a script; the word after the last line number is the real prefix."""

_NUMBERS = frozenset({int, float})


class Push(list[Any]):
    """A message nobody asked for; connections ignore it."""


class Parser(Protocol):
    """Bytes in, replies out. The C libraries' readers have this shape."""

    def feed(self, data: bytes, /) -> None:
        """Take bytes as they came; any cut will do."""
        ...

    def gets(self) -> Reply:
        """Return the next reply, or :data:`INCOMPLETE`."""
        ...


@attrs.frozen(kw_only=True)
class Resp:
    """How one connection packs and parses.

    Attributes:
        pack: Parts of one request to bytes.
        new_parser: A parser for a new link.
        push_type: What its push messages are instances of.
    """

    pack: Callable[[tuple[Argument, ...]], bytes]
    new_parser: Callable[[], Parser]
    push_type: type = Push


def server_error(text: str) -> ServerRefused:
    """Return the error that an error reply stands for.

    Args:
        text: The reply without its leading ``-``: ``"OOM command not allowed ..."``.
    """
    inner = _INNER.search(text)
    first = inner[1] if inner else text.partition(" ")[0]
    prefix = first if first.isupper() else "ERR"
    return (ServerNotReady if prefix in _PASSING else ServerRefused)(text, prefix=prefix)


def canonical(reply: Reply) -> Reply:
    """Return a RESP3 reply in the form RESP2 has for it."""
    if isinstance(reply, dict):
        return [canonical(item) for pair in reply.items() for item in pair]
    if isinstance(reply, list | set | tuple):
        return [canonical(item) for item in reply]
    if isinstance(reply, bool):
        return int(reply)
    return b"%r" % reply if isinstance(reply, float) else reply


def packed(resp: Resp, parts: tuple[Argument, ...]) -> bytes:
    """Pack one request.

    Raises:
        NotEncodable: A part is neither text, bytes nor a number, or is text that UTF-8 cannot express.
    """
    try:
        # hiredis and libvalkey crash where a signal handler raises while they turn a number into text.
        if not _NUMBERS.isdisjoint(map(type, parts)):
            parts = tuple([str(part) if type(part) in _NUMBERS else part for part in parts])
        return resp.pack(parts)
    except (TypeError, UnicodeEncodeError) as error:
        raise _not_encodable(parts) from error


def _not_encodable(parts: tuple[Argument, ...]) -> NotEncodable:
    name = str(parts[0])
    for index, part in enumerate(parts):
        try:
            _encoded(part)
        except (TypeError, UnicodeEncodeError) as error:
            return NotEncodable(f"request {name}", f"$[{index}]", str(error))
    return NotEncodable(f"request {name}", "$", "the client's library refused it")


def _encoded(part: object) -> bytes:
    if isinstance(part, bytes):
        return part
    if isinstance(part, str):
        return part.encode()
    if isinstance(part, int | float) and not isinstance(part, bool):
        return b"%r" % part
    raise TypeError(f"expected str, bytes, int or float, not {type(part).__name__}")


def pack(parts: Sequence[Argument]) -> bytes:
    """Pack one request without the help of a C library."""
    pieces = [b"*%d\r\n" % len(parts)]
    for part in parts:
        data = _encoded(part)
        pieces += (b"$%d\r\n" % len(data), data, b"\r\n")
    return b"".join(pieces)


class _NeedMore(Exception):  # control flow inside this module, never seen outside
    """The buffer ends before the reply does."""


_LONGEST_LINE = 1024 * 1024
_LONGEST_BLOCK = 512 * 1024 * 1024
"""What servers themselves allow (``proto-max-bulk-len``); more would be held in memory for a server gone mad."""
_MOST_ITEMS = 2**31 - 1
_DEEPEST = 64


@attrs.define
class _PlainParser:
    """The parser for machines without the C library; re-reads a reply that came in pieces."""

    _buffer: bytearray = attrs.field(factory=bytearray)
    _at: int = 0
    _wanted: int = 0
    _depth: int = 0

    def feed(self, data: bytes, /) -> None:
        self._buffer += data

    def gets(self) -> Reply:
        if len(self._buffer) < self._wanted:
            return INCOMPLETE
        self._at = self._depth = 0
        try:
            reply = self._read()
        except _NeedMore:
            return INCOMPLETE
        del self._buffer[: self._at]
        self._wanted = 0
        return reply

    def _line(self) -> bytes:
        end = self._buffer.find(b"\r\n", self._at)
        if end < 0:
            if len(self._buffer) - self._at > _LONGEST_LINE:
                raise ProtocolError(f"expected a RESP reply, but the server sent a line of over {_LONGEST_LINE} bytes")
            raise _NeedMore
        line, self._at = bytes(self._buffer[self._at : end]), end + 2
        return line

    def _block(self, rest: bytes) -> bytes:
        end = self._at + _size(rest, _LONGEST_BLOCK)
        if len(self._buffer) < end + 2:
            # A large block arrives in many pieces: parse again only when it is whole.
            self._wanted = end + 2
            raise _NeedMore
        block, self._at = bytes(self._buffer[self._at : end]), end + 2
        return block

    def _read(self) -> Reply:
        line = self._line()
        read = _READERS.get(line[:1])
        if read is None:
            raise _unreadable(line)
        return read(self, line[1:])

    def _items(self, rest: bytes, each: int = 1) -> list[Reply]:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ProtocolError(f"expected a RESP reply, but the server sent lists nested over {_DEEPEST} deep")
        items = [self._read() for _ in range(each * _size(rest, _MOST_ITEMS))]
        self._depth -= 1
        return items


def _unreadable(line: bytes) -> ProtocolError:
    return ProtocolError(f"expected a RESP reply, but the server sent {line[:40]!r}")


def _size(rest: bytes, limit: int) -> int:
    size = _whole(rest)
    if not 0 <= size <= limit:
        raise ProtocolError(f"expected a size up to {limit}, but the server sent {rest[:40]!r}")
    return size


def _whole(rest: bytes) -> int:
    try:
        return int(rest)
    except ValueError:
        raise _unreadable(rest) from None


def _double(rest: bytes) -> float:
    try:
        return float(rest)
    except ValueError:
        raise _unreadable(rest) from None


_READERS: dict[bytes, Callable[[_PlainParser, bytes], Reply]] = {
    b"+": lambda _, rest: rest,
    b"-": lambda _, rest: server_error(rest.decode("utf-8", "replace")),
    b":": lambda _, rest: _whole(rest),
    b"$": lambda parser, rest: None if rest == b"-1" else parser._block(rest),
    b"*": lambda parser, rest: None if rest == b"-1" else parser._items(rest),
    b"_": lambda _, __: None,
    b",": lambda _, rest: _double(rest),
    b"#": lambda _, rest: rest == b"t",
    b"(": lambda _, rest: rest,
    b"=": lambda parser, rest: parser._block(rest)[4:],
    b"!": lambda parser, rest: server_error(parser._block(rest).decode("utf-8", "replace")),
    b"~": lambda parser, rest: parser._items(rest),
    b">": lambda parser, rest: Push(parser._items(rest)),
    b"%": lambda parser, rest: parser._items(rest, 2),
}


def new_parser() -> Parser:
    """Return a parser that needs no C library."""
    return _PlainParser()


PLAIN = Resp(pack=pack, new_parser=new_parser)
"""Packs and parses without a C library."""
