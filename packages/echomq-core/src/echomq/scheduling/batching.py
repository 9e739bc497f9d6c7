"""Which outcomes are reported together, and what their one reply means for each of them. Pure.

A batch is a short way, never the only one: what it leaves open, and all of it
when its reply is lost, is reported by itself (:mod:`echomq.scheduling.settling`).

Source: design.md section 5; ``lua/README.md``.
"""

from collections.abc import Sequence
from typing import TypeGuard

from echomq.calls.batches import MOST_JOBS, Found
from echomq.calls.fetch import Take, Taken
from echomq.job import Job

from .messages import Fetched, ReportedTogether
from .outcome import Completed, Outcome

__all__ = ["fetched", "is_plain", "most_together", "reported_together"]

_LONGEST_RESULT = 16_384
"""Characters; longer results go by themselves, so that no call is large."""


def is_plain(outcome: Outcome, job: Job) -> TypeGuard[Completed]:
    """Tell whether an outcome concerns nobody but its job, so that it may be reported with others."""
    if type(outcome) is not Completed or len(outcome.value_json) > _LONGEST_RESULT:
        return False
    return job.parent_key is None and job.deduplication_id is None


def most_together(concurrency: int) -> int:
    """Return how many outcomes are reported in one call.

    Half of the slots: the server then works on one batch while the worker runs the jobs of
    another; with smaller parts both pay for more calls, measured with 50 slots a fifth more than
    with thirds. With few slots half of them would be too few to save anything.
    """
    return min(max(concurrency // 2, 5), MOST_JOBS)


def reported_together(count: int, takes: Sequence[Take], found: Found, wall_ms: int) -> ReportedTogether:
    """Return what one report of several jobs means for the worker.

    Args:
        count: How many slots have got rid of their job by it.
        takes: Of the jobs whose results are stored, in the order of the report.
        found: What came along.
        wall_ms: The present on the wall clock.
    """
    return ReportedTogether(count, tuple(zip(found.jobs, takes, strict=False)), found.rest, wall_ms)


def fetched(takes: Sequence[Take], found: Found, wall_ms: int) -> Fetched:
    """Return what a take of several jobs means for the worker.

    Args:
        takes: How; one for each job that was asked for.
        found: The reply.
        wall_ms: The present on the wall clock.
    """
    taken = tuple(zip(found.jobs, takes, strict=False))
    if found.rest is not None or not taken:
        return Fetched(takes[0], found.rest or Taken(), wall_ms, taken)
    *before, (job, take) = taken
    return Fetched(take, Taken(job=job), wall_ms, tuple(before))
