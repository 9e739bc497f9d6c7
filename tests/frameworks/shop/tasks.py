"""The shop's tasks."""

import asyncio
import os
import threading
import time
from pathlib import Path
from typing import Any

from django.db import connection

from echomq import Backoff, Delay, Unrecoverable
from echomq.sync.context import current_context
from echomq_django import job_options
from echomq_django.framework import TaskContext, task, task_backends

from .models import Order


class Declined(Exception):
    """The bank does not pay."""


@task
def total(prices: list[int], *, discount: int = 0) -> int:
    """Add up."""
    return sum(prices) - discount


@task(queue_name="emails")
async def welcome(name: str) -> str:
    """Greet, from a coroutine."""
    await asyncio.sleep(0)
    return f"mail to {name}"


@task
def pack(order: int) -> str:
    """Mark an order as packed."""
    found = Order.objects.get(pk=order)
    found.is_packed = True
    found.save()
    return str(found.item)


@task(takes_context=True)
def look(context: TaskContext, word: str) -> dict[str, Any]:
    """Tell what a running task sees of itself."""
    result = context.task_result
    stored = task_backends["default"].get_result(result.id)
    return {
        "word": word,
        "attempt": context.attempt,
        "status": result.status,
        "stored": stored.status,
        "started": stored.started_at is not None,
        "workers": stored.worker_ids,
    }


@task
@job_options(attempts=3, backoff=Backoff("fixed", 10))
def charge(cents: int) -> None:
    """Fail each time."""
    raise Declined(f"no {cents} cents\nos.system: not even one")


@task(takes_context=True)
@job_options(attempts=2)
def second_time(context: TaskContext) -> int:
    """Fail the first time only."""
    if context.attempt == 1:
        raise Declined("try again")
    return context.attempt


@task
@job_options(attempts=5)
def hopeless() -> None:
    """Fail for good at once."""
    raise Unrecoverable("no such customer")


@task
def later() -> str:
    """Ask for more time once, without failing."""
    ctx = current_context()
    assert ctx is not None
    if ctx.job.attempts_started == 1:
        raise Delay(10)
    return "done"


@task
@job_options(timeout=50)
def slow() -> None:
    """Take longer than allowed, though it could be asked to end."""
    ctx = current_context()
    assert ctx is not None
    ctx.cancelled.wait(30)


@task
def nothing_json() -> object:
    """Return what has no JSON form."""
    return object()


ORDER_OF_RUNS: list[Any] = []


@task
def note(word: str) -> None:
    """Remember in which order tasks ran."""
    ORDER_OF_RUNS.append(word)


@task
def where() -> tuple[int, bool]:
    """Tell the thread, and whether it had a database connection before; leave one behind."""
    had = connection.connection is not None
    Order.objects.count()
    return threading.get_ident(), had


@task
def linger(folder: str) -> str:
    """Tell that it runs, until a file says that it may end."""
    running, may_end = Path(folder, "running"), Path(folder, "may-end")
    running.write_text(str(os.getpid()))
    until_s = time.monotonic() + 60
    while not may_end.exists() and time.monotonic() < until_s:
        time.sleep(0.01)
    Path(folder, "ended").touch()
    return "ended"


def undecorated() -> None:
    """Stand beside the tasks, and be none."""
    raise AssertionError("nobody may call this")
