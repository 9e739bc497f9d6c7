"""``echomq add``."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from echomq import aio, codec
from echomq.errors import ProtocolError, UsageError
from echomq.options import Backoff

from .console import open_console
from .parameters import PREFIX, Prefix, Url, duration_ms, lasting_url

if TYPE_CHECKING:
    from echomq.keywords import JobKeywords

__all__ = ["add"]


def add(
    queue: Annotated[str, typer.Argument(help="Name of the queue.")],
    name: Annotated[str, typer.Argument(help="Name of the job; workers route by it.")],
    data: Annotated[str, typer.Argument(metavar="[JSON]", help="Data; - reads it from standard input.")] = "null",
    delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="Wait so long: 1500, 500ms, 5s, 2m, 1h, 1d.")
    ] = None,
    priority: Annotated[int | None, typer.Option(help="1 (most urgent) to 2097151; 0: none, runs first.")] = None,
    attempts: Annotated[int | None, typer.Option(help="How often it may run in all.")] = None,
    backoff: Annotated[
        str | None, typer.Option(metavar="[TYPE:]TIME", help="Wait between attempts: 1s, exponential:1s.")
    ] = None,
    job_id: Annotated[str | None, typer.Option(help="An id of your own; the same id is added once.")] = None,
    deduplication_id: Annotated[str | None, typer.Option(help="Not added while another job holds it.")] = None,
    lifo: Annotated[bool, typer.Option("--lifo", help="Run before all that wait.")] = False,
    keep_completed: Annotated[int | None, typer.Option(metavar="COUNT", help="Completed jobs to keep.")] = None,
    keep_failed: Annotated[int | None, typer.Option(metavar="COUNT", help="Failed jobs to keep.")] = None,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Add one job to QUEUE and print its id."""
    options: JobKeywords = {
        "delay": None if delay is None else duration_ms("--delay", delay),
        "priority": priority,
        "attempts": attempts,
        "backoff": None if backoff is None else _backoff(backoff),
        "job_id": job_id,
        "deduplication": deduplication_id,
        "lifo": lifo or None,
        "remove_on_complete": keep_completed,
        "remove_on_fail": keep_failed,
    }
    job = asyncio.run(aio.add(queue, name, _json(data), connection=lasting_url(url), prefix=prefix, **options))
    _say(job.id, queue)


def _say(job_id: str, queue: str) -> None:
    if sys.stdout.isatty():
        open_console().print(Text.assemble(("✓", "green"), " job ", (job_id, "bold"), f" is in queue {queue}"))
    else:
        print(job_id)


def _json(text: str) -> object:
    raw = sys.stdin.read() if text == "-" else text
    try:
        return codec.decode_json(raw)
    except ProtocolError as error:
        raise UsageError(f'the data is {error}; expected JSON such as \'{{"to": "ada@example.org"}}\'') from None


def _backoff(text: str) -> Backoff:
    kind, colon, delay = text.rpartition(":")
    try:
        return Backoff(type=kind if colon else "fixed", delay=duration_ms("--backoff", delay))
    except UsageError as error:
        raise UsageError(f"{error}; in all [TYPE:]TIME, such as 1s or exponential:1s") from None
