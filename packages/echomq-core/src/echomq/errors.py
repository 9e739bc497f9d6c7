"""Every error EchoMQ raises, in one tree.

The type says whose turn it is: :class:`UsageError` is the caller's and is raised
before anything is sent, :class:`ScriptError` is the server's answer about one
job, :class:`DriverError` is the link's or the server's, :class:`ProtocolError`
is data outside the contract, :class:`PluginError` an extension's. What job code
raises to steer its own job is a :class:`JobSignal`; see :mod:`echomq.signals`.

Source: protocol spec 01 section 12 (reply codes).
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

__all__ = [
    "SCRIPT_ERRORS",
    "BulkAddFailed",
    "ConnectionClosed",
    "ConnectionLost",
    "DriverError",
    "DriverMissing",
    "EchoMQError",
    "FlowFailed",
    "InvalidOption",
    "JobBelongsToScheduler",
    "JobFailed",
    "JobHasFailedChildren",
    "JobHasPendingChildren",
    "JobLocked",
    "JobNotFound",
    "JobNotInState",
    "JobRemoved",
    "JobSignal",
    "JobTimedOut",
    "LockMismatch",
    "LockMissing",
    "NotEncodable",
    "ParentConflict",
    "ParentNotFound",
    "PluginError",
    "ProcessDied",
    "ProtocolError",
    "QueueHasActiveJobs",
    "QueueNotPaused",
    "RaisedInProcess",
    "ReplyTimeout",
    "ResultTimeout",
    "SchedulerCollision",
    "SchedulerSlotsBusy",
    "ScriptError",
    "ServerNotReady",
    "ServerRefused",
    "UnknownOption",
    "UsageError",
    "script_error",
]


class EchoMQError(Exception):
    """Root of all errors of this library."""


class UsageError(EchoMQError):
    """The caller asked for something impossible; nothing was sent."""


class InvalidOption(UsageError, ValueError):
    """A value is outside what the field allows.

    Attributes:
        field: Name of the option as the caller spells it, ``"backoff.jitter"``.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class UnknownOption(UsageError, TypeError):
    """An option of that name does not exist.

    Attributes:
        field: The unknown name.
        nearest: The existing name that looks most like it, or None.
    """

    def __init__(self, field: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"unknown option {field!r}{hint}")
        self.field = field
        self.nearest = nearest


class NotEncodable(UsageError, ValueError):
    """Data or a result is not strict JSON.

    Attributes:
        path: Where in the value the culprit is, ``"$.items[3].price"``.
    """

    def __init__(self, subject: str, path: str, problem: str) -> None:
        super().__init__(f"{subject} is not JSON at {path}: {problem}")
        self.path = path


class DriverMissing(UsageError):
    """No installed driver serves the connection; the message says what to install."""


class ProtocolError(EchoMQError):
    """Data or a reply lies outside the wire contract."""


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
    advice = "Read its state; it was moved by somebody else."


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


class BulkAddFailed(EchoMQError):
    """The server declined some jobs of a bulk add; the others were added.

    Attributes:
        outcomes: For each job, in order, the job as added or the error that kept it out.
    """

    def __init__(self, outcomes: Sequence[Any]) -> None:
        errors = [outcome for outcome in outcomes if isinstance(outcome, EchoMQError)]
        super().__init__(f"{len(errors)} of {len(outcomes)} jobs were not added; the first because: {errors[0]}")
        self.outcomes = outcomes


class FlowFailed(EchoMQError):
    """The server declined some jobs of a flow.

    Attributes:
        refused: For each job that was not added, by its key, the error that kept it out.
        incomplete: Jobs that were added, but lack a child that was refused; empty if nothing was added.
            They wait until you remove them, or let them run by ``FlowProducer.release``.
    """

    def __init__(self, refused: Mapping[str, EchoMQError], incomplete: Sequence[Any], *, is_sent: bool = True) -> None:
        key, error = next(iter(refused.items()))
        lacking = ", ".join(job.key for job in incomplete)
        state = "the others were added" if is_sent else "nothing was added"
        advice = f" These lack a child now: {lacking}; remove them, or release them." if lacking else ""
        super().__init__(f"{len(refused)} jobs of the flow were refused, {state}; {key}: {error}{advice}")
        self.refused = refused
        self.incomplete = tuple(incomplete)


class JobFailed(EchoMQError):
    """A job whose result was awaited failed, and no attempt is left.

    Attributes:
        job_id: The job.
        reason: What its code raised, as text.
    """

    def __init__(self, queue: str, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} of queue {queue!r} failed: {reason}")
        self.job_id = job_id
        self.reason = reason


class JobRemoved(EchoMQError):
    """A job whose result was awaited does not exist (any more), and nothing is known of its end.

    Attributes:
        job_id: The job.
    """

    def __init__(self, queue: str, job_id: str) -> None:
        super().__init__(
            f"job {job_id} of queue {queue!r} does not exist, and the event log does not tell of its end. "
            "It was removed before it ended, or so long ago that the log has forgotten, or the id is wrong."
        )
        self.job_id = job_id


class ResultTimeout(EchoMQError, TimeoutError):
    """A job did not end within the time that was given to wait for its result; it goes on.

    Attributes:
        job_id: The job.
    """

    def __init__(self, queue: str, job_id: str, timeout_ms: int) -> None:
        super().__init__(f"job {job_id} of queue {queue!r} did not end within {timeout_ms} ms; it may still do so")
        self.job_id = job_id


class JobTimedOut(EchoMQError, TimeoutError):
    """An attempt took longer than its ``timeout`` allows, and was stopped.

    Attributes:
        job_id: The job.
        timeout_ms: The limit.
    """

    def __init__(self, job_id: str, timeout_ms: int) -> None:
        super().__init__(f"job {job_id} ran longer than {timeout_ms} ms and was stopped")
        self.job_id = job_id
        self.timeout_ms = timeout_ms


class ProcessDied(EchoMQError):
    """The child process that ran a job ended before the job did.

    Attributes:
        exit_code: As ``multiprocessing`` gives it: negative for the signal that killed it.
    """

    def __init__(self, job_id: str, exit_code: int | None, how: str) -> None:
        super().__init__(f"the process that ran job {job_id} {how}")
        self.exit_code = exit_code


class RaisedInProcess(EchoMQError):
    """Job code in a child process raised an error of a class that only the child knows.

    Attributes:
        type_name: Module and name of that class.
    """

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(message)
        self.type_name = type_name


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


class DriverError(EchoMQError):
    """The link or the server failed; raised from the client's own error."""


class ConnectionLost(DriverError):
    """The server cannot be reached, or the link broke.

    Attributes:
        may_have_run: True if the request had been written when the link broke,
            so that the server may have carried it out. False: it certainly has not.
    """

    def __init__(self, message: str, *, may_have_run: bool = False) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ConnectionClosed(ConnectionLost):
    """The connection's owner closed it; it does not come back, so trying again is pointless."""


class ReplyTimeout(ConnectionLost):
    """No reply within the deadline; whether the request ran is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_run=True)


class ServerRefused(DriverError):
    """The server answered with an error.

    Attributes:
        prefix: First word of the answer: ``"NOPERM"``, ``"OOM"``, ``"WRONGTYPE"``, ``"ERR"``.
    """

    def __init__(self, message: str, *, prefix: str = "ERR") -> None:
        super().__init__(message)
        self.prefix = prefix


class ServerNotReady(ServerRefused):
    """The server cannot serve just now (LOADING, BUSY, READONLY, MASTERDOWN, ...): wait and try again."""


class PluginError(EchoMQError):
    """An extension misbehaved; the message names it."""


class JobSignal(EchoMQError):
    """What job code raises to steer its own job instead of failing; see :mod:`echomq.signals`."""
