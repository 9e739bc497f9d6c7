"""What goes on around an attempt, whatever shell runs it: plans and choices. Pure.

Source: protocol spec 05 section 4.7.
"""

from collections.abc import Generator
from datetime import tzinfo
from typing import Any, TypeAlias

from echomq.call import Command, ScriptCall
from echomq.calls.fetch import Take
from echomq.calls.locks import extend_lock
from echomq.calls.schedulers import has_job_scheduler, is_legacy_id, update_job_scheduler
from echomq.errors import ProtocolError
from echomq.job import Job

from .settling import SitOut, insistently

__all__ = ["Following", "came_late", "follow_up", "keep"]

Following: TypeAlias = Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, None]


def came_late(job: Job, take: Take, now_ms: int) -> bool:
    """Tell whether a job was so long on its way that its lock may run out before it is renewed.

    A process that was frozen, or a blocked event loop, reads a reply long after the server has given it.

    Args:
        job: As taken.
        take: How.
        now_ms: The present on the wall clock, by which the job was taken.
    """
    return job.processed_on_ms is not None and 2 * (now_ms - job.processed_on_ms) > take.lock_ms


def keep(job: Job, take: Take) -> Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, bool]:
    """Renew the lock of a job that :func:`came_late`; False if it is gone, so that others may have the job."""
    kept, _ = yield from insistently(extend_lock(job.keys, job.id, take.token, take.lock_ms))
    return bool(kept)


def follow_up(job: Job, now_ms: int, zone: tzinfo) -> Following:
    """Let a scheduler make the job after this one, before this one runs.

    Args:
        job: As taken; one without a scheduler is followed by none.
        now_ms: The present on the wall clock.
        zone: Of this process, for patterns that name none.

    Raises:
        ScriptError: The scheduler does not want it; no reason not to run this job.
        ProtocolError: The job repeats in a way that nobody continues.
    """
    if job.scheduler_id is None:
        return
    if is_legacy_id(job.scheduler_id):
        known, _ = yield from insistently(has_job_scheduler(job.keys, job.scheduler_id))
        if not known:
            raise ProtocolError(f"job {job.id} repeats in a way that ended with version 5; no other job follows it")
    call = update_job_scheduler(job, now_ms, zone)
    if call is not None:
        yield from insistently(call)
