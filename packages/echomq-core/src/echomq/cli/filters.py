"""What several commands take to say which jobs are meant."""

from datetime import datetime
from typing import Annotated, Any, TypeAlias

import typer

from echomq.clock import wall_ms
from echomq.codec import decode_json
from echomq.errors import ProtocolError, UsageError
from echomq.moments import moment_ms

from .parameters import duration_ms

__all__ = ["Data", "Limit", "MaxLooks", "Name", "Reason", "Since", "Timeout", "Until", "search_options"]

Name: TypeAlias = Annotated[str | None, typer.Option(help="Name of the jobs.")]
Data: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH=VALUE", help="What stands at a path of their data: to.name=ada, items.0=5."),
]
Reason: TypeAlias = Annotated[str | None, typer.Option(metavar="TEXT", help="A part of the reason of failure.")]
Since: TypeAlias = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Made after it: 2h (ago), or 2026-03-01T12:00Z.")
]
Until: TypeAlias = Annotated[str | None, typer.Option(metavar="WHEN", help="Made before it.")]
Limit: TypeAlias = Annotated[int, typer.Option(min=1, help="Most jobs to find.")]
MaxLooks: TypeAlias = Annotated[int, typer.Option(min=1, help="Most jobs to look at.")]
Timeout: TypeAlias = Annotated[str, typer.Option(metavar="TIME", help="Longest search.")]


def search_options(
    *, name: str | None, data: list[str] | None, reason: str | None, since: str | None, until: str | None
) -> dict[str, Any]:
    """Return what :meth:`echomq.sync.Queue.search` takes.

    Raises:
        UsageError: A path has no value, or a moment is none.
    """
    return {
        "name": name,
        "data": dict(map(_path_and_value, data or ())),
        "reason": reason,
        "since": _moment("--since", since),
        "until": _moment("--until", until),
    }


def _path_and_value(text: str) -> tuple[str, object]:
    path, equals, value = text.partition("=")
    if not (path and equals):
        raise UsageError(f"--data: expected PATH=VALUE, such as to.name=ada, not {text!r}")
    try:
        return path, decode_json(value)
    except ProtocolError:
        return path, value  # text needs no quotes, unless it looks like something else


def _moment(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return wall_ms() - duration_ms(option, text)
    except UsageError as error:
        try:
            moment = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith("Z") else text)
        except ValueError:
            raise UsageError(f"{error}; nor is it a moment such as 2026-03-01T12:00Z") from None
    return moment_ms(option, moment)
