"""The producer's and manager's side of a queue, for asyncio.

A queue is a name plus a connection. :class:`Queue` only remembers those two
(and defaults for new jobs), holds no job and no counter, and may be thrown away
at any moment; :mod:`echomq.aio.adding` adds without it.

Source: protocol spec 05 sections 2 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from echomq import middleware, plans, plugins, removal, rerun
from echomq.calls import fetch
from echomq.calls import queue as queue_calls
from echomq.checks import whole
from echomq.clock import wall_ms
from echomq.closing import closed
from echomq.extensions import report
from echomq.hash_slots import check_queue, check_together
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.moments import duration_ms
from echomq.states import JobState

from . import cancelling, changing, children, diagnosing, limits, reading, results, schedulers, watching
from .connecting import connect
from .run import is_open, perform
from .waves import Adding, begun

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from echomq.call import Command, ScriptCall
    from echomq.driver import AsyncConnection, ConnectionSource
    from echomq.job import Job
    from echomq.keywords import JobKeywords
    from echomq.moments import Duration
    from echomq.plans import NewJob, Plan

__all__ = ["Queue"]

T = TypeVar("T")


class Queue:
    """A queue: its name, a connection, and defaults for new jobs.

    Making one touches no socket and no event loop; the first request connects.

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
        InvalidOption: A name or the length is not acceptable.
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
        self._max_events = whole("max_events", max_events)
        self._meta_due = write_meta
        self._extensions = plugins.extensions()
        self._is_owner = not is_open(connection)
        self._connection: AsyncConnection = connect(connection) if self._is_owner else connection
        if self._connection.is_cluster:
            check_queue(self.keys)
        self._results = results.Results(self.keys, self._connection)
        self._adding = Adding()

    def __repr__(self) -> str:
        return f"Queue({self.keys.queue!r}, prefix={self.keys.prefix!r})"

    @property
    def name(self) -> str:
        """Name of the queue, without the prefix."""
        return self.keys.queue

    @property
    def connection(self) -> AsyncConnection:
        """The connection it uses, which others may share; :meth:`close` closes it, if the queue made it."""
        return self._connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def ready(self) -> None:
        """Connect now, as the first request would, to see at once whether the server can be reached.

        Raises:
            DriverError: It cannot be reached, or does not want us.
        """
        await self._send(queue_calls.is_paused(self.keys))

    async def close(self) -> None:
        """Close the connection, if the queue made it; the queue can be used no more. Twice does no harm."""
        await self._results.close()
        if self._is_owner:
            self._is_owner = False
            await self._connection.close()
        self._connection = closed(repr(self))

    # -- adding ---------------------------------------------------------------------------------

    async def add(self, name: str, data: object = None, **options: Unpack[JobKeywords]) -> Job:
        """Add one job; see :func:`echomq.add`."""
        job = plans.draft(self.keys, name, data, options, self._defaults, wall_ms())
        if self._connection.is_cluster:
            check_together([job])
        if layers := self._extensions.add_layers:
            return await self._adding.add_through(layers, job, self._begin)
        return job.numbered(await self._adding.add(job, self._begin, plain=job.options.is_plain))

    async def add_bulk(self, jobs: Iterable[NewJob], *, atomic: bool = True) -> list[Job]:
        """Add many jobs in one round trip; see :func:`echomq.add_bulk`."""
        new = plans.drafts(self.keys, jobs, self._defaults, wall_ms())
        if self._connection.is_cluster:
            check_together(new)
        layers, around = self._extensions.add_layers, self._extensions.operation_layers
        if layers or around:
            return await self._perform(middleware.add_bulk(layers, new, report, atomic=atomic, around=around))
        return await self._perform(plans.add_bulk(new, atomic=atomic, fresh=True))

    # -- the queue ------------------------------------------------------------------------------

    async def pause(self) -> None:
        """Stop all workers, of all runtimes, from taking jobs; running ones end."""
        await self._send(queue_calls.pause(self.keys))

    async def resume(self) -> None:
        """Let workers take jobs again."""
        await self._perform(plans.resume(self.keys))

    async def is_paused(self) -> bool:
        """Tell whether the queue is paused."""
        return await self._send(queue_calls.is_paused(self.keys))

    async def is_maxed(self) -> bool:
        """Tell whether as many jobs are active as the global concurrency allows."""
        return await self._send(fetch.is_maxed(self.keys))

    async def drain(self, *, delayed: bool = False) -> None:
        """Remove all jobs that wait, and the delayed ones if asked; schedulers keep their next job."""
        await self._perform(removal.drain(self.keys, delayed=delayed))

    async def clean(
        self,
        grace: Duration = 0,
        *,
        limit: int = 0,
        state: JobState | str = JobState.COMPLETED,
        on_progress: Callable[[int], object] | None = None,
    ) -> list[str]:
        """Remove jobs of one state that are older than ``grace`` (ms or ``timedelta``).

        Args:
            grace: Jobs younger than this stay.
            limit: At most this many; 0 for all.
            state: Which jobs.
            on_progress: Called after each step with the number of jobs removed so far.

        Returns:
            Ids of the removed jobs.
        """
        before_ms = wall_ms() - duration_ms("grace", grace)
        plan = removal.clean(self.keys, JobState.of(state), before_ms=before_ms, limit=limit, on_progress=on_progress)
        return await self._perform(plan)

    async def obliterate(self, *, force: bool = False, count: int = 1_000) -> None:
        """Delete the queue with all its jobs, in steps of ``count``; it is paused meanwhile.

        Raises:
            QueueHasActiveJobs: Jobs are being processed, and ``force`` is not set.
        """
        await self._perform(removal.obliterate(self.keys, force=force, count=count))

    async def retry_jobs(
        self, *, state: JobState | str = JobState.FAILED, count: int = 1_000, until_ms: int | None = None
    ) -> None:
        """Run all failed (or completed) jobs again, those that ended before ``until_ms`` if given."""
        until_ms = wall_ms() if until_ms is None else until_ms
        await self._perform(rerun.move_all_to_wait(self.keys, JobState.of(state), count=count, until_ms=until_ms))

    async def promote_jobs(self, *, count: int = 1_000) -> None:
        """Let all delayed jobs run now."""
        await self._perform(rerun.move_all_to_wait(self.keys, JobState.DELAYED, count=count, until_ms=None))

    async def remove_orphaned_jobs(self, *, count: int = 1_000, limit: int = 0) -> int:
        """Delete what is left of jobs that no list or set holds any more, and return of how many.

        Goes through all keys of the database, in steps of ``count``; a step is short.

        Args:
            count: How much of the keyspace the server goes through in one step.
            limit: Stop when so many were removed; 0 for no limit.
        """
        return await self._perform(removal.remove_orphans(self.keys, count=count, limit=limit))

    async def trim_events(self, length: int) -> int:
        """Shorten the event log to about ``length`` entries and return how many went."""
        return await self._send(queue_calls.trim_events(self.keys, length))

    # Methods with a subject of their own, each explained there.

    rate_limit = limits.rate_limit
    get_rate_limit_ttl = limits.get_rate_limit_ttl
    remove_rate_limit = limits.remove_rate_limit
    set_global_concurrency = limits.set_global_concurrency
    get_global_concurrency = limits.get_global_concurrency
    set_global_rate_limit = limits.set_global_rate_limit
    get_global_rate_limit = limits.get_global_rate_limit
    get_meta = limits.get_meta

    get_job = reading.get_job
    get_jobs = reading.get_jobs
    get_job_ids = reading.get_job_ids
    iter_jobs = reading.iter_jobs
    search = reading.search
    get_job_state = reading.get_job_state
    get_job_counts = reading.get_job_counts
    count = reading.count
    count_due = reading.count_due
    get_counts_per_priority = reading.get_counts_per_priority
    get_job_logs = reading.get_job_logs
    count_job_logs = reading.count_job_logs
    get_deduplication_job_id = reading.get_deduplication_job_id

    get_metrics = watching.get_metrics
    prometheus = watching.prometheus
    get_latency_ms = watching.get_latency_ms
    get_workers = watching.get_workers
    get_worker_details = watching.get_worker_details
    get_event_readers = watching.get_event_readers
    diagnose = diagnosing.diagnose
    repair = diagnosing.repair

    cancel = cancelling.cancel
    remove = changing.remove
    retry = changing.retry
    promote = changing.promote
    change_delay = changing.change_delay
    change_priority = changing.change_priority
    update_data = changing.update_data
    update_progress = changing.update_progress
    add_log = changing.add_log
    clear_logs = changing.clear_logs
    remove_deduplication = changing.remove_deduplication

    result = results.result

    get_children_values = children.get_children_values
    get_ignored_failures = children.get_ignored_failures
    get_dependency_counts = children.get_dependency_counts
    get_dependencies = children.get_dependencies
    list_children = children.list_children
    remove_child_dependency = children.remove_child_dependency
    remove_unprocessed_children = children.remove_unprocessed_children

    upsert_job_scheduler = schedulers.upsert_job_scheduler
    get_job_scheduler = schedulers.get_job_scheduler
    get_job_schedulers = schedulers.get_job_schedulers
    count_job_schedulers = schedulers.count_job_schedulers
    remove_job_scheduler = schedulers.remove_job_scheduler

    # -- sending --------------------------------------------------------------------------------

    async def _send(self, call: ScriptCall[T] | Command[T]) -> T:
        if self._meta_due:
            await self._write_meta()
        return await self._connection.send(call)

    def _begin(self, call: ScriptCall[T], *, at_once: bool) -> Coroutine[Any, Any, T]:
        """Put a call on its way, at once or with what else this turn of the loop sends, where the connection can."""
        return self._send(call) if self._meta_due else begun(self._connection, call, at_once=at_once)

    async def _perform(self, plan: Plan[T]) -> T:
        if self._meta_due:
            await self._write_meta()
        return await perform(self._connection, plan)

    async def _write_meta(self) -> None:
        await self._connection.send(plans.announce(self.keys, self._max_events))
        self._meta_due = False
