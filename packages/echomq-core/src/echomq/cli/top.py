"""``echomq top``: queues at work, again and again."""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any

import attrs
import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from echomq import replies
from echomq.call import Command, Reply
from echomq.calls import query
from echomq.calls.events import past_events
from echomq.driver import Connection
from echomq.events import Event
from echomq.job import Job
from echomq.keys import Keys
from echomq.plans import ask_all
from echomq.states import JobState
from echomq.sync.run import perform

from .connecting import connected
from .console import Cut, open_console
from .looking import Look, look
from .opening import all_queues, named_or_all
from .parameters import PREFIX, AnyQueues, Prefix, Url
from .queues import as_json_of, queues_table
from .rates import Rates, millisecond, rates
from .tables import bare_table, span

__all__ = ["top"]

_MOST_EVENTS = 3_000
"""Events of a queue that are read at one look, newest first: a few milliseconds of the server's time."""

_ALL_AGAIN_S = 5.0
"""How often queues are looked for, where none was named."""


@attrs.frozen(kw_only=True)
class Moment:
    """What one look shows.

    Attributes:
        looks: The queues.
        rates: How fast jobs come and go, by queue.
        running: Running jobs, longest first.
        now_ms: The server's clock.
    """

    looks: list[Look]
    rates: dict[Keys, Rates]
    running: list[Job]
    now_ms: int


def top(
    queues: AnyQueues = None,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks.")] = 1.0,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many looks.")] = None,
    jobs: Annotated[int, typer.Option(min=0, metavar="COUNT", help="Running jobs to show, longest first.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look and queue, for programs.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show queues at work, until Ctrl-C: jobs a second, what waits and for how long, what runs."""
    with connected(url) as connection:
        moments = islice(_moments(connection, queues, prefix, interval, jobs), count)
        if as_json:
            for moment in moments:
                for one in moment.looks:
                    print(json.dumps(_as_json(moment, one)), flush=True)
        else:
            _show(moments)


def _show(moments: Iterator[Moment]) -> None:
    console = open_console()
    if not console.is_terminal:
        for moment in moments:
            console.print(_shown(moment))
        return
    shown: RenderableType | None = None
    try:
        with Live(console=console, auto_refresh=False, screen=True) as live:
            for moment in moments:
                shown = _shown(moment)
                live.update(shown, refresh=True)
    finally:
        if shown is not None:
            console.print(shown)  # what was seen last stays when the screen of before comes back


def _moments(
    connection: Connection, named: Sequence[str] | None, prefix: str, interval_s: float, most_running: int
) -> Iterator[Moment]:
    keys = named_or_all(connection, named, prefix)
    looked_for = time.monotonic()
    before_ms = _server_ms(connection)
    while True:
        time.sleep(interval_s)
        if not named and time.monotonic() - looked_for > _ALL_AGAIN_S:
            keys, looked_for = all_queues(connection, prefix), time.monotonic()
        now_ms = _server_ms(connection)
        found = _events(connection, keys, before_ms)
        speeds = {
            queue: rates(events, before_ms, now_ms, is_cut=len(events) == _MOST_EVENTS)
            for queue, events in zip(keys, found, strict=True)
        }
        running = _running(connection, keys, most_running)
        yield Moment(looks=look(connection, keys), rates=speeds, running=running, now_ms=now_ms)
        before_ms = now_ms


def _server_ms(connection: Connection) -> int:
    return connection.send(Command(parts=("TIME",), decode=_read_time, repeatable=True))


def _read_time(reply: Reply) -> int:
    seconds, micros = replies.texts(reply)
    return int(seconds) * 1_000 + int(micros) // 1_000


def _events(connection: Connection, keys: Sequence[Keys], after_ms: int) -> list[list[Event]]:
    requests = [past_events(queue, None, _MOST_EVENTS) for queue in keys]
    found = perform(connection, ask_all(requests))
    return [[event for event in events if millisecond(event.id) >= after_ms] for events in found]


def _running(connection: Connection, keys: Sequence[Keys], most: int) -> list[Job]:
    if not most:
        return []
    # The list of active jobs has the one taken first at its end.
    requests = [query.get_jobs(queue, [JobState.ACTIVE], 0, most - 1, ascending=True) for queue in keys]
    found = [job for jobs in perform(connection, ask_all(requests)) for job in jobs]
    return sorted(found, key=lambda job: job.processed_on_ms or 0)[:most]


def _as_json(moment: Moment, one: Look) -> dict[str, Any]:
    speed = moment.rates[one.keys]
    return {
        "time": moment.now_ms,
        **as_json_of(one),
        "per_second": {kind: round(rate, 1) for kind, rate in attrs.asdict(speed).items()},
        "running": [
            {"id": job.id, "name": job.name, "since": job.processed_on_ms, "by": job.processed_by}
            for job in moment.running
            if job.keys == one.keys
        ],
    }


def _shown(moment: Moment) -> RenderableType:
    if not moment.looks:
        return Text("no queue was found yet", "dim")
    tables = [queues_table(moment.looks, moment.rates)]
    if moment.running:
        table = bare_table("running", "queue", "job", "for", "attempt", "progress", "worker", right=("for", "attempt"))
        for job in moment.running:
            lasted = span(moment.now_ms - (job.processed_on_ms or moment.now_ms))
            progress = "" if job.progress in (0, None) else json.dumps(job.progress)[:30]
            table.add_row(
                *(Text(job.name, "bold"), Text(job.queue_name), Text(job.id), lasted, str(job.attempts_started)),
                *(Text(progress), Text(job.processed_by or "")),
            )
        tables.append(table)
    return Cut(tuple(tables))
