"""The demo's special jobs, and what is told of each while it goes its way. Pure."""

from collections.abc import Mapping

import attrs

from echomq.job import Job
from echomq.plans import NewJob
from echomq.states import JobState

__all__ = ["STORIES", "Story"]

FLAKY_ATTEMPTS = 3
FLAKY_BACKOFF_MS = 600
DELAY_MS = 2_500
PRIORITY = 1


@attrs.define(kw_only=True)
class Story:
    """One special job.

    Attributes:
        title: What it shows.
        job_id: Its id, once added.
        text: What happens to it just now.
        is_over: True when it finished as it should, or failed for good.
        is_good: False if it failed.
    """

    title: str
    job_id: str = ""
    text: str = ""
    is_over: bool = False
    is_good: bool = True

    def go_on(self, job: Job, state: JobState, now_ms: int) -> None:
        """Tell where the job is."""
        if not self.is_over:
            self.text = _told(job, state, now_ms)
            self.is_over = state.is_finished
            self.is_good = state is not JobState.FAILED


STORIES: Mapping[str, tuple[str, NewJob]] = {
    "flaky": (
        "fails twice",
        ("flaky", None, {"attempts": FLAKY_ATTEMPTS, "backoff": {"type": "exponential", "delay": FLAKY_BACKOFF_MS}}),
    ),
    "delayed": ("delayed", ("delayed", None, {"delay": DELAY_MS})),
    "prioritized": ("prioritized", ("prioritized", None, {"priority": PRIORITY})),
}
"""Name of a job -> its title, and what is added."""


def _told(job: Job, state: JobState, now_ms: int) -> str:
    if state is JobState.FAILED:
        return f"failed: {job.failed_reason}"
    if state is JobState.ACTIVE:
        return f"attempt {job.attempts_made + 1} runs"
    if state is JobState.COMPLETED:
        return _ending(job)
    if job.attempts_made:
        return f"attempt {job.attempts_made} of {job.options.attempts} failed: {job.failed_reason}"
    if state is JobState.DELAYED:
        return f"runs in {max(0, job.timestamp_ms + job.options.delay - now_ms) / 1000:.1f} s"
    if state is JobState.PRIORITIZED:
        return f"waits with priority {job.priority}, behind jobs without one"
    return "waits"


def _ending(job: Job) -> str:
    done_ms = (job.finished_on_ms or 0) - job.timestamp_ms
    if job.attempts_made > 1:
        return f"attempt {job.attempts_made} worked, {done_ms:,} ms after it was added"
    if job.options.delay:
        late_ms = (job.processed_on_ms or 0) - job.timestamp_ms - job.options.delay
        return f"ran {job.options.delay:,} ms after it was added ({late_ms:+,} ms)"
    if job.options.priority:
        return f"ran with priority {job.options.priority}, {done_ms:,} ms after it was added"
    return f"done after {done_ms:,} ms"
