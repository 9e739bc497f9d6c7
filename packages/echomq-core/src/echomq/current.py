"""Which job the running code belongs to, whatever shell, thread or process runs it."""

import logging
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any, Protocol

from .job import Job

__all__ = ["RunningJob", "bind_context", "bound_context", "job_fields", "job_logger"]


class RunningJob(Protocol):
    """What all contexts of jobs have in common."""

    @property
    def job(self) -> Job:
        """The job, with its data as last updated."""
        ...

    @property
    def token(self) -> str:
        """What its lock holds."""
        ...

    def log_soon(self, row: str) -> None:
        """Append a row to the job's log, in order, without waiting where that is possible."""
        ...


_current: ContextVar[RunningJob | None] = ContextVar("echomq_context", default=None)


def bound_context() -> RunningJob | None:
    """Return the context of the job that this code runs for; None outside of jobs."""
    return _current.get()


def bind_context(context: RunningJob) -> None:
    """Make this the context of the job that the present task or thread runs for."""
    _current.set(context)


def job_fields() -> dict[str, Any]:
    """Return ``queue``, ``job_id``, ``job_name`` and ``attempt`` of the job that this code runs for; empty outside."""
    context = _current.get()
    if context is None:
        return {}
    job = context.job
    return {"queue": job.queue_name, "job_id": job.id, "job_name": job.name, "attempt": job.attempts_made + 1}


class _JobLogger(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic for type checkers only, until Python 3.11
    """Adds queue, job and attempt of the running job to each record."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields = job_fields()
        if fields:
            kwargs["extra"] = {**fields, **(kwargs.get("extra") or {})}
        return msg, kwargs


job_logger = _JobLogger(logging.getLogger("echomq.job"), {})
"""A logger whose records carry ``queue``, ``job_id``, ``job_name`` and ``attempt`` of the job that logs."""
