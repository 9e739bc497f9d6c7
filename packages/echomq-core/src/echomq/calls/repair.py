"""Put right what a crash, a deleted key or another client left behind.

All of these are repeatable, and safe while workers run: each looks again at
what it is told about, and leaves alone what is in order by then.

Source: protocol spec 01 section 2; 02 S14; 03 S17.
"""

from collections.abc import Sequence

from echomq import replies
from echomq.call import ScriptCall
from echomq.keys import Keys

__all__ = ["release_stuck_parent", "remove_strays"]


def release_stuck_parent(keys: Keys, job_id: str, children: Sequence[str], now_ms: int) -> ScriptCall[int]:
    """Let a parent run that waits only for children which do not exist.

    Args:
        keys: The parent's queue.
        job_id: The parent.
        children: Keys of children that are believed to be gone; one that exists stays pending.
        now_ms: The present; a delay of the parent counts from here.

    Returns:
        Decodes to 1; to 0 if it waits for others, or does not wait.
    """
    return ScriptCall(
        script="releaseStuckParent",
        keys=(keys.job(job_id), keys.dependencies(job_id)),
        args=(keys.qualified_name, job_id, now_ms, *children),
        decode=replies.number,
        repeatable=True,
    )


def remove_strays(keys: Keys, kind: str, ids: Sequence[str]) -> ScriptCall[int]:
    """Remove what names no job any more.

    Args:
        keys: The queue.
        kind: ``"locks"``: of jobs that are not active, if they never end. ``"deduplication"``: held for ever
            by a job that is gone or has finished. The wire's name of a list or set: its ids without a job.
        ids: Ids of jobs, or deduplication ids.

    Returns:
        Decodes to how many went.
    """
    return ScriptCall(
        script="removeStrays", keys=(keys.base,), args=(kind, *ids), decode=replies.number, repeatable=True
    )
