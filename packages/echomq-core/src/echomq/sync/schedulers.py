"""The job schedulers of a queue, blocking; the twin of :mod:`echomq.aio.schedulers`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import schedules
from echomq.calls import schedulers as scheduler_calls
from echomq.clock import wall_ms
from echomq.extensions import report
from echomq.layers import Operation, within

if TYPE_CHECKING:
    from echomq.calls.schedulers import JobScheduler
    from echomq.job import Job
    from echomq.keywords import JobKeywords
    from echomq.moments import Duration, Moment

    from .queue import Queue

__all__ = [
    "count_job_schedulers",
    "get_job_scheduler",
    "get_job_schedulers",
    "remove_job_scheduler",
    "upsert_job_scheduler",
]


def upsert_job_scheduler(
    self: Queue,
    scheduler_id: str,
    *,
    every: Duration | None = None,
    cron: str | None = None,
    tz: str | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    limit: int | None = None,
    offset: Duration | None = None,
    immediately: bool = False,
    name: str | None = None,
    data: object = None,
    options: JobKeywords | None = None,
) -> Job | None:
    """Make a job scheduler, or change the one of this id.

    Any number of processes may do so at the same time, as at each start of a
    program: there is one scheduler with one pending job afterwards. Jobs that run
    already go on as they are.

    Args:
        scheduler_id: Unique in the queue; any text.
        every: Interval, in ms or as ``timedelta``; or
        cron: Pattern of five fields, or six with seconds first; ``@hourly`` and its kin, ``L`` for the last day.
        tz: IANA name of the zone that a pattern is meant in; UTC if there is none.
        start: No job before this moment.
        end: No job after this moment.
        limit: Most jobs to make.
        offset: Phase inside ``every``, in ms or as ``timedelta``.
        immediately: The first job of a pattern is due at once.
        name: Name of the jobs; None: the scheduler's id.
        data: Data of the jobs, any JSON value; None: ``{}``.
        options: Of the jobs, by name; no ``job_id``.

    Returns:
        The pending job; None if limit or end leave none to make.

    Raises:
        UsageError: A value or a combination is not possible; nothing was sent.
        SchedulerCollision: The next job of a pattern exists already and has begun; the scheduler is as before.
        SchedulerSlotsBusy: Jobs of an interval exist already at the next 33 times.
    """
    plan = schedules.upsert(
        self.keys,
        scheduler_id,
        self._defaults,
        every=every,
        cron=cron,
        tz=tz,
        start=start,
        end=end,
        limit=limit,
        offset=offset,
        immediately=immediately,
        name=name,
        data=data,
        options=options,
        now_ms=wall_ms(),
    )
    operation = Operation(name="upsert_job_scheduler", keys=self.keys, scheduler_id=scheduler_id)
    return self._perform(within(self._extensions.operation_layers, operation, plan, report))


def get_job_scheduler(self: Queue, scheduler_id: str) -> JobScheduler | None:
    """Return a job scheduler, or None if there is none of that id."""
    return self._send(scheduler_calls.get_job_scheduler(self.keys, scheduler_id))


def get_job_schedulers(self: Queue, start: int = 0, end: int = -1, *, ascending: bool = True) -> list[JobScheduler]:
    """Return job schedulers by the time of their next job.

    Args:
        start: First index, from 0.
        end: Last index; -1 for all.
        ascending: Soonest first.
    """
    return self._perform(schedules.list_schedulers(self.keys, start, end, ascending=ascending))


def count_job_schedulers(self: Queue) -> int:
    """Count the job schedulers."""
    return self._send(scheduler_calls.count_job_schedulers(self.keys))


def remove_job_scheduler(self: Queue, scheduler_id: str) -> bool:
    """Remove a job scheduler with the job that is pending; one that waits or runs already is still done.

    Returns:
        Whether there was one.
    """
    return self._send(scheduler_calls.remove_job_scheduler(self.keys, scheduler_id))
