"""User code with tasks that must type-check under mypy --strict; never run."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated

from echomq import Job, Queue
from echomq.tasks import INJECTED, CurrentJob, Depends, Enqueued, Tasks

tasks = Tasks("redis://localhost", prefix="bull")


@dataclass
class Receipt:
    """What a task gives."""

    sent_on: date


async def session() -> AsyncIterator[str]:
    """Open something and close it afterwards."""
    yield "session"


def settings() -> Iterator[dict[str, str]]:
    """Open something and close it afterwards."""
    yield {}


@tasks.task(queue="emails", retries=3, backoff=timedelta(seconds=1))
async def send(
    to: str,
    copies: int = 1,
    *,
    when: date | None = None,
    db: Annotated[str, Depends(session)] = INJECTED,
    job: CurrentJob = INJECTED,
) -> Receipt:
    """Send a mail."""
    return Receipt(when or date(2026, 1, len(to) + copies + len(db) + job.priority))


@tasks.task(queue="reports", name="report")
def report(year: int, config: Annotated[dict[str, str], Depends(settings)] = INJECTED) -> list[str]:
    """Write a report."""
    return [config[str(year)]]


async def produce() -> None:
    """Call tasks in every way."""
    sent: Enqueued[Receipt] = await send.delay("ada", 2, when=date(2026, 1, 1))
    receipt: Receipt = await sent.result(timeout=5_000)
    later: Enqueued[Receipt] = await send.options(delay=timedelta(hours=1), priority=5).enqueue(to="ada")
    again: Receipt = await send.enqueued("17").result(timeout=timedelta(seconds=5))
    here: Receipt = await send("ada")
    rows: list[str] = report(2026)
    jobs: list[Job] = await Queue("emails").add_bulk([send.new_job("ada"), send.options(delay=5).new_job("bob")])
    print(receipt.sent_on, later.id, again, here, rows, send.result_of(jobs[0]).sent_on)


def produce_blocking() -> None:
    """Call tasks without an event loop."""
    sent: Enqueued[list[str]] = report.delay_sync(2026)
    rows: list[str] = sent.result_sync(timeout=5_000)
    print(rows, report.options(lifo=True).enqueue_sync(year=2026).id)


def work() -> None:
    """Run them."""
    tasks.worker("emails", concurrency=50).run_sync()
