"""What several commands take, and how it is read."""

import re
from typing import Annotated, TypeAlias

import typer

from echomq.address import parse_url
from echomq.errors import UsageError
from echomq.keys import DEFAULT_PREFIX

__all__ = ["Prefix", "Url", "duration_ms", "lasting_url", "required_url"]

Url: TypeAlias = Annotated[
    str | None,
    typer.Option("--url", envvar="ECHOMQ_URL", show_default=False, metavar="URL", help="Server, redis://localhost"),
]
Prefix: TypeAlias = Annotated[str, typer.Option("--prefix", metavar="TEXT", help="Name space of the queues.")]

PREFIX = DEFAULT_PREFIX

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_UNIT_MS = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


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
    if named.partition("?")[0] == "embedded:":
        raise UsageError("embedded: ends with this command and keeps nothing; pass --url embedded:///path/of/a/folder")
    return named


def duration_ms(option: str, text: str) -> int:
    """Read ``1500``, ``500ms``, ``1.5s``, ``2m``, ``1h``, ``1d``.

    Raises:
        UsageError: It is something else.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option}: expected milliseconds, or a number with ms, s, m, h or d, not {text!r}")
    return round(float(found[1]) * _UNIT_MS[found[2]])
