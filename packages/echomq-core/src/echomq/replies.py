"""Decoders that calls share.

A decoder is a function, or a frozen value that can be called, so that equal
calls have equal decoders. Replies are bytes; text is accepted too, for
connections of foreign clients that decode. A negative integer is the refusal
of a script and becomes the error of that code.

Source: protocol spec 01 section 12.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import attrs

from . import codec
from .call import Reply
from .errors import ProtocolError, script_error

__all__ = [
    "Checked",
    "entries",
    "flag",
    "items",
    "nothing",
    "number",
    "optional_text",
    "pairs",
    "rows",
    "stream",
    "text",
    "texts",
    "unexpected",
]

T = TypeVar("T")


@attrs.frozen
class Checked(Generic[T]):
    """Raises the error a negative reply stands for, and reads any other reply.

    Attributes:
        read: Reads a reply that is no refusal.
        script: Name of the script, for the error.
        job_id: Job (or scheduler) the call is about, for the error.
    """

    read: Callable[[Reply], T]
    script: str
    job_id: str | None = None

    def __call__(self, reply: Reply) -> T:
        """Return the value of a reply.

        Raises:
            ScriptError: The reply is a code of the contract.
            ProtocolError: It is another negative number, or nothing that can be read.
        """
        if isinstance(reply, int) and reply < 0:
            raise script_error(reply, self.script, self.job_id)
        return self.read(reply)


def nothing(_: Reply) -> None:
    """Ignore a reply that only says "done"."""


def text(reply: Reply) -> str:
    """Return a text reply as ``str``; an integer as its digits.

    Raises:
        ProtocolError: The reply is neither.
    """
    if isinstance(reply, bytes):
        return reply.decode("utf-8", "replace")
    if isinstance(reply, str):
        return reply
    if isinstance(reply, (int, float)):
        return str(reply)
    raise unexpected(reply, "a text")


def optional_text(reply: Reply) -> str | None:
    """Return a text reply as ``str``, and nil as None."""
    return None if reply is None else text(reply)


def number(reply: Reply) -> int:
    """Return an integer reply; nil is 0, and digits as text are accepted.

    Raises:
        ProtocolError: The reply is no number.
    """
    if isinstance(reply, int):
        return reply
    if reply is None:
        return 0
    try:
        return int(float(reply))
    except (TypeError, ValueError, OverflowError):
        raise unexpected(reply, "an integer") from None


def flag(reply: Reply) -> bool:
    """Return whether the reply is 1; Lua's false arrives as nil."""
    return number(reply) == 1


def texts(reply: Reply) -> list[str]:
    """Return a list of texts; nil is an empty one.

    Raises:
        ProtocolError: The reply is no list of texts.
    """
    if reply is None:
        return []
    if not isinstance(reply, (list, tuple, set)):
        raise unexpected(reply, "a list")
    return [text(item) for item in reply]


def pairs(reply: Reply) -> dict[str, str]:
    """Return a hash, flat or as a mapping, with its texts as ``str``.

    Raises:
        ProtocolError: The reply is no hash.
    """
    try:
        return {text(name): text(value) for name, value in codec.pairs([] if reply is None else reply)}
    except TypeError:
        raise unexpected(reply, "names and values") from None


def unexpected(reply: Reply, expected: str) -> ProtocolError:
    """Return the error for a reply that the contract does not know; it shows the type, never the content."""
    return ProtocolError(f"the server replied {type(reply).__name__} where {expected} belongs")


def items(reply: Reply) -> Sequence[Reply]:
    """Return a list of replies; nil is an empty one.

    Raises:
        ProtocolError: The reply is no list.
    """
    if reply is None:
        return []
    if not isinstance(reply, (list, tuple)):
        raise unexpected(reply, "a list")
    return reply


def entries(reply: Reply) -> list[tuple[Reply, Reply]]:
    """Return entries of a stream, each with its id and its fields; nil: none.

    Raises:
        ProtocolError: The reply is no list of entries.
    """
    found = []
    for entry in items(reply):
        entry_id, fields = rows(entry, 2)
        found.append((entry_id, fields))
    return found


def stream(reply: Reply) -> list[tuple[Reply, Reply]]:
    """Return the entries that a read of one stream gave, each with its id and its fields; nil: none.

    Raises:
        ProtocolError: The reply is no list of entries.
    """
    if not items(reply):
        return []
    # One stream, as [[name, entries]] or, where replies can be maps, as [name, entries].
    _, found = rows(reply[0] if isinstance(reply[0], (list, tuple)) else reply, 2)
    return entries(found)


def rows(reply: Reply, length: int) -> Sequence[Reply]:
    """Return a list of so many replies.

    Raises:
        ProtocolError: The reply is no list of that length.
    """
    if not isinstance(reply, (list, tuple)) or len(reply) != length:
        raise unexpected(reply, f"a list of {length}")
    return reply
