"""What a worker logs: errors that no job can be blamed for, and attempts that failed.

An outage is told once, however many takes, waits and reports it fails.
"""

import logging
from typing import Any, Protocol

import attrs

from .errors import ConnectionClosed, UsageError
from .job import Job
from .scheduling.settling import LetGo, is_passing

__all__ = ["Complaints", "log_failure"]

_log = logging.getLogger("echomq.worker")


def log_failure(job: Job, error: BaseException) -> None:
    """Log a failed attempt, but not what the error says, which may repeat the job's data; the job keeps that."""
    attempt, attempts = job.attempts_made + 1, max(1, job.options.attempts)
    _log.warning(
        "job %r (%r) of queue %s failed at attempt %d of %d: %s",
        *(job.id, job.name, job.keys.queue, attempt, attempts, type(error).__name__),
    )


class _Listeners(Protocol):
    def call(self, event: str, *args: Any) -> None: ...


@attrs.define(eq=False)
class Complaints:
    """The complaints of one run.

    Attributes:
        queue: Name of the queue, for the log.
        listeners: Those of ``error`` are told.
        fatal: Why the run cannot go on.
        in_outage: An outage was told of, and the server has not answered since.
    """

    queue: str
    listeners: _Listeners
    fatal: ConnectionClosed | None = attrs.field(init=False, default=None)
    in_outage: bool = attrs.field(init=False, default=False)

    def tell(self, error: BaseException) -> None:
        """Tell of an error, unless it belongs to an outage that was told of."""
        if isinstance(error, ConnectionClosed):
            if self.fatal is not None:
                return
            self.fatal = error
        if not is_passing(error):
            # Of a mistake in the program the message says it all; our own frames below it would only hide that.
            trace = None if isinstance(error, ConnectionClosed | UsageError) else error
            _log.error("worker of queue %s: %s", self.queue, error, exc_info=trace)
        elif self.in_outage:
            return
        elif isinstance(error, LetGo):
            _log.warning("worker of queue %s closes: %s", self.queue, error)
        else:
            self.in_outage = True
            _log.warning("worker of queue %s waits for its server: %s", self.queue, error)
        self.listeners.call("error", error)

    def answered(self) -> None:
        """Note that the server has answered."""
        if self.in_outage:
            self.in_outage = False
            _log.info("the server of queue %s answers again", self.queue)
