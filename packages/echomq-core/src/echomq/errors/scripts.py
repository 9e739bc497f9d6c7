"""A script's refusals: the server's answer about one job.

Source: protocol spec 01 section 12 (reply codes).
"""

from typing import ClassVar

from .roots import EchoMQError, ProtocolError

__all__ = [
    "SCRIPT_ERRORS",
    "JobBelongsToScheduler",
    "JobHasFailedChildren",
    "JobHasPendingChildren",
    "JobLocked",
    "JobNotFound",
    "JobNotInState",
    "LockMismatch",
    "LockMissing",
    "ParentConflict",
    "ParentNotFound",
    "QueueHasActiveJobs",
    "QueueNotPaused",
    "SchedulerCollision",
    "SchedulerSlotsBusy",
    "ScriptError",
    "script_error",
]


class ScriptError(EchoMQError):
    """A script declined, and said why with a code; it wrote nothing.

    Attributes:
        code: The negative reply, or None where the refusal has no code.
        script: Name of the script, ``"moveToFinished"``.
        job_id: Job (or scheduler) the call was about, or None.
    """

    code: ClassVar[int | None] = None
    what: ClassVar[str] = "the script {script} refused job {job_id}"
    advice: ClassVar[str] = ""

    def __init__(self, script: str, job_id: str | None = None) -> None:
        what = self.what if job_id else self.what.replace("job {job_id}", "the job")  # a new one has no id yet
        message = what.format(script=script, job_id=job_id)
        super().__init__(f"{message} ({script}). {self.advice}".rstrip())
        self.script = script
        self.job_id = job_id


class JobNotFound(ScriptError):
    """The job's hash does not exist (reply -1)."""

    code = -1
    what = "job {job_id} does not exist"
    advice = "It was removed, by hand or by retention, or the id is wrong."


class LockMissing(ScriptError):
    """The job has no lock (reply -2)."""

    code = -2
    what = "job {job_id} has no lock"
    advice = "The lock ran out or was released: the job may already run elsewhere."


class JobNotInState(ScriptError):
    """The job is not in the state the call needs (reply -3)."""

    code = -3
    what = "job {job_id} is not in the state this call needs"
    advice = "Read its state; somebody else has moved or removed it, or the id is wrong."


class JobHasPendingChildren(ScriptError):
    """The job cannot complete while children are pending (reply -4)."""

    code = -4
    what = "job {job_id} has children that are not finished"
    advice = "Wait for them, or remove the unprocessed ones."


class ParentNotFound(ScriptError):
    """The parent's hash does not exist (reply -5)."""

    code = -5
    what = "the parent of job {job_id} does not exist"
    advice = "Add the parent first; it may have been removed."


class LockMismatch(ScriptError):
    """The job is locked with another token (reply -6)."""

    code = -6
    what = "job {job_id} is locked by another worker"
    advice = "The lock ran out here and the job was given to somebody else."


class ParentConflict(ScriptError):
    """The existing job already has another parent that lives (reply -7)."""

    code = -7
    what = "job {job_id} already belongs to another parent"
    advice = "Use another job id, or remove its present parent."


class JobBelongsToScheduler(ScriptError):
    """The current job of a scheduler cannot be removed (reply -8)."""

    code = -8
    what = "job {job_id} is the current job of a job scheduler"
    advice = "Remove the scheduler instead."


class JobHasFailedChildren(ScriptError):
    """The job cannot complete: a child with fail_parent_on_failure failed (reply -9)."""

    code = -9
    what = "job {job_id} has at least one failed child"
    advice = "Retry the child first, or let the parent fail."


class SchedulerCollision(ScriptError):
    """The next job of a cron scheduler exists already (reply -10)."""

    code = -10
    what = "the next job of scheduler {job_id} exists already"
    advice = "Wait until it ran, or remove it."


class SchedulerSlotsBusy(ScriptError):
    """33 consecutive slots of an interval scheduler are taken (reply -11)."""

    code = -11
    what = "the next slots of scheduler {job_id} are all taken"
    advice = "Remove finished jobs of the scheduler, or choose a longer interval."


class JobLocked(ScriptError):
    """The job, or one of its children, is being processed and cannot be removed (reply 0)."""

    what = "job {job_id}, or a child of it, is locked by a worker"
    advice = "Wait until it ended."


class QueueNotPaused(ScriptError):
    """Only a paused queue can be obliterated."""

    what = "the queue is not paused"
    advice = "Pause it first."


class QueueHasActiveJobs(ScriptError):
    """A queue with active jobs is only obliterated by force."""

    what = "the queue has active jobs"
    advice = "Wait for them, or use force."


SCRIPT_ERRORS: dict[int, type[ScriptError]] = {
    error.code: error
    for error in (
        JobNotFound,
        LockMissing,
        JobNotInState,
        JobHasPendingChildren,
        ParentNotFound,
        LockMismatch,
        ParentConflict,
        JobBelongsToScheduler,
        JobHasFailedChildren,
        SchedulerCollision,
        SchedulerSlotsBusy,
    )
    if error.code is not None
}
"""Reply code -> class, the one table of the contract's codes."""


def script_error(code: int, script: str, job_id: str | None = None) -> EchoMQError:
    """Return the error a negative reply stands for.

    A code outside the contract becomes a :class:`ProtocolError` that shows it.
    """
    if code in SCRIPT_ERRORS:
        return SCRIPT_ERRORS[code](script, job_id)
    return ProtocolError(f"{script} replied {code} for job {job_id}, which the contract does not know")
