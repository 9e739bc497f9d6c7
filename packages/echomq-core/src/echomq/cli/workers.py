"""``echomq workers``."""

import json
from collections.abc import Sequence
from typing import Annotated

import attrs
import typer
from rich.table import Table
from rich.text import Text

from echomq import watching
from echomq.calls.presence import WorkerDetails
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import ServerRefused
from echomq.keys import Keys
from echomq.sync.run import perform

from .connecting import connected
from .console import open_console, print_table
from .opening import named_or_all
from .parameters import PREFIX, AnyQueues, Prefix, Url
from .tables import bare_table, span

__all__ = ["workers"]

_NAMED_JOBS = 3


def workers(
    queues: AnyQueues = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show who works for each QUEUE: where, since when, and on which jobs."""
    with connected(url) as connection:
        each = named_or_all(connection, queues, prefix)
        found = [(keys, perform(connection, watching.worker_details(keys))) for keys in each]
        silent = {keys: _connected(connection, keys, len(told)) for keys, told in found}
    if as_json:
        for keys, told in found:
            for details in told:
                print(json.dumps({"queue": keys.queue, **attrs.asdict(details)}))
        return
    console = open_console()
    if any(told for _, told in found):
        print_table(_table(found))
    for keys, count in silent.items():
        if count:
            more = " more" if any(told for others, told in found if others == keys) else ""
            console.print(f"{keys.queue}: {count}{more} connected, of another runtime or not heard of yet")
    if not any(told for _, told in found) and not any(silent.values()):
        console.print("no worker was found")


def _connected(connection: Connection, keys: Keys, told_count: int) -> int:
    """Count the workers that are connected but tell nothing of themselves; 0 where the server lists no clients."""
    try:
        return max(0, len(perform(connection, watching.workers(keys))) - told_count)
    except ServerRefused:
        return 0


def _table(found: Sequence[tuple[Keys, Sequence[WorkerDetails]]]) -> Table:
    table = bare_table(
        "queue", "worker", "host", "pid", "version", "for", "jobs", "longest", right=("pid", "for", "jobs")
    )
    now_ms = wall_ms()
    for keys, told in found:
        for details in told:
            longest = [
                f"{job.name} {job.id} {span(now_ms - job.since_ms if job.since_ms else 0)}"
                for job in details.running[:_NAMED_JOBS]
            ]
            more = details.running_count - len(longest)
            table.add_row(
                *(Text(keys.queue), Text(details.name or ""), Text(details.host), str(details.pid)),
                *(Text(details.version), span(now_ms - details.started_ms)),
                f"{details.running_count}/{details.concurrency}",
                Text(", ".join(longest) + (f" and {more} more" if more > 0 and longest else "")),
            )
    return table
