"""Keep locks, give them up, and recover the jobs of workers that are gone.

Source: protocol spec 03 sections 3.7 and 3.8.
"""

from collections.abc import Sequence

from echomq import codec, replies
from echomq.call import ScriptCall
from echomq.keys import Keys

__all__ = ["extend_lock", "extend_locks", "move_stalled_jobs_to_wait", "release_lock"]


def extend_lock(keys: Keys, job_id: str, token: str, lock_ms: int) -> ScriptCall[bool]:
    """Start the life of a lock anew.

    Repeatable: a second run sets the same lock again, or finds it gone all the same.

    Returns:
        Decodes to False if the lock is gone or another's.
    """
    return ScriptCall(
        script="extendLock",
        keys=(keys.lock(job_id), keys.stalled),
        args=(token, lock_ms, job_id),
        decode=replies.flag,
        repeatable=True,
    )


def extend_locks(keys: Keys, held: Sequence[tuple[str, str]], lock_ms: int) -> ScriptCall[list[str]]:
    """Start the life of many locks anew. Repeatable, as :func:`extend_lock`.

    Args:
        keys: The queue.
        held: Pairs of job id and token.
        lock_ms: The life, in ms.

    Returns:
        Decodes to the ids whose lock is lost.
    """
    return ScriptCall(
        script="extendLocks",
        keys=(keys.stalled,),
        args=(
            keys.base,
            codec.pack([token for _, token in held]),
            codec.pack([job_id for job_id, _ in held]),
            lock_ms,
        ),
        decode=replies.texts,
        repeatable=True,
    )


def release_lock(keys: Keys, job_id: str, token: str) -> ScriptCall[bool]:
    """Give up a lock.

    Not repeatable: a slot has one token for all its jobs, and may hold this job again by then.

    Returns:
        Decodes to False if the lock is gone or another's.
    """
    return ScriptCall(script="releaseLock", keys=(keys.lock(job_id),), args=(token,), decode=replies.flag)


def move_stalled_jobs_to_wait(
    keys: Keys, max_stalled_count: int, interval_ms: int, now_ms: int
) -> ScriptCall[list[str]]:
    """Put active jobs whose lock ran out back in line, and suspect all others until they renew.

    Repeatable: within the interval a second run does nothing. Its answer is then empty, so the
    ids of the first are only lost to the log.

    Args:
        keys: The queue.
        max_stalled_count: A job lost more often than this will be failed by its next worker.
        interval_ms: One check in this time, over all workers.
        now_ms: The present.

    Returns:
        Decodes to the ids put back.

    Source: protocol spec 03 section 3.7.
    """
    return ScriptCall(
        script="moveStalledJobsToWait",
        keys=(
            *(keys.stalled, keys.wait, keys.active, keys.stalled_check, keys.meta),
            *(keys.paused, keys.marker, keys.events, keys.repeat),
        ),
        args=(max_stalled_count, keys.base, now_ms, interval_ms),
        decode=replies.texts,
        repeatable=True,
    )
