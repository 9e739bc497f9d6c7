"""What is counted and timed, under the names that BullMQ for Node gives it.

Labels are bounded: of job names, which programs may make up, only so many are told apart.

Source: protocol spec 05 section 8.
"""

from opentelemetry.metrics import Meter

from echomq.errors import NotEncodable
from echomq.job import Job
from echomq.signals import Delay, RateLimited, Unrecoverable, Wait, WaitForChildren

from .attributes import SYSTEM

__all__ = ["Measures", "fate_of", "steers"]

OTHER = "other"
"""What jobs are called in measurements once there are too many names."""

_STEERED = {Delay: "delayed", Wait: "waiting", RateLimited: "waiting", WaitForChildren: "waiting_children"}


def steers(error: BaseException) -> bool:
    """Tell whether a job raised this to go on later, not because it failed."""
    return isinstance(error, tuple(_STEERED))


def fate_of(job: Job, error: BaseException) -> str:
    """Return what becomes of a job that raised this, as far as job and error tell.

    A worker may decide otherwise by ``max_started_attempts``, or by a backoff type that gives up.

    Args:
        job: As taken.
        error: What was raised.
    """
    for signal, fate in _STEERED.items():
        if isinstance(error, signal):
            return fate
    if isinstance(error, Unrecoverable | NotEncodable) or job.attempts_made + 1 >= job.options.attempts:
        return "failed"
    backoff = job.options.backoff
    return "retried" if backoff is None or (not backoff.delay and backoff.type == "fixed") else "delayed"


class Measures:
    """Counters and a histogram.

    Args:
        meter: Makes them.
        max_job_names: See :class:`~echomq_opentelemetry.Telemetry`.
    """

    def __init__(self, meter: Meter, max_job_names: int) -> None:
        self._names: set[str] = set()
        self._max_names = max_job_names
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs added by this program")
        self._counters = {
            fate: meter.create_counter(f"bullmq.jobs.{fate}", "1", f"Number of jobs {fate.replace('_', ' ')}")
            for fate in ("completed", "failed", "delayed", "retried", "waiting", "waiting_children")
        }
        self._duration = meter.create_histogram("bullmq.job.duration", "ms", "Job processing duration")

    def added(self, job: Job) -> None:
        """Count a job that was added."""
        queue = {"messaging.destination.name": job.queue_name, "bullmq.queue.name": job.queue_name}
        self._sent.add(1, {**queue, "messaging.system": SYSTEM, "messaging.operation.name": "add"})

    def completed(self, job: Job) -> None:
        """Count a job whose result is stored."""
        self._count(job, "completed")

    def failed(self, job: Job, error: BaseException) -> None:
        """Count an attempt that failed, by what becomes of its job."""
        self._count(job, fate_of(job, error))

    def ended(self, job: Job, fate: str, duration_ms: float, *, is_steered: bool) -> None:
        """Note that an attempt ended, and count it where no other word of it will come."""
        self._duration.record(duration_ms, self._labels(job, fate))
        if is_steered:
            self._count(job, fate)

    def _count(self, job: Job, fate: str) -> None:
        self._counters[fate].add(1, self._labels(job, fate))

    def _labels(self, job: Job, fate: str) -> dict[str, str]:
        name = job.name
        if name not in self._names:
            if len(self._names) < self._max_names:
                self._names.add(name)
            else:
                name = OTHER
        return {"bullmq.queue.name": job.queue_name, "bullmq.job.name": name, "bullmq.job.state": fate}
