"""Lets keys on a real server grow older, and throws keys away: what a test does to queues of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from echomq import sync
from echomq.call import Batch, Command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from echomq.driver import Connection, ConnectionSource

__all__ = ["age", "forget", "rouse"]

_PAGE = 1_000


def _command(*parts: str | int) -> Command[Any]:
    return Command(parts=parts, decode=lambda reply: reply, repeatable=True)


def _pages(connection: Connection, pattern: str) -> Iterator[list[str]]:
    cursor = "0"
    while True:
        raw, keys = connection.send(_command("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE))
        yield [key.decode() for key in keys]
        cursor = raw.decode()
        if cursor == "0":
            return


def age(source: ConnectionSource, prefix: str, by_ms: int) -> None:
    """Let keys expire earlier by so much.

    Args:
        source: The server.
        prefix: Name space of the queues.
        by_ms: By how much.
    """
    with contextlib.closing(sync.connect(source)) as connection:
        for keys in _pages(connection, f"{prefix}:*"):
            lives = connection.send_batch(Batch(requests=tuple(_command("PTTL", key) for key in keys)))
            changes: list[Command[Any]] = []
            for key, left_ms in zip(keys, lives, strict=True):
                if 0 <= left_ms <= by_ms:
                    changes.append(_command("DEL", key))
                elif left_ms > by_ms:
                    changes.append(_command("PEXPIRE", key, left_ms - by_ms))
            connection.send_batch(Batch(requests=tuple(changes)))


def rouse(source: ConnectionSource, prefix: str = "*") -> None:
    """Let workers look for jobs that have become due: those that wait, and those that are about to.

    Args:
        source: The server.
        prefix: Name space of the queues; ``*`` stands for all.
    """
    with contextlib.closing(sync.connect(source)) as connection:
        for keys in _pages(connection, f"{prefix}:*:delayed"):
            markers = (f"{key.removesuffix(':delayed')}:marker" for key in keys)
            connection.send_batch(Batch(requests=tuple(_command("ZADD", marker, 0, "0") for marker in markers)))


def forget(source: ConnectionSource, prefix: str) -> None:
    """Remove all keys of a name space."""
    with contextlib.closing(sync.connect(source)) as connection:
        for keys in _pages(connection, f"{prefix}:*"):
            if keys:
                connection.send(_command("UNLINK", *keys))
