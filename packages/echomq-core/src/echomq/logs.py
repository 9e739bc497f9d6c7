"""What the standard library's logging and structlog tell of the job that logs.

A job's code need not know of it: the job is found by context variables, in
coroutines, threads and child processes alike.
"""

import logging
from collections.abc import MutableMapping
from typing import Any

from .current import bound_context, job_fields

__all__ = ["JobFields", "JobLogHandler", "add_job_fields", "job_fields"]

_NONE = {"queue": None, "job_id": None, "job_name": None, "attempt": None}


class JobFields(logging.Filter):
    """Gives each record the fields ``queue``, ``job_id``, ``job_name`` and ``attempt``; None outside of jobs.

    Add it to a handler, and all that reaches the handler has them, whatever logger it comes from; formats
    may then hold ``%(job_id)s``. Nothing is left out.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields that the record has not; always True."""
        record.__dict__.update({**_NONE, **job_fields(), **record.__dict__})
        return True


class JobLogHandler(logging.Handler):
    """Writes records of running jobs to the logs of these jobs, where dashboards and ``queue.get_job_logs`` show them.

    On the event loop and in child processes it does not wait; rows are stored in order, and before the attempt
    ends. A job in a thread of a blocking worker waits for each. Of the library's own loggers only
    :data:`~echomq.job_logger` is heard. The option ``keep_logs`` of a job limits its rows.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, if a job runs here; what goes wrong is told as handlers do."""
        context = bound_context()
        if context is None or (record.name.startswith("echomq.") and record.name != "echomq.job"):
            return
        try:
            context.log_soon(self.format(record))
        except Exception:  # noqa: BLE001  # logging fails no job
            self.handleError(record)


def add_job_fields(_logger: Any, _method: str, event_dict: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add ``queue``, ``job_id``, ``job_name`` and ``attempt`` of the running job; a processor for structlog.

    Outside of jobs nothing is added, and what the event has already stays.
    """
    for name, value in job_fields().items():
        event_dict.setdefault(name, value)
    return event_dict
