"""What goes on around an attempt, whatever shell runs it: plans and choices. Pure.

Source: protocol spec 05 section 4.7.
"""

from collections.abc import Generator
from datetime import tzinfo
from typing import Any, TypeAlias

from echomq.call import Command, ScriptCall
from echomq.calls.schedulers import has_job_scheduler, is_legacy_id, update_job_scheduler
from echomq.errors import ProtocolError
from echomq.job import Job

from .settling import SitOut, insistently

__all__ = ["Following", "follow_up"]

Following: TypeAlias = Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, None]


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
