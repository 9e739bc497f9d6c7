"""Connects a command to its server, and says what it waits for when that takes long."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from echomq import plugins, replies
from echomq.address import without_password
from echomq.call import Command
from echomq.driver import Connection, ConnectionOptions
from echomq.errors import EchoMQError
from echomq.sync import connect

from .parameters import lasting_url

__all__ = ["connected"]

_PATIENCE_S = 1.0


@contextmanager
def connected(url: str | None) -> Iterator[Connection]:
    """Give a connection whose server answers, for the length of a ``with`` block.

    Raises:
        UsageError: There is no URL, or it is wrong.
        DriverError: The server does not answer, or refuses.
    """
    named = lasting_url(url)
    connection = connect(named)
    try:
        with _impatient(named):
            connection.send(Command(parts=("PING",), decode=replies.nothing, repeatable=True))
        yield connection
    finally:
        connection.close()


@contextmanager
def _impatient(url: str) -> Iterator[None]:
    """Say on standard error what is waited for, once it takes more than a second."""
    timer = threading.Timer(_PATIENCE_S, _say, [url])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _say(url: str) -> None:
    limit = ""
    try:
        options = plugins.resolved(url)
        if isinstance(options, ConnectionOptions):
            limit = f", for up to {options.deadline_ms / 1000:g} s"
    except EchoMQError:  # an embedded: URL; where it listens is known, how patient the connection is is not
        pass
    print(f"waiting for the server at {without_password(url)}{limit}; Ctrl-C ends it", file=sys.stderr, flush=True)
