"""End an attempt: completed, failed, again at once, again later, or when children are done.

None of these is repeatable: if the first run got through, a second one is
refused, since the lock is gone (-2) or the job is (-1). The worker knows that
it asked twice and reads such a refusal as success.

Source: protocol spec 03 sections 1.3 and 3.2 to 3.5.
"""

from collections.abc import Sequence

import attrs

from echomq import codec, replies
from echomq.call import Reply, ScriptCall
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import Keep

from .fetch import Take, Taken, read_taken, take_wire

__all__ = ["complete", "fail", "keep_wire", "move_to_delayed", "move_to_waiting_children", "retry_job"]

_KEEP_ALL = {"count": -1}


@attrs.frozen
class _ReadNext:
    """Reads the job that came with a finish, or None."""

    keys: Keys

    def __call__(self, reply: Reply) -> Taken | None:
        return read_taken(self.keys, reply) if isinstance(reply, (list, tuple)) else None


def complete(
    job: Job,
    value_json: str,
    *,
    take: Take,
    keep: Keep | None,
    fetch: bool,
    now_ms: int,
    metrics_points: int | None = None,
) -> ScriptCall[Taken | None]:
    """Report that a job is done and, if wanted, take the next one.

    Args:
        job: As taken.
        value_json: Its result as JSON text.
        take: The slot's: holds the lock to release, and how to take the next job.
        keep: The worker's rule for completed jobs; the job's own wins. None keeps all.
        fetch: Take the next job in the same call.
        now_ms: The present.
        metrics_points: Minutes of history to count in, or None for no metrics.

    Returns:
        Decodes to what the fetch found, or None if it was not asked or found nothing.

    Raises:
        JobNotFound, LockMissing, JobNotInState, JobHasPendingChildren, LockMismatch,
        JobHasFailedChildren: By ``decode``. Nothing was written.

    Source: protocol spec 03 section 3.2.
    """
    keep = job.options.remove_on_complete or keep
    return _finish(job, "completed", "returnvalue", value_json, "", take, keep, fetch, now_ms, metrics_points)


def fail(
    job: Job,
    reason: str,
    *,
    stacktrace: Sequence[str],
    take: Take,
    keep: Keep | None,
    fetch: bool,
    now_ms: int,
    metrics_points: int | None = None,
) -> ScriptCall[Taken | None]:
    """Report that a job has failed for good and, if wanted, take the next one.

    Args:
        job: As taken.
        reason: Plain text, not JSON.
        stacktrace: All its stack traces, oldest first, this one included.
        take: See :func:`complete`.
        keep: The worker's rule for failed jobs; the job's own wins. None keeps all.
        fetch: See :func:`complete`.
        now_ms: The present.
        metrics_points: See :func:`complete`.

    Returns:
        As :func:`complete`.

    Raises:
        JobNotFound, LockMissing, JobNotInState, LockMismatch: By ``decode``. Nothing was written.

    Source: protocol spec 03 section 3.2.
    """
    keep = job.options.remove_on_fail or keep
    reason = codec.as_utf8(reason)
    fields = _fields(reason, stacktrace)
    return _finish(job, "failed", "failedReason", reason, fields, take, keep, fetch, now_ms, metrics_points)


def _finish(
    job: Job,
    target: str,
    field: str,
    value: str,
    fields: bytes | str,
    take: Take,
    keep: Keep | None,
    fetch: bool,
    now_ms: int,
    metrics_points: int | None,
) -> ScriptCall[Taken | None]:
    keys, job_id, options = job.keys, job.id, job.options
    wire = take_wire(take)
    wire["keepJobs"] = keep_wire(keep)
    wire["attempts"] = options.attempts
    wire["maxMetricsSize"] = "" if metrics_points is None else metrics_points
    # The scripts read the policy from the child's `parent` field; peers send these all the same (03 1.3).
    wire["fpof"] = options.fail_parent_on_failure
    wire["cpof"] = options.continue_parent_on_failure
    wire["idof"] = options.ignore_dependency_on_failure
    wire["rdof"] = options.remove_dependency_on_failure
    return ScriptCall(
        script="moveToFinished",
        keys=(
            *(keys.wait, keys.active, keys.prioritized, keys.events, keys.stalled, keys.limiter, keys.delayed),
            *(keys.paused, keys.meta, keys.priority_counter, keys.base + target, keys.base + job_id),
            *(keys.metrics(target), keys.marker),
        ),
        args=(job_id, now_ms, field, value, target, "1" if fetch else "0", keys.base, codec.pack(wire), fields),
        decode=replies.Checked(_ReadNext(keys), "moveToFinished", job_id),
    )


def keep_wire(keep: Keep | None) -> dict[str, int]:
    """Return how many finished jobs stay, for msgpack; None keeps all."""
    return (keep and codec.to_wire(codec.KEEP_NAMES, keep)) or _KEEP_ALL


def _fields(reason: str | None, stacktrace: Sequence[str] | None) -> bytes | str:
    """Return the field list of a failed attempt; empty text for none, since an empty list aborts the script."""
    rows: list[str] = []
    if reason is not None:
        rows += ["failedReason", codec.as_utf8(reason)]
    if stacktrace is not None:
        rows += ["stacktrace", codec.encode_json("stacktrace", list(stacktrace))]
    return codec.pack(rows) if rows else ""


def retry_job(
    job: Job, *, token: str, now_ms: int, reason: str | None = None, stacktrace: Sequence[str] | None = None
) -> ScriptCall[None]:
    """Put a job whose attempt failed back in line at once: last, or first if it is ``lifo``.

    Args:
        job: As taken.
        token: Of its lock.
        now_ms: The present.
        reason: Why the attempt failed; None leaves what is stored.
        stacktrace: All its stack traces, oldest first; None leaves what is stored.

    Raises:
        JobNotFound, LockMissing, JobNotInState, LockMismatch: By ``decode``.

    Source: protocol spec 03 section 3.3.
    """
    keys = job.keys
    return ScriptCall(
        script="retryJob",
        keys=(
            *(keys.active, keys.wait, keys.paused, job.key, keys.meta, keys.events),
            *(keys.delayed, keys.prioritized, keys.priority_counter, keys.marker, keys.stalled),
        ),
        args=(
            *(keys.base, now_ms, "RPUSH" if job.options.lifo else "LPUSH"),
            *(job.id, token, _fields(reason, stacktrace)),
        ),
        decode=replies.Checked(replies.nothing, "retryJob", job.id),
    )


def move_to_delayed(
    job: Job,
    *,
    delay_ms: int,
    count_attempt: bool,
    take: Take,
    fetch: bool,
    now_ms: int,
    reason: str | None = None,
    stacktrace: Sequence[str] | None = None,
) -> ScriptCall[Taken | None]:
    """Let an active job wait and run again.

    Args:
        job: As taken.
        delay_ms: How long from now.
        count_attempt: True after a failed attempt; False when the job delays itself.
        take: See :func:`complete`.
        fetch: Take the next job in the same call.
        now_ms: The present.
        reason: Why the attempt failed; None leaves what is stored.
        stacktrace: All its stack traces, oldest first; None leaves what is stored.

    Returns:
        Decodes to the next job, or None: a rate limit or a delayed job is only told by the next take.

    Raises:
        JobNotFound, LockMissing, JobNotInState, LockMismatch: By ``decode``.

    Source: protocol spec 03 section 3.4.
    """
    keys = job.keys
    return ScriptCall(
        script="moveToDelayed",
        keys=(
            *(keys.marker, keys.active, keys.prioritized, keys.delayed, job.key, keys.events),
            *(keys.meta, keys.stalled, keys.wait, keys.limiter, keys.priority_counter),
        ),
        args=(
            *(keys.base, now_ms, job.id, take.token, delay_ms, "0" if count_attempt else "1"),
            *(_fields(reason, stacktrace), "1" if fetch else "0", take.packed),
        ),
        decode=replies.Checked(_ReadNext(keys), "moveToDelayed", job.id),
    )


def move_to_waiting_children(job: Job, *, token: str, now_ms: int, child_key: str | None = None) -> ScriptCall[bool]:
    """Let an active job wait for its children.

    Args:
        job: As taken.
        token: Of its lock.
        now_ms: The present.
        child_key: Wait only if this child is pending; None: if any is.

    Returns:
        Decodes to True if the job waits now, False if nothing was pending: it is still active.

    Raises:
        JobNotFound, LockMissing, JobNotInState, LockMismatch, JobHasFailedChildren: By ``decode``.

    Source: protocol spec 03 section 3.5.
    """
    keys = job.keys
    return ScriptCall(
        script="moveToWaitingChildren",
        keys=(
            *(keys.active, keys.waiting_children, job.key, keys.dependencies(job.id)),
            *(keys.unsuccessful(job.id), keys.stalled, keys.events),
        ),
        args=(token, child_key or "", now_ms, job.id, keys.base),
        decode=replies.Checked(_is_zero, "moveToWaitingChildren", job.id),
    )


def _is_zero(reply: Reply) -> bool:
    return replies.number(reply) == 0
