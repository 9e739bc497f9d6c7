"""Add jobs with nothing but a connection, blocking; the twin of :mod:`echomq.aio.adding`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import middleware, plans, plugins
from echomq.calls.add import add_job
from echomq.clock import wall_ms
from echomq.extensions import report
from echomq.hash_slots import check_together
from echomq.keys import DEFAULT_PREFIX, keys_of

from .run import opened, perform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Unpack

    from echomq.driver import ConnectionSource
    from echomq.job import Job
    from echomq.keywords import JobKeywords
    from echomq.plans import NewJob

__all__ = ["add", "add_bulk"]


def add(
    queue: str,
    name: str,
    data: object = None,
    *,
    connection: ConnectionSource,
    prefix: str = DEFAULT_PREFIX,
    **options: Unpack[JobKeywords],
) -> Job:
    """Add one job to a queue, without any object but a connection.

    Args:
        queue: Name of the queue.
        name: Name of the job; workers route by it.
        data: Any JSON value.
        connection: An open connection or a ready client, which stay open; or a
            URL or options, opened for this call and closed after it.
        prefix: Name space of the queue.
        **options: See :class:`~echomq.options.JobOptions`; times in milliseconds or ``timedelta``.

    Returns:
        The job with its id. If a job of that id, or an owner of that
        deduplication id, exists already, nothing was added and the id is that job's.

    Raises:
        UsageError: An option or the data is not acceptable; nothing was sent.
        ParentNotFound: The parent does not exist.
        ParentConflict: The job exists and has another parent.
        DriverError: The server was not reached within the deadline, or refused.

    Source: protocol spec 02 section 2.
    """
    job = plans.draft(keys_of(queue, prefix), name, data, options, {}, wall_ms())
    with opened(connection) as link:
        if link.is_cluster:
            check_together([job])
        if layers := plugins.extensions().add_layers:
            return perform(link, middleware.add(layers, job, report))
        return job.numbered(link.send(add_job(job)))


def add_bulk(
    queue: str,
    jobs: Iterable[NewJob],
    *,
    connection: ConnectionSource,
    prefix: str = DEFAULT_PREFIX,
    atomic: bool = True,
) -> list[Job]:
    """Add many jobs to a queue in one round trip.

    Args:
        queue: Name of the queue.
        jobs: Tuples ``(name, data)`` or ``(name, data, options)``, options by name.
        connection: As in :func:`add`.
        prefix: Name space of the queue.
        atomic: True adds all in one transaction: all jobs or none.

    Returns:
        The jobs with their ids, in order.

    Raises:
        UsageError: One item is not acceptable; nothing was sent.
        BulkAddFailed: The server declined some; tells which.
        DriverError: As in :func:`add`.
    """
    new = plans.drafts(keys_of(queue, prefix), jobs, {}, wall_ms())
    with opened(connection) as link:
        if link.is_cluster:
            check_together(new)
        layers, around = plugins.extensions().add_layers, plugins.extensions().operation_layers
        if layers or around:
            return perform(link, middleware.add_bulk(layers, new, report, atomic=atomic, around=around))
        return perform(link, plans.add_bulk(new, atomic=atomic, fresh=True))
