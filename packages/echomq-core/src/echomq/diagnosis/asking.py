"""Requests of the doctor: plain commands whose replies are read leniently, since the queue may be damaged."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from echomq import replies
from echomq.call import Argument, Command, Reply
from echomq.errors import EchoMQError

__all__ = ["MOST_ODD", "PAGE", "as_pairs", "as_text", "pages", "raw", "read_info"]

T = TypeVar("T")

MOST_ODD = 200
"""Odd ids of a kind that are followed up; there may be more."""

PAGE = 500
"""Ids or keys of one request."""


def raw(*parts: Argument, near: str | None = None) -> Command[Reply]:
    """Return a command that only reads, and whose reply comes as it is.

    Args:
        parts: Name and arguments.
        near: The key whose node is asked, in a cluster, whatever the command itself names.
    """
    return Command(parts=parts, decode=_as_it_is, repeatable=True, near=near)


def _as_it_is(reply: Reply) -> Reply:
    return reply


def read_info(reply: Reply) -> dict[str, str]:
    """Return the fields of INFO; lines that are none are passed over."""
    text = replies.text(reply)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line and not line.startswith("#"))


def as_text(reply: Reply) -> str:
    """Return a text; an empty one where the reply is none."""
    return replies.text(reply) if isinstance(reply, (bytes, str, int, float)) else ""


def as_pairs(reply: Reply) -> dict[str, str]:
    """Return a hash; an empty one where the reply is none."""
    try:
        return replies.pairs(reply)
    except EchoMQError:
        return {}


def pages(items: Sequence[T]) -> Iterable[Sequence[T]]:
    """Cut a sequence into parts of a page each."""
    return (items[start : start + PAGE] for start in range(0, len(items), PAGE))
