"""Read the jobs of a queue, blocking: one, many, all, or those that match.

Methods of :class:`~echomq.Queue`.

Source: protocol spec 04 section 3; 05 section 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import plans
from echomq.calls import query
from echomq.clock import mono_ms
from echomq.listing import Walk
from echomq.moments import duration_ms, moment_ms
from echomq.search import Hunt, Wanted
from echomq.states import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from echomq.job import Job
    from echomq.moments import Duration, Moment
    from echomq.search import SearchResult

    from .queue import Queue

__all__ = [
    "count",
    "count_due",
    "count_job_logs",
    "get_counts_per_priority",
    "get_deduplication_job_id",
    "get_job",
    "get_job_counts",
    "get_job_ids",
    "get_job_logs",
    "get_job_state",
    "get_jobs",
    "iter_jobs",
    "search",
]


def get_job(self: Queue, job_id: str) -> Job | None:
    """Return a job, or None if there is none of that id."""
    return self._send(query.get_job(self.keys, job_id))


def get_jobs(self: Queue, *states: JobState | str, start: int = 0, end: int = -1, ascending: bool = False) -> list[Job]:
    """Return jobs, state after state, each once.

    Args:
        *states: Which; none given: all states.
        start: First index in each state, from 0.
        end: Last index in each state; -1 for all.
        ascending: Oldest (or due first) before newest.
    """
    return self._send(query.get_jobs(self.keys, JobState.each(states) or plans.PLACES, start, end, ascending))


def get_job_ids(
    self: Queue, *states: JobState | str, start: int = 0, end: int = -1, ascending: bool = False
) -> list[str]:
    """Return ids of jobs; arguments as of :meth:`get_jobs`."""
    return self._send(
        query.get_ranges(self.keys, JobState.each(states) or plans.PLACES, start, end, ascending=ascending)
    )


def iter_jobs(self: Queue, *states: JobState | str, page_size: int = 100, ascending: bool = True) -> Iterator[Job]:
    """Go through jobs, state after state, page by page.

    A job that stays in its state for the whole walk comes exactly once, whatever others
    do to the queue meanwhile. One that changes its state may come under both, or not at all.

    Args:
        *states: Which; none given: all states.
        page_size: Most jobs that are read at once.
        ascending: Oldest (or due first) before newest.

    Raises:
        InvalidOption: An argument is not possible.
    """
    walk = Walk(keys=self.keys, states=JobState.each(states), page_size=page_size, ascending=ascending)
    while jobs := self._perform(walk.page()):
        yield from jobs


def search(
    self: Queue,
    *states: JobState | str,
    name: str | None = None,
    data: Mapping[str, object] | None = None,
    reason: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int = 100,
    max_looks: int = 10_000,
    timeout: Duration = 5_000,
) -> SearchResult:
    """Look for jobs by what is in them.

    The server has no index, so job after job is read, newest first, until all were seen,
    enough were found, or the budget (``max_looks`` and ``timeout``) is used up.

    Args:
        *states: Where to look; none given: in all states.
        name: Name of the jobs.
        data: For each path into their data (``"to.address"``, ``"items.0.price"``) the value there.
        reason: A part of the message of their last failure.
        since: Made at this moment or later.
        until: Made before this moment.
        limit: Most jobs to find.
        max_looks: Most jobs to look at.
        timeout: When to stop, in ms or as ``timedelta``; a page that is being read is finished.

    Returns:
        The jobs, and what ended the search.

    Raises:
        InvalidOption: An argument is not possible.
    """
    hunt = Hunt(
        wanted=Wanted.of(name=name, data=data, reason=reason, since=since, until=until),
        limit=limit,
        max_looks=max_looks,
        due_ms=mono_ms() + duration_ms("timeout", timeout, minimum=1),
    )
    walk = Walk(keys=self.keys, states=JobState.each(states), ascending=False)
    while hunt.goes_on(mono_ms()):
        hunt.take(self._perform(walk.page()))
    return hunt.result()


def get_job_state(self: Queue, job_id: str) -> JobState:
    """Return where a job is; UNKNOWN if it is nowhere."""
    return self._send(query.get_state(self.keys, job_id))


def get_job_counts(self: Queue, *states: JobState | str) -> dict[JobState, int]:
    """Count the jobs in some states; none given: in all."""
    return self._send(query.get_counts(self.keys, JobState.each(states) or plans.PLACES))


def count(self: Queue) -> int:
    """Count the jobs that have not started: waiting, prioritized, delayed, waiting for children."""
    return sum((self._send(query.get_counts(self.keys, plans.UNSTARTED))).values())


def count_due(self: Queue, before: Moment) -> int:
    """Count the delayed jobs that may run before a moment: an aware ``datetime``, or ms since 1970."""
    due_ms = moment_ms("before", before)
    return (self._send(query.get_counts(self.keys, [JobState.DELAYED], due_before_ms=due_ms)))[JobState.DELAYED]


def get_counts_per_priority(self: Queue, *priorities: int) -> dict[int, int]:
    """Count the jobs that wait with certain priorities."""
    return self._send(query.get_counts_per_priority(self.keys, priorities))


def get_job_logs(self: Queue, job_id: str, start: int = 0, end: int = -1, *, ascending: bool = True) -> list[str]:
    """Return rows of a job's log, oldest first or newest first."""
    return self._send(query.get_logs(self.keys, job_id, start, end, ascending=ascending))


def count_job_logs(self: Queue, job_id: str) -> int:
    """Count the rows of a job's log."""
    return self._send(query.count_logs(self.keys, job_id))


def get_deduplication_job_id(self: Queue, deduplication_id: str) -> str | None:
    """Return which job holds a deduplication id, or None."""
    return self._send(query.get_deduplication_job_id(self.keys, deduplication_id))
