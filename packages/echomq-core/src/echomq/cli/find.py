"""``echomq jobs find``."""

import json
from typing import Annotated

import typer
from rich.text import Text

from echomq import sync
from echomq.search import SearchResult
from echomq.states import JobState

from .connecting import connected
from .console import print_table
from .filters import Data, Limit, MaxLooks, Name, Reason, Since, Timeout, Until, search_options
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
    with connected(url) as connection, sync.Queue(queue, connection, prefix=prefix, write_meta=False) as opened:
        found = opened.search(*states, **wanted)
    if as_json:
        for job in found.jobs:
            print(json.dumps(job_json(job)))
    else:
        ending = f"{len(found.jobs):,} found among {found.looked_at:,}; {more_hint(found)}"
        print_table(jobs_table(found.jobs), Text(ending, "dim"))


def more_hint(found: SearchResult) -> str:
    """Say whether there may be more jobs like those found, and how to find them."""
    return _ENDINGS[found.ended_by]
