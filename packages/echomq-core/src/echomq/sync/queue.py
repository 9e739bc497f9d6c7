"""The producer's and manager's side of a queue, blocking: for Django, Flask and scripts.

The twin of :mod:`echomq.aio.queue`, which says what everything means; threads may
share one queue. Starts no thread and no event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import attrs

from echomq import middleware, plans, plugins
from echomq.calls import add as add_calls
from echomq.calls import change, fetch, metrics, query
from echomq.calls import queue as queue_calls
from echomq.calls import remove as remove_calls
from echomq.clock import wall_ms
from echomq.extensions import report
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.moments import duration_ms
from echomq.states import JobState

from . import children, results, schedulers
from .connecting import connect
from .run import is_open, perform

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.call import Command, ScriptCall
    from echomq.calls.metrics import Metrics
    from echomq.driver import Connection, ConnectionSource
    from echomq.job import Job
    from echomq.keywords import JobKeywords
    from echomq.moments import Duration
    from echomq.options import RateLimit
    from echomq.plans import NewJob, Plan

__all__ = ["Queue"]

T = TypeVar("T")


class Queue:
    """A queue: its name, a connection, and defaults for new jobs.

    Making one touches no socket; the first request connects.

    Args:
        name: Name of the queue; not empty, no colon.
        connection: A URL, options, a ready client, or an open connection; None
            takes the URL from ``ECHOMQ_URL``. An open connection is shared and stays
            open; anything else makes one connection, closed by :meth:`close`.
        prefix: Name space; with a hash tag (``"{bull}"``) for clusters.
        default_job_options: Options of each new job that does not say otherwise.
        max_events: Length at which the queue's event log is trimmed, about.
        write_meta: False leaves the queue's settings record as it is; for producers with few rights.

    Raises:
        InvalidOption: A name is not acceptable.
        DriverMissing: No installed driver serves the connection.

    Attributes:
        keys: Names of all keys of the queue.
    """

    def __init__(
        self,
        name: str,
        connection: ConnectionSource = None,
        *,
        prefix: str = DEFAULT_PREFIX,
        default_job_options: JobKeywords | None = None,
        max_events: int = 10_000,
        write_meta: bool = True,
    ) -> None:
        self.keys = Keys(name, prefix)
        self._defaults: Mapping[str, object] = plans.checked_defaults(default_job_options)
        self._max_events = max_events
        self._meta_due = write_meta
        self._extensions = plugins.extensions()
        self._is_owner = not is_open(connection)
        self._connection: Connection = connect(connection) if self._is_owner else connection
        self._results = results.Results(self.keys, self._connection)

    def __repr__(self) -> str:
        return f"Queue({self.keys.queue!r}, prefix={self.keys.prefix!r})"

    @property
    def name(self) -> str:
        """Name of the queue, without the prefix."""
        return self.keys.queue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, if the queue made it. Twice does no harm."""
        self._results.close()
        if self._is_owner:
            self._connection.close()

    # -- adding ---------------------------------------------------------------------------------

    def add(self, name: str, data: object = None, **options: Unpack[JobKeywords]) -> Job:
        """Add one job; see :func:`echomq.add`."""
        job = plans.draft(self.keys, name, data, options, self._defaults, wall_ms())
        if layers := self._extensions.add_layers:
            return self._perform(middleware.add(layers, job, report))
        return attrs.evolve(job, id=self._send(add_calls.add_job(job)))

    def add_bulk(self, jobs: Iterable[NewJob], *, atomic: bool = True) -> list[Job]:
        """Add many jobs in one round trip; see :func:`echomq.add_bulk`."""
        new = plans.drafts(self.keys, jobs, self._defaults, wall_ms())
        if layers := self._extensions.add_layers:
            return self._perform(middleware.add_bulk(layers, new, report, atomic=atomic))
        return self._perform(plans.add_bulk(new, atomic=atomic))

    # -- the queue ------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop all workers, of all runtimes, from taking jobs; running ones end."""
        self._send(queue_calls.pause(self.keys))

    def resume(self) -> None:
        """Let workers take jobs again."""
        self._perform(plans.resume(self.keys))

    def is_paused(self) -> bool:
        """Tell whether the queue is paused."""
        return self._send(queue_calls.is_paused(self.keys))

    def is_maxed(self) -> bool:
        """Tell whether as many jobs are active as the global concurrency allows."""
        return self._send(fetch.is_maxed(self.keys))

    def drain(self, *, delayed: bool = False) -> None:
        """Remove all jobs that wait, and the delayed ones if asked; schedulers keep their next job."""
        self._perform(plans.drain(self.keys, delayed=delayed))

    def clean(self, grace: Duration = 0, *, limit: int = 0, state: JobState | str = JobState.COMPLETED) -> list[str]:
        """Remove jobs of one state that are older than ``grace`` (ms or ``timedelta``).

        Args:
            grace: Jobs younger than this stay.
            limit: At most this many; 0 for all.
            state: Which jobs.

        Returns:
            Ids of the removed jobs.
        """
        before_ms = wall_ms() - duration_ms("grace", grace)
        return self._perform(plans.clean(self.keys, JobState.of(state), before_ms=before_ms, limit=limit))

    def obliterate(self, *, force: bool = False, count: int = 1_000) -> None:
        """Delete the queue with all its jobs, in steps of ``count``; it is paused meanwhile.

        Raises:
            QueueHasActiveJobs: Jobs are being processed, and ``force`` is not set.
        """
        self._perform(plans.obliterate(self.keys, force=force, count=count))

    def retry_jobs(
        self, *, state: JobState | str = JobState.FAILED, count: int = 1_000, until_ms: int | None = None
    ) -> None:
        """Run all failed (or completed) jobs again, those that ended before ``until_ms`` if given."""
        until_ms = wall_ms() if until_ms is None else until_ms
        self._perform(plans.move_all_to_wait(self.keys, JobState.of(state), count=count, until_ms=until_ms))

    def promote_jobs(self, *, count: int = 1_000) -> None:
        """Let all delayed jobs run now."""
        self._perform(plans.move_all_to_wait(self.keys, JobState.DELAYED, count=count, until_ms=None))

    def rate_limit(self, duration: Duration) -> None:
        """Let no worker take a job for a while (ms or ``timedelta``)."""
        self._send(queue_calls.rate_limit(self.keys, duration_ms("duration", duration, minimum=1)))

    def get_rate_limit_ttl(self, max_jobs: int = 0) -> int:
        """Return for how many ms workers must not take jobs; not above 0 if they may."""
        return self._send(fetch.get_rate_limit_ttl(self.keys, max_jobs))

    def remove_rate_limit(self) -> None:
        """Forget the current rate limit window."""
        self._send(queue_calls.remove_rate_limit(self.keys))

    def set_global_concurrency(self, concurrency: int | None) -> None:
        """Limit how many jobs may be active over all workers; None lifts the limit."""
        self._send(plans.global_concurrency(self.keys, concurrency))

    def set_global_rate_limit(self, limit: RateLimit | None) -> None:
        """Limit how many jobs may start in a time over all workers; None lifts the limit."""
        self._send(plans.global_rate_limit(self.keys, limit))

    def trim_events(self, length: int) -> int:
        """Shorten the event log to about ``length`` entries and return how many went."""
        return self._send(queue_calls.trim_events(self.keys, length))

    # -- reading --------------------------------------------------------------------------------

    def get_job(self, job_id: str) -> Job | None:
        """Return a job, or None if there is none of that id."""
        return self._send(query.get_job(self.keys, job_id))

    def get_jobs(self, *states: JobState | str, start: int = 0, end: int = -1, ascending: bool = False) -> list[Job]:
        """Return jobs, state after state, each once.

        Args:
            *states: Which; none given: all states.
            start: First index in each state, from 0.
            end: Last index in each state; -1 for all.
            ascending: Oldest (or due first) before newest.
        """
        return self._send(query.get_jobs(self.keys, JobState.each(states) or plans.PLACES, start, end, ascending))

    def get_job_state(self, job_id: str) -> JobState:
        """Return where a job is; UNKNOWN if it is nowhere."""
        return self._send(query.get_state(self.keys, job_id))

    def get_job_counts(self, *states: JobState | str) -> dict[JobState, int]:
        """Count the jobs in some states; none given: in all."""
        return self._send(query.get_counts(self.keys, JobState.each(states) or plans.PLACES))

    def count(self) -> int:
        """Count the jobs that have not started: waiting, prioritized, delayed, waiting for children."""
        return sum((self._send(query.get_counts(self.keys, plans.UNSTARTED))).values())

    def get_counts_per_priority(self, *priorities: int) -> dict[int, int]:
        """Count the jobs that wait with certain priorities."""
        return self._send(query.get_counts_per_priority(self.keys, priorities))

    def get_job_logs(self, job_id: str, start: int = 0, end: int = -1, *, ascending: bool = True) -> list[str]:
        """Return rows of a job's log, oldest first or newest first."""
        return self._send(query.get_logs(self.keys, job_id, start, end, ascending=ascending))

    def get_metrics(self, state: JobState | str, start: int = 0, end: int = -1) -> Metrics:
        """Return how many jobs completed or failed in each minute, if a worker counts them."""
        return self._send(metrics.get_metrics(self.keys, JobState.of(state), start, end))

    def get_deduplication_job_id(self, deduplication_id: str) -> str | None:
        """Return which job holds a deduplication id, or None."""
        return self._send(query.get_deduplication_job_id(self.keys, deduplication_id))

    # -- one job --------------------------------------------------------------------------------

    def remove(self, job_id: str, *, children: bool = True) -> None:
        """Remove a job, with its children unless told otherwise; an absent one is no error.

        Raises:
            JobLocked: It, or a child, is being processed.
            JobBelongsToScheduler: It is the current job of a scheduler.
        """
        self._perform(plans.remove(self.keys, job_id, with_children=children))

    def retry(
        self, job_id: str, state: JobState | str = JobState.FAILED, *, lifo: bool = False, reset_attempts: bool = False
    ) -> None:
        """Run a failed (or completed) job again.

        Args:
            job_id: The job.
            state: Where it is.
            lifo: Put it first in line.
            reset_attempts: Give it all its attempts again.

        Raises:
            JobNotFound, JobNotInState: Nothing was changed.
        """
        call = change.reprocess_job(
            *(self.keys, job_id, JobState.of(state)),
            lifo=lifo,
            reset_attempts_made=reset_attempts,
            reset_attempts_started=reset_attempts,
        )
        self._send(call)

    def promote(self, job_id: str) -> None:
        """Let a delayed job run now.

        Raises:
            JobNotInState: It is not delayed.
        """
        self._send(change.promote(self.keys, job_id))

    def change_delay(self, job_id: str, delay: Duration) -> None:
        """Let a delayed job wait so long from now (ms or ``timedelta``).

        Raises:
            JobNotFound, JobNotInState: It is not delayed.
        """
        self._send(change.change_delay(self.keys, job_id, duration_ms("delay", delay), wall_ms()))

    def change_priority(self, job_id: str, priority: int, *, lifo: bool = False) -> None:
        """Give a job another priority, 0 to 2,097,151.

        Raises:
            JobNotFound: There is no such job.
        """
        self._send(change.change_priority(self.keys, job_id, priority, lifo=lifo))

    def update_data(self, job_id: str, data: object) -> None:
        """Replace a job's data.

        Raises:
            JobNotFound: There is no such job.
        """
        self._send(change.update_data(self.keys, job_id, data))

    def update_progress(self, job_id: str, progress: object) -> None:
        """Store how far a job has come, any JSON value, and announce it.

        Raises:
            JobNotFound: There is no such job.
        """
        self._send(change.update_progress(self.keys, job_id, progress))

    def add_log(self, job_id: str, row: str, *, keep: int | None = None) -> int:
        """Append a row to a job's log and return how many there are.

        Raises:
            JobNotFound: There is no such job.
        """
        return self._send(change.add_log(self.keys, job_id, row, keep))

    def remove_deduplication(self, deduplication_id: str) -> bool:
        """Free a deduplication id; tells whether it was taken."""
        return self._send(remove_calls.remove_deduplication_key(self.keys, deduplication_id))

    # Methods with a subject of their own, each explained there.

    result = results.result

    get_children_values = children.get_children_values
    get_ignored_failures = children.get_ignored_failures
    get_dependency_counts = children.get_dependency_counts
    get_dependencies = children.get_dependencies
    remove_child_dependency = children.remove_child_dependency
    remove_unprocessed_children = children.remove_unprocessed_children

    upsert_job_scheduler = schedulers.upsert_job_scheduler
    get_job_scheduler = schedulers.get_job_scheduler
    get_job_schedulers = schedulers.get_job_schedulers
    count_job_schedulers = schedulers.count_job_schedulers
    remove_job_scheduler = schedulers.remove_job_scheduler

    # -- sending --------------------------------------------------------------------------------

    def _send(self, call: ScriptCall[T] | Command[T]) -> T:
        if self._meta_due:
            self._write_meta()
        return self._connection.send(call)

    def _perform(self, plan: Plan[T]) -> T:
        if self._meta_due:
            self._write_meta()
        return perform(self._connection, plan)

    def _write_meta(self) -> None:
        self._connection.send(plans.announce(self.keys, self._max_events))
        self._meta_due = False
