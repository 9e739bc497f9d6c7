"""What several commands take, and how it is read."""

import sys
from typing import Annotated, TypeAlias

import typer

from echomq.address import parse_url
from echomq.errors import UsageError
from echomq.keys import DEFAULT_PREFIX
from echomq.moments import read_duration_ms as duration_ms

__all__ = ["AnyQueues", "Prefix", "Url", "duration_ms", "lasting_url", "required_url"]

Url: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", envvar="ECHOMQ_URL", show_default=False, metavar="URL", help="Server, redis://localhost"),
]
AnyQueues: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Names of queues; none: all of the prefix.")
]
Prefix: TypeAlias = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Name space of the queues.")]

PREFIX = DEFAULT_PREFIX


def required_url(url: str | None) -> str:
    """Return the URL of the server; whether it is well-formed is seen before anything is done.

    Raises:
        UsageError: There is none, or it is wrong.
    """
    if not url:
        raise UsageError("no server: pass --url redis://localhost, or set ECHOMQ_URL")
    if not url.startswith("embedded:"):
        parse_url(url)
    return url


def lasting_url(url: str | None) -> str:
    """Return the URL of a server that is there after this command.

    Raises:
        UsageError: As :func:`required_url`, or the server would end with this command.
    """
    named = required_url(url)
    if named.startswith("memory:") and "echomq_memory.server" not in sys.modules:  # else it was there before
        raise UsageError("memory:// lives and ends with this command; pass the URL of a server")
    if named.partition("?")[0] == "embedded:":
        raise UsageError("embedded: ends with this command and keeps nothing; pass --url embedded:///path/of/a/folder")
    return named
