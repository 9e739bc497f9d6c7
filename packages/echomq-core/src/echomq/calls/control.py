"""The control channel of a queue: what its workers are asked to do with jobs they run.

A stream that exists only while there is something to say. A wish names the token of the
job's lock, so that it concerns one attempt in one worker; a worker that was cut off
reads it when it is back. Ours: other clients do not know it.
"""

from typing import TypeAlias

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.errors import script_error
from echomq.job import Job
from echomq.keys import Keys
from echomq.states import JobState

__all__ = ["BEGINNING", "Asked", "Ended", "Seized", "Wish", "cancel_job", "read_wishes"]

BEGINNING = "0-0"
"""Reads a control channel from its first wish."""

_KEEP_MS = 3_600_000
"""How long a wish waits for a worker that is cut off; its job has long lost its lock by then."""


@attrs.frozen
class Ended:
    """The job had ended before.

    Attributes:
        state: Completed or failed.
        reason: Why it failed; empty if it did not.
    """

    state: JobState
    reason: str


@attrs.frozen
class Asked:
    """A worker runs the job and was asked to stop it.

    Attributes:
        token: Of the job's lock.
    """

    token: str


@attrs.frozen
class Seized:
    """No worker ran the job; it is active now and locked for the caller, who must finish it.

    Attributes:
        job: The job.
    """

    job: Job


Cancelling: TypeAlias = Ended | Asked | Seized


@attrs.frozen(kw_only=True)
class Wish:
    """A job that a worker is asked to stop.

    Attributes:
        id: Of the entry in the channel.
        job_id: The job.
        token: Of its lock when it was asked.
        reason: What it shall fail with.
    """

    id: str
    job_id: str
    token: str
    reason: str


@attrs.frozen
class _ReadCancelling:
    keys: Keys
    job_id: str

    def __call__(self, reply: Reply) -> Cancelling:
        if isinstance(reply, int) and reply < 0:
            raise script_error(reply, "cancelJob", self.job_id)
        code = replies.number(reply[0]) if isinstance(reply, (list, tuple)) and len(reply) > 1 else None
        if code == 0:
            return Ended(JobState.of(replies.text(reply[1])), replies.text(reply[2]))
        if code == 1:
            return Asked(replies.text(reply[1]))
        if code == 2:
            return Seized(Job.from_hash(self.keys, self.job_id, reply[1], JobState.ACTIVE))
        raise replies.unexpected(reply, "what became of a job")


def cancel_job(
    keys: Keys, job_id: str, reason: str, *, token: str, lock_ms: int, told: str = ""
) -> ScriptCall[Cancelling]:
    """End a job that nobody wants any more: take it if no worker runs it, else ask its worker.

    Repeatable with the same token: a job that was seized is seized again.

    Args:
        keys: The queue.
        job_id: The job.
        reason: What it fails with.
        token: The caller's own, different for each job it cancels.
        lock_ms: Life of the lock of a seized job.
        told: Token of the worker that was asked by an earlier call, and need not be asked again.

    Raises:
        JobNotFound, JobNotInState, JobBelongsToScheduler: By ``decode``; nothing was written.
        InvalidOption: That is no id of a job.
    """
    return ScriptCall(
        script="cancelJob",
        keys=(
            *(keys.completed, keys.failed, keys.delayed, keys.active, keys.wait, keys.paused, keys.waiting_children),
            *(keys.prioritized, keys.job_named(job_id), keys.events, keys.repeat, _control(keys)),
        ),
        args=(job_id, codec.as_utf8(reason), token, lock_ms, told, _KEEP_MS),
        decode=_ReadCancelling(keys, job_id),
        repeatable=True,
    )


def read_wishes(keys: Keys, after: str, block_ms: int) -> Command[list[Wish]]:
    """Read what workers are asked since an entry, and wait for it. Belongs on a connection of its own.

    Args:
        keys: The queue.
        after: Id of the last wish that is known; :data:`BEGINNING` for all.
        block_ms: Longest wait, at least 1.

    Returns:
        Decodes to an empty list if there is none.
    """
    return Command(
        parts=("XREAD", "COUNT", 1_000, "BLOCK", block_ms, "STREAMS", _control(keys), after),
        decode=_read_wishes,
        repeatable=True,
        block_ms=block_ms,
    )


def _control(keys: Keys) -> str:
    return f"{keys.base}echomq:control"


def _read_wishes(reply: Reply) -> list[Wish]:
    return [_wish(replies.text(entry_id), replies.pairs(fields)) for entry_id, fields in replies.stream(reply)]


def _wish(entry_id: str, fields: dict[str, str]) -> Wish:
    return Wish(
        id=entry_id, job_id=fields.get("job", ""), token=fields.get("token", ""), reason=fields.get("reason", "")
    )
