"""``echomq jobs find``."""

import json
from typing import Annotated

import typer
from rich.text import Text

from echomq.search import SearchResult
from echomq.states import JobState

from .console import open_console, print_table
from .filters import Data, Limit, MaxLooks, Name, Reason, Since, Timeout, Until, search_options
from .opening import open_queue
from .parameters import PREFIX, Prefix, Url, duration_ms
from .tables import job_json, jobs_table

__all__ = ["find", "more_hint"]

_ENDINGS = {
    "end": "all jobs were seen",
    "limit": "there may be more: raise --limit",
    "max_looks": "there may be more: raise --max-looks, or name a --state",
    "timeout": "there may be more: raise --timeout, or name a --state",
}


def find(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    name: Name = None,
    data: Data = None,
    state: Annotated[
        list[str] | None, typer.Option(help="Where to look: waiting, failed ...; all, if not given.")
    ] = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    max_looks: MaxLooks = 10_000,
    timeout: Timeout = "5s",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with data and stack trace.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Look through QUEUE for jobs, newest first, without holding up the server."""
    states = JobState.each(state or ())
    wanted = search_options(name=name, data=data, reason=reason, since=since, until=until)
    wanted |= {"limit": limit, "max_looks": max_looks, "timeout": duration_ms("--timeout", timeout)}
    with open_queue(url, queue, prefix) as opened:
        found = opened.search(*states, **wanted)
    if as_json:
        for job in found.jobs:
            print(json.dumps(job_json(job)))
        return
    count = f"{len(found.jobs):,}" if found.jobs else "nothing"
    ending = Text(f"{count} found among {found.looked_at:,}; {more_hint(found)}", "dim")
    if found.jobs:
        print_table(jobs_table(found.jobs), ending)
    else:
        open_console().print(ending)


def more_hint(found: SearchResult) -> str:
    """Say whether there may be more jobs like those found, and how to find them."""
    return _ENDINGS[found.ended_by]
