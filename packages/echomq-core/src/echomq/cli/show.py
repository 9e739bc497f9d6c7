"""``echomq jobs show``."""

import json
from collections.abc import Iterator
from textwrap import indent
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from echomq.clock import wall_ms
from echomq.errors import JobNotFound
from echomq.job import Job
from echomq.states import JobState

from .console import open_console
from .opening import open_queue
from .parameters import PREFIX, Prefix, Url
from .tables import COLOURS, job_json, lenient, span

__all__ = ["show"]


def show(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The job.")],
    logs: Annotated[int, typer.Option(min=0, metavar="COUNT", help="Last rows of its log to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Show all there is to know of one job: data, state, attempts, result, failures, log."""
    with open_queue(url, queue, prefix) as opened:
        job, state = opened.get_job(job_id), opened.get_job_state(job_id)
        if job is None:
            raise JobNotFound("getJob", job_id)
        rows = opened.get_job_logs(job_id, -logs, -1) if logs else []
        in_all = opened.count_job_logs(job_id)
    if as_json:
        print(json.dumps(_as_json(job, state, rows), indent=2))
    else:
        open_console().print(Group(*_shown(job, state, rows, in_all)), soft_wrap=True)


def _as_json(job: Job, state: JobState, rows: list[str]) -> dict[str, Any]:
    return {
        **job_json(job),
        "state": state.value,
        "queue": job.queue_name,
        "options": lenient(job.raw_options),
        "priority": job.priority,
        "delay": job.delay_ms,
        "progress": job.progress,
        "result": job.return_value,
        "attempts_started": job.attempts_started,
        "stalled_count": job.stalled_count,
        "processed_by": job.processed_by,
        "processed_on": job.processed_on_ms,
        "finished_on": job.finished_on_ms,
        "parent": job.parent_key,
        "scheduler": job.scheduler_id,
        "deduplication_id": job.deduplication_id,
        "logs": rows,
    }


def _shown(job: Job, state: JobState, rows: list[str], in_all: int) -> Iterator[RenderableType]:
    yield Text.assemble((job.name, "bold"), f" {job.queue_name}:{job.id} ", (state.value, COLOURS.get(state, "")))
    for title, value in _facts(job):
        if value:
            yield Text.assemble((f"{title:<12}", "dim"), value)
    for title, raw in (("data", job.raw_data), ("options", job.raw_options), ("result", job.raw_return_value)):
        if raw is not None and _text(raw) not in ("{}", "null"):
            yield from _block(title, _pretty(raw))
    for number, trace in enumerate(job.stacktrace, 1):
        yield from _block(f"failure {number} of {len(job.stacktrace)}", trace.rstrip())
    if rows:
        hidden = in_all - len(rows)
        yield from _block(f"log{f', without the first {hidden:,} rows' if hidden else ''}", "\n".join(rows))


def _facts(job: Job) -> Iterator[tuple[str, str]]:
    now_ms = wall_ms()
    yield "made", f"{job.timestamp:%Y-%m-%d %H:%M:%S}Z, {span(now_ms - job.timestamp_ms)} ago"
    if job.processed_on is not None:
        by = f" by {job.processed_by}" if job.processed_by else ""
        yield "taken", f"{job.processed_on:%Y-%m-%d %H:%M:%S}Z{by}"
    if job.finished_on is not None:
        took_ms = (job.finished_on_ms or 0) - (job.processed_on_ms or 0)
        yield "finished", f"{job.finished_on:%Y-%m-%d %H:%M:%S}Z, after {max(took_ms, 0):,} ms"
    yield "attempts", f"{job.attempts_made} of {max(job.options.attempts, 1)}, started {_times(job.attempts_started)}"
    yield "stalled", _times(job.stalled_count) if job.stalled_count else ""
    yield "priority", str(job.priority or "")
    yield "delay", span(job.delay_ms) if job.delay_ms else ""
    yield "progress", "" if job.progress in (0, None) else json.dumps(job.progress)
    yield "reason", job.failed_reason or ""
    yield "parent", job.parent_key or ""
    yield "scheduler", job.scheduler_id or ""
    yield "dedup id", job.deduplication_id or ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _block(title: str, text: str) -> Iterator[RenderableType]:
    yield Text(title, "bold")
    yield Text(indent(text, "  "))


def _pretty(raw: bytes | str) -> str:
    try:
        return json.dumps(json.loads(_text(raw)), indent=2, ensure_ascii=False)
    except ValueError:  # another client broke it; shown as it is
        return _text(raw)


def _text(raw: bytes | str) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
