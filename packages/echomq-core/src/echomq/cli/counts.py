"""``echomq counts``."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from echomq.call import Batch
from echomq.calls import query
from echomq.calls import queue as queue_calls
from echomq.driver import Connection
from echomq.errors import EchoMQError, UsageError
from echomq.keys import Keys
from echomq.states import JobState

from .connecting import connected
from .parameters import PREFIX, Prefix, Url

__all__ = ["COLOURS", "counts"]

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

Counted = dict[str, dict[str, int | bool]]
"""Queue -> state -> number of jobs, and ``paused`` -> whether it is."""


def counts(
    queues: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Names of queues.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks with --watch.")] = 1.0,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show how many jobs each QUEUE has in each state."""
    if as_json and watch:
        raise UsageError("--json shows one moment and does not go with --watch")
    keys = [Keys(queue, prefix) for queue in queues]
    with connected(url) as connection:
        if as_json:
            print(json.dumps(_count(connection, keys)))
        elif watch:
            _watch(connection, keys, interval)
        else:
            Console().print(_table(_count(connection, keys)))


def _watch(connection: Connection, keys: Sequence[Keys], interval_s: float) -> None:
    with Live(_table(_count(connection, keys)), auto_refresh=False, screen=False) as live:
        while True:
            time.sleep(interval_s)
            live.update(_table(_count(connection, keys)), refresh=True)


def _count(connection: Connection, keys: Sequence[Keys]) -> Counted:
    requests = [
        request for queue in keys for request in (query.get_counts(queue, COLOURS), queue_calls.is_paused(queue))
    ]
    outcomes = connection.send_batch(Batch(requests=tuple(requests)))
    for outcome in outcomes:
        if isinstance(outcome, EchoMQError):
            raise outcome
    return {
        queue.queue: {**{state.value: found[state] for state in COLOURS}, "paused": paused}
        for queue, found, paused in zip(keys, outcomes[::2], outcomes[1::2], strict=True)
    }


def _table(counted: Counted) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("queue", overflow="fold")
    for state, colour in COLOURS.items():
        table.add_column(state.value.replace("-", " "), justify="right", style=colour)
    for queue, found in counted.items():
        name = Text(queue, "bold")
        if found["paused"]:
            name.append(" paused", "reverse yellow")
        table.add_row(
            name, *(Text(f"{found[state.value]:,}", "" if found[state.value] else "dim") for state in COLOURS)
        )
    return table
