"""What can be sent to a server: a script call, a command, or a batch of them.

All three are frozen values, made by builders (:mod:`echomq.calls`) and sent by
a connection (:mod:`echomq.driver`). A value says what to send and how to read
the answer, never how to send it.

Source: design.md section 3.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import attrs

__all__ = ["Argument", "Batch", "Command", "Reply", "Request", "ScriptCall"]

T = TypeVar("T")

Argument: TypeAlias = str | bytes | int | float
"""What may stand in a request; text is sent as UTF-8, numbers as decimal text."""

Reply: TypeAlias = Any
"""A raw reply: bytes (text where a foreign client decodes), int, None, a list of
these, or, inside a batch, an error instance."""


@attrs.frozen(kw_only=True)
class ScriptCall(Generic[T]):
    """One run of a script.

    Attributes:
        script: Name without the number of keys, ``"moveToActive"``.
        keys: KEYS, in the order of the script's header.
        args: ARGV, in the order of the script's header.
        decode: Pure; turns the raw reply into the value, or raises one of our errors.
        repeatable: True if running it twice leaves what running it once leaves, so
            that it may be sent again when the link broke before the reply.
    """

    script: str
    keys: tuple[str, ...]
    args: tuple[Argument, ...]
    decode: Callable[[Reply], T]
    repeatable: bool = False


@attrs.frozen(kw_only=True)
class Command(Generic[T]):
    """One plain command of the server.

    Attributes:
        parts: Name and arguments, ``("LLEN", "bull:mail:wait")``.
        decode: As in :class:`ScriptCall`.
        repeatable: As in :class:`ScriptCall`.
        block_ms: How long the server itself may hold the reply back (0: not at
            all). A blocking command belongs on a connection of its own.
        near: In a cluster, the key whose node is asked, where the command itself names none.
    """

    parts: tuple[Argument, ...]
    decode: Callable[[Reply], T]
    repeatable: bool = False
    block_ms: int = 0
    near: str | None = None


@attrs.frozen(kw_only=True)
class Batch:
    """Several requests in one write; the answer is a list of outcomes in the same order.

    An outcome is the decoded value, or the error instance that this item would
    have raised: one item's error does not hide the others.

    Attributes:
        requests: What to send, in order.
        atomic: True wraps them in MULTI/EXEC: the server runs all or none of them.
    """

    requests: tuple[ScriptCall[Any] | Command[Any], ...]
    atomic: bool = False


Request: TypeAlias = ScriptCall[T] | Command[T]
