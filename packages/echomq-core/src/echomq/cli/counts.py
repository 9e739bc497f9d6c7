"""``echomq counts``."""

import json
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from echomq.driver import Connection
from echomq.errors import UsageError
from echomq.keys import Keys

from .connecting import connected
from .console import Cut, open_console, print_table
from .looking import counted
from .opening import named_or_all, none_found
from .parameters import PREFIX, AnyQueues, Prefix, Url
from .tables import COLOURS, NAME_WIDTH, bare_table

__all__ = ["counts"]

Counted = dict[str, dict[str, int | bool]]
"""Queue -> state -> number of jobs, and ``paused`` -> whether it is."""


def counts(
    queues: AnyQueues = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks with --watch.")] = 1.0,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show how many jobs each QUEUE has in each state."""
    if as_json and watch:
        raise UsageError("--json shows one moment and does not go with --watch")
    _ = [Keys(queue, prefix) for queue in queues or ()]  # a wrong name is told before the server is asked
    with connected(url) as connection:
        keys = named_or_all(connection, queues, prefix)
        if as_json:
            print(json.dumps(_count(connection, keys)))
        elif watch:
            _watch(connection, keys, interval)
        elif keys:
            print_table(_table(_count(connection, keys)))
        else:
            print(none_found(prefix))


def _watch(connection: Connection, keys: Sequence[Keys], interval_s: float) -> None:
    with Live(console=open_console(), auto_refresh=False, screen=False) as live:
        while True:
            live.update(Cut((_table(_count(connection, keys)),)), refresh=True)
            time.sleep(interval_s)


def _count(connection: Connection, keys: Sequence[Keys]) -> Counted:
    return {
        queue.queue: {**{state.value: found[state] for state in COLOURS}, "paused": meta.is_paused}
        for queue, (found, meta) in zip(keys, counted(connection, keys), strict=True)
    }


def _table(counted: Counted) -> Table:
    table = bare_table("queue", least={"queue": NAME_WIDTH}, gap=1)
    for state, colour in COLOURS.items():
        words = state.value.split("-")
        table.add_column(" ".join(words), justify="right", style=colour, min_width=max(map(len, words)))
    for queue, found in counted.items():
        name = Text(queue, "bold")
        if found["paused"]:
            name.append(" paused", "reverse yellow")
        table.add_row(
            name, *(Text(f"{found[state.value]:,}", "" if found[state.value] else "dim") for state in COLOURS)
        )
    return table
