"""``echomq queues``: which there are, how they do, and what can be done to a whole queue."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias

import typer
from rich.table import Table
from rich.text import Text

from echomq import sync
from echomq.keys import Keys
from echomq.plans import UNSTARTED
from echomq.states import JobState

from .connecting import connected
from .console import open_console, print_table
from .looking import Look, look
from .opening import must_exist, named_or_all, none_found
from .parameters import PREFIX, AnyQueues, Prefix, Url, duration_ms
from .rates import Rates
from .tables import NAME_WIDTH, ask, bare_table, span

__all__ = ["as_json_of", "clean", "drain", "list_queues", "obliterate", "pause", "queues_table", "resume"]

Named: TypeAlias = Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Names of queues.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def list_queues(
    queues: AnyQueues = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show how each QUEUE does: jobs, workers, for how long the first in line has waited, limits."""
    with connected(url) as connection:
        looks = look(connection, named_or_all(connection, queues, prefix))
    if as_json:
        for one in looks:
            print(json.dumps(as_json_of(one)))
    elif looks:
        print_table(queues_table(looks))
    else:
        print(none_found(prefix))


def pause(queues: Named, url: Url = None, prefix: Prefix = PREFIX) -> None:
    """Let no worker of any runtime take jobs of QUEUE; running jobs go on."""
    for opened in _each(url, queues, prefix):
        opened.pause()
        print(f"queue {opened.name} is paused")


def resume(queues: Named, url: Url = None, prefix: Prefix = PREFIX) -> None:
    """Let workers take jobs of QUEUE again."""
    for opened in _each(url, queues, prefix):
        opened.resume()
        print(f"queue {opened.name} goes on")


def drain(
    queues: Named,
    delayed: Annotated[bool, typer.Option("--delayed", help="The delayed ones, too.")] = False,
    yes: Yes = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Remove all jobs of QUEUE that wait; running and finished ones stay."""
    for opened in _each(url, queues, prefix, f"Remove all waiting jobs of {', '.join(queues)} for good?", yes):
        before = opened.count()
        opened.drain(delayed=delayed)
        print(f"queue {opened.name}: {max(before - opened.count(), 0):,} jobs removed")


def clean(
    queues: Named,
    state: Annotated[str, typer.Option(help="completed, failed, waiting, delayed ...")] = "completed",
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Younger ones stay: 1h, 7d.")] = "0",
    limit: Annotated[int, typer.Option(min=0, help="Most jobs to remove; 0: all.")] = 0,
    yes: Yes = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Remove jobs of one state, completed unless said otherwise, from QUEUE, in short steps."""
    grace_ms, where = duration_ms("--older-than", older_than), JobState.of(state)
    for opened in _each(url, queues, prefix, f"Remove {where.value} jobs of {', '.join(queues)} for good?", yes):
        with open_console(stderr=True).status(Text(f"queue {opened.name}")) as status:

            def told(count: int, queue: sync.Queue = opened, status: Any = status) -> None:
                status.update(Text(f"queue {queue.name}: {count:,} jobs removed"))

            removed = opened.clean(grace_ms, limit=limit, state=where, on_progress=told)
        print(f"queue {opened.name}: {len(removed):,} jobs removed")


def obliterate(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")],
    force: Annotated[bool, typer.Option("--force", help="Even while jobs are running.")] = False,
    yes: Yes = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Delete QUEUE with all its jobs."""
    for opened in _each(url, [queue], prefix, f"Delete queue {queue} with all its jobs for good?", yes):
        opened.obliterate(force=force)
        print(f"queue {queue} is gone")


def as_json_of(one: Look) -> dict[str, Any]:
    """Return what programs want to know of a queue."""
    limit = one.meta.rate_limit
    return {
        "queue": one.keys.queue,
        "paused": one.meta.is_paused,
        "counts": {state.value: count for state, count in one.counts.items()},
        "latency_ms": one.latency_ms,
        "workers": one.workers,
        "concurrency": one.meta.concurrency,
        "rate_limit": None if limit is None else {"max": limit.max, "duration_ms": one.meta.duration_ms},
        "version": one.meta.version,
    }


def queues_table(looks: list[Look], speeds: Mapping[Keys, Rates] | None = None) -> Table:
    """Return a line for each queue; with jobs a second, if they are known."""
    paces = ("added/s", "done/s", "failed/s") if speeds else ()
    numbers = (*paces, "to do", "active", "failed", "done", "oldest", "workers")
    limits = [_limits(one) for one in looks]
    last = ("limits",) if any(limits) else ()
    least = {"queue": NAME_WIDTH, "limits": NAME_WIDTH}
    gap = 1 if speeds else 2  # numbers and names fit into 80 columns
    table = bare_table("queue", *numbers, *last, right=numbers, least=least, gap=gap)
    for one, limit in zip(looks, limits, strict=True):
        name = Text(one.keys.queue, "bold")
        if one.meta.is_paused:
            name.append(" paused", "reverse yellow")
        speed = _paces(speeds[one.keys]) if speeds else ()
        table.add_row(name, *speed, *_cells(one), *([Text(limit)] if last else []))
    return table


def _paces(speed: Rates) -> list[Text]:
    return [_pace(rate) for rate in (speed.added, speed.completed, speed.failed)]


def _pace(rate: float) -> Text:
    return Text(f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}", "" if rate else "dim")


def _cells(one: Look) -> list[Text]:
    todo, failed = sum(one.counts[state] for state in UNSTARTED), one.counts[JobState.FAILED]
    workers = "?" if one.workers is None else f"{one.workers:,}"
    is_left_alone = one.workers == 0 and todo > 0
    return [
        Text(f"{todo:,}", "yellow" if todo else "dim"),
        Text(f"{one.counts[JobState.ACTIVE]:,}", "blue" if one.counts[JobState.ACTIVE] else "dim"),
        Text(f"{failed:,}", "red" if failed else "dim"),
        Text(f"{one.counts[JobState.COMPLETED]:,}", "green" if one.counts[JobState.COMPLETED] else "dim"),
        Text(span(one.latency_ms)),
        Text(workers, "bold red" if is_left_alone else ""),
    ]


def _limits(one: Look) -> str:
    told = []
    if one.meta.concurrency:
        told.append(f"{one.meta.concurrency} at a time")
    if (limit := one.meta.rate_limit) is not None:
        told.append(f"{limit.max} in {span(one.meta.duration_ms or 0)}")
    return ", ".join(told)


def _each(
    url: str | None, queues: list[str], prefix: str, question: str | None = None, yes: bool = False
) -> Iterator[sync.Queue]:
    """Give the queues one after the other, once it is sure that all exist and that the question is answered.

    Raises:
        UsageError: There is no queue of that name: a change to it would make one.
    """
    with connected(url) as connection:
        opened = [sync.Queue(name, connection, prefix=prefix, write_meta=False) for name in queues]
        must_exist(connection, [queue.keys for queue in opened])
        if question is not None:
            ask(question, yes)
        yield from opened
