"""An audit log: who added which job, when it ran, how it ended.

It writes JSON lines to the file that ``ECHOMQ_AUDIT_FILE`` names, and nothing
where that is unset. Data of jobs stay out of it.
"""

import getpass
import json
import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echomq import Job, Keys
from echomq.hookspecs import hookimpl
from echomq.middleware import Middleware

if TYPE_CHECKING:
    from typer import Typer


def _write(event: str, queue: str, job_id: str, **more: Any) -> None:
    if path := os.environ.get("ECHOMQ_AUDIT_FILE"):
        line = {"at": time.time(), "event": event, "queue": queue, "job": job_id, **more}
        with Path(path).open("a") as file:
            file.write(json.dumps(line) + "\n")


def _around_add(job: Job) -> Generator[Job, Job, None]:
    added = yield job
    _write("added", added.queue_name, added.id, name=added.name, by=getpass.getuser())


def _around_processing(job: Job) -> Generator[Job, Any, None]:
    began = time.perf_counter()
    try:
        yield job
    finally:
        _write("ran", job.queue_name, job.id, seconds=round(time.perf_counter() - began, 3))


@hookimpl
def echomq_register_middleware() -> Middleware:
    """Note each job on its way in, and how long it ran."""
    # Low: the outermost layer, so that it sees the job as the caller gave it and the whole time it took.
    return Middleware(around_add=_around_add, around_processing=_around_processing, order=-100)


@hookimpl
def echomq_job_completed(job: Job) -> None:
    """Note a result that is stored."""
    _write("completed", job.queue_name, job.id)


@hookimpl
def echomq_job_failed(job: Job, error: BaseException) -> None:
    """Note a failed attempt."""
    _write("failed", job.queue_name, job.id, error=type(error).__name__)


@hookimpl
def echomq_job_stalled(keys: Keys, job_id: str) -> None:
    """Note that a worker went silent."""
    _write("stalled", keys.queue, job_id)


@hookimpl
def echomq_register_commands(app: "Typer") -> None:
    """Add ``echomq audit``."""

    @app.command()
    def audit() -> None:
        """Show the audit log."""
        path = Path(os.environ.get("ECHOMQ_AUDIT_FILE", ""))
        for line in path.read_text().splitlines() if path.is_file() else []:
            entry = json.loads(line)
            print(f"{entry['queue']}:{entry['job']} {entry['event']}")
