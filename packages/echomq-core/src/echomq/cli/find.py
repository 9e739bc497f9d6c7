"""``echomq jobs find``."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from echomq import sync
from echomq.clock import wall_ms
from echomq.codec import decode_json
from echomq.errors import ProtocolError, UsageError
from echomq.job import Job
from echomq.moments import moment_ms
from echomq.search import SearchResult
from echomq.states import JobState

from .connecting import connected
from .counts import COLOURS
from .parameters import PREFIX, Prefix, Url, duration_ms

__all__ = ["find"]

_ENDINGS = {
    "end": "all jobs were seen",
    "limit": "there may be more: raise --limit",
    "max_looks": "there may be more: raise --max-looks, or name a --state",
    "timeout": "there may be more: raise --timeout, or name a --state",
}
_REASON_WIDTH = 60


def find(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    name: Annotated[str | None, typer.Option(help="Name of the jobs.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=VALUE", help="What stands at a path of their data: to.name=ada, items.0=5."),
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Where to look: waiting, failed ...; all, if not given.")
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="A part of the reason of failure.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Made after it: 2h (ago), or 2026-03-01T12:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Made before it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most jobs to find.")] = 100,
    max_looks: Annotated[int, typer.Option(min=1, help="Most jobs to look at.")] = 10_000,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Longest search.")] = "5s",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with data and stack trace.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Look through QUEUE for jobs, newest first, without holding up the server."""
    states = JobState.each(state or ())
    wanted: dict[str, Any] = {
        "name": name,
        "data": dict(map(_path_and_value, data or ())),
        "reason": reason,
        "since": _moment("--since", since),
        "until": _moment("--until", until),
        "limit": limit,
        "max_looks": max_looks,
        "timeout": duration_ms("--timeout", timeout),
    }
    with connected(url) as connection, sync.Queue(queue, connection, prefix=prefix, write_meta=False) as opened:
        found = opened.search(*states, **wanted)
    if as_json:
        for job in found.jobs:
            print(json.dumps(_as_json(job)))
    else:
        Console(highlight=False).print(Group(_table(found.jobs), Text(_ending(found), "dim")))


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


def _ending(found: SearchResult) -> str:
    return f"{len(found.jobs):,} found among {found.looked_at:,}; {_ENDINGS[found.ended_by]}"


def _table(jobs: Sequence[Job]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "name", "state", "made", "attempts", "reason"):
        table.add_column(column, overflow="fold")
    for job in jobs:
        state = Text(job.state.value, COLOURS.get(job.state, "")) if job.state else Text("")
        made = f"{job.timestamp:%Y-%m-%d %H:%M:%S}Z"
        reason = (job.failed_reason or "").partition("\n")[0][:_REASON_WIDTH]
        table.add_row(Text(job.id), Text(job.name), state, made, str(job.attempts_made), Text(reason))
    return table


def _as_json(job: Job) -> dict[str, object]:
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state.value if job.state else None,
        "timestamp": job.timestamp_ms,
        "attempts_made": job.attempts_made,
        "reason": job.failed_reason,
        "stacktrace": list(job.stacktrace),
        "data": _lenient(job.raw_data),
    }


def _lenient(raw: bytes | str) -> object:
    """Return data; what another client broke is given as its text."""
    try:
        return decode_json(raw)
    except ProtocolError:
        return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
