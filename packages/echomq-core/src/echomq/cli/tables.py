"""How several commands show jobs: a table for people, JSON for programs."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from echomq.codec import decode_json
from echomq.errors import ProtocolError, UsageError
from echomq.job import Job
from echomq.states import JobState

from . import FAILURE

__all__ = ["COLOURS", "NAME_WIDTH", "ask", "bare_table", "job_json", "jobs_table", "lenient", "span"]

COLOURS: Mapping[JobState, str] = {
    JobState.WAITING: "yellow",
    JobState.PRIORITIZED: "magenta",
    JobState.DELAYED: "cyan",
    JobState.ACTIVE: "blue",
    JobState.WAITING_CHILDREN: "bright_black",
    JobState.COMPLETED: "green",
    JobState.FAILED: "red",
}
"""State -> its colour, in the order of a job's life."""

NAME_WIDTH = 12
"""Columns that a name keeps in a narrow terminal."""

_REASON_WIDTH = 60
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"))


def bare_table(*columns: str, right: Sequence[str] = (), least: Mapping[str, int] | None = None, gap: int = 2) -> Table:
    """Return a table without lines.

    Args:
        *columns: Their titles.
        right: Those whose numbers are set to the right.
        least: Column -> width that it keeps though the terminal is narrow.
        gap: Blanks between two columns.
    """
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    for column in columns:
        is_number = column in right
        table.add_column(
            column,
            overflow="fold",
            no_wrap=is_number,
            justify="right" if is_number else "left",
            min_width=len(column) if is_number else (least or {}).get(column),
        )
    return table


def jobs_table(jobs: Sequence[Job]) -> Table:
    """Return a line for each job."""
    longest = max((cell_len(job.id) for job in jobs), default=0)  # an id in pieces could not be copied
    least = {"id": longest, "name": NAME_WIDTH, "state": 9, "made": 20, "attempts": 8, "reason": NAME_WIDTH}
    table = bare_table("id", "name", "state", "made", "attempts", "reason", least=least)
    for job in jobs:
        state = Text(job.state.value, COLOURS.get(job.state, "")) if job.state else Text("")
        made = f"{job.timestamp:%Y-%m-%d %H:%M:%S}Z"
        reason = (job.failed_reason or "").partition("\n")[0][:_REASON_WIDTH]
        table.add_row(Text(job.id), Text(job.name), state, made, str(job.attempts_made), Text(reason))
    return table


def job_json(job: Job) -> dict[str, Any]:
    """Return what programs want to know of a job."""
    return {
        "id": job.id,
        "name": job.name,
        "state": job.state.value if job.state else None,
        "timestamp": job.timestamp_ms,
        "attempts_made": job.attempts_made,
        "reason": job.failed_reason,
        "stacktrace": list(job.stacktrace),
        "data": lenient(job.raw_data),
    }


def span(length_ms: int) -> str:
    """Return a length of time in its two largest units: ``"3m 20s"``; ``"-"`` for none."""
    if length_ms <= 0:
        return "-"
    told: list[str] = []
    left_ms = length_ms
    for unit_ms, name in _UNITS:
        count, left_ms = divmod(left_ms, unit_ms)
        if count or told:
            told.append(f"{count}{name}")
    return " ".join(told[:2]) or f"{length_ms}ms"


def ask(question: str, yes: bool) -> None:
    """Ask whether to go on, unless that was said already.

    Raises:
        UsageError: Nobody can be asked.
        typer.Exit: The answer was no.
        typer.Abort: Ctrl-C.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{question} Pass --yes, since nobody can be asked here")
    if not typer.confirm(question):
        print("nothing was done", file=sys.stderr)
        raise typer.Exit(FAILURE)


def lenient(raw: bytes | str) -> object:
    """Return data; what another client broke is given as its text."""
    try:
        return decode_json(raw)
    except ProtocolError:
        return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
