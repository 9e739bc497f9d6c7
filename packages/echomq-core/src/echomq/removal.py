"""Remove jobs: one, those of a state, all, or what is left of them; in steps, so that the server never stops for long.

Source: protocol spec 04 sections 2.2 to 2.6; 05 section 10.
"""

from collections.abc import Callable

from .call import Batch
from .calls import queue as queue_calls
from .calls import remove as remove_calls
from .checks import whole
from .errors import JobLocked
from .keys import Keys
from .plans import Plan
from .states import JobState

__all__ = ["clean", "drain", "obliterate", "remove", "remove_orphans"]

_STEP = 1_000
_TREE_STEP = 500
"""Jobs that one call removes: 5 to 10 ms of the server's time, measured with 100,000 jobs."""

_SWEPT = {
    JobState.WAITING: ("wait", "paused"),
    JobState.ACTIVE: ("active",),
    JobState.DELAYED: ("delayed",),
    JobState.PRIORITIZED: ("prioritized",),
}
"""Where jobs that may be spared stand, so that a step must begin behind those that were."""


def obliterate(keys: Keys, *, force: bool, count: int) -> Plan[None]:
    """Delete a queue with all it holds, in steps of ``count`` jobs.

    Raises:
        QueueHasActiveJobs: Jobs are being processed, and ``force`` is not set.
        InvalidOption: ``count`` is not at least 1.

    Source: protocol spec 04 section 2.4.
    """
    whole("count", count, 1)  # steps of none would never end
    yield queue_calls.pause(keys)
    while (yield queue_calls.obliterate(keys, count, force)):
        pass


def clean(
    keys: Keys, state: JobState, *, before_ms: int, limit: int, on_progress: Callable[[int], object] | None = None
) -> Plan[list[str]]:
    """Remove jobs of one state that are older than a moment, in steps.

    Args:
        keys: The queue.
        state: Which jobs.
        before_ms: Only jobs not younger than this moment.
        limit: At most this many, the oldest; 0 for all.
        on_progress: Called after each step with the number of jobs removed so far.

    Returns:
        Ids of the removed jobs.

    Raises:
        InvalidOption: ``limit`` is no count.

    Source: protocol spec 04 section 2.3.
    """
    whole("limit", limit)
    removed: list[str] = []
    tell = on_progress or _tell_nobody
    for place in _SWEPT.get(state, ()):
        yield from _sweep(keys, place, removed, before_ms=before_ms, limit=limit, tell=tell)
    while state not in _SWEPT:
        step = min(_STEP, limit - len(removed)) if limit else _STEP
        ids = yield remove_calls.clean(keys, state, before_ms, step)
        removed += ids
        tell(len(removed))
        if len(ids) < step or len(removed) == limit:
            break
    return removed


def _tell_nobody(_: int) -> None:
    pass


def drain(keys: Keys, *, delayed: bool) -> Plan[None]:
    """Drop all jobs that wait, and those delayed if asked, in steps; schedulers keep their next job.

    In the order in which jobs move on, so that none slips past.

    Source: protocol spec 04 section 2.2.
    """
    for place in ("delayed", "prioritized", "paused", "wait")[0 if delayed else 1 :]:
        yield from _sweep(keys, place, [], before_ms=None, limit=0, tell=None)


def _sweep(
    keys: Keys,
    place: str,
    removed: list[str],
    *,
    before_ms: int | None,
    limit: int,
    tell: Callable[[int], object] | None,
) -> Plan[None]:
    """Go through one place; with ``tell`` the ids of removed jobs are gathered, and counted to it."""
    first: int | None = 0
    while first is not None and not (limit and len(removed) >= limit):
        left = limit - len(removed) if limit else 0
        swept = yield remove_calls.sweep(
            keys, place, before_ms=before_ms, first=first, count=_STEP, limit=left, tell=tell is not None
        )
        removed += swept.removed
        first = swept.first
        if tell is not None:
            tell(len(removed))


def remove(keys: Keys, job_id: str, *, with_children: bool) -> Plan[None]:
    """Remove a job, with all below it if asked: at once, or in steps if that is too much for one call.

    Raises:
        JobLocked: It, or a child, is being processed. Nothing was removed, unless a worker took a child of a
            large tree while that was being removed.
        JobBelongsToScheduler: It is the current job of a scheduler.

    Source: protocol spec 04 section 2.5.
    """
    if not with_children:
        yield remove_calls.remove_job(keys, job_id, with_children=False)
        return
    if (yield remove_calls.remove_tree(keys, job_id, effort=_TREE_STEP, begun=False)):
        return
    yield from _expect_no_lock(keys, job_id)
    while not (yield remove_calls.remove_tree(keys, job_id, effort=_TREE_STEP, begun=True)):
        pass


def _expect_no_lock(keys: Keys, job_id: str) -> Plan[None]:
    parents = [keys.job(job_id)]
    while parents:
        parent, cursor, begun = parents.pop(), "0", False
        while cursor != "0" or not begun:
            cursor, children = yield remove_calls.scan_children(parent, cursor, _STEP)
            begun = True
            if not children:
                continue
            if (yield remove_calls.count_existing([f"{child}:lock" for child in children])):
                raise JobLocked("removeTree", job_id)
            pending = [f"{child}:dependencies" for child in children]
            if (yield remove_calls.count_existing(pending)):
                found = yield Batch(requests=tuple(remove_calls.count_existing([key]) for key in pending))
                parents += [child for child, is_parent in zip(children, found, strict=True) if is_parent == 1]


def remove_orphans(keys: Keys, *, count: int, limit: int) -> Plan[int]:
    """Delete what is left of jobs that no list or set holds any more, and return of how many.

    Args:
        keys: The queue.
        count: How much of the keyspace the server goes through in one step.
        limit: Stop when so many were removed; 0 for no limit.

    Raises:
        InvalidOption: ``count`` is not at least 1, or ``limit`` is no count.

    Source: protocol spec 04 section 2.6; 05 section 10.
    """
    whole("count", count, 1)
    whole("limit", limit)
    removed, cursor, begun = 0, "0", False
    while (cursor != "0" or not begun) and not (limit and removed >= limit):
        cursor, found = yield remove_calls.scan_keys(keys, cursor, count)
        begun = True
        candidates = remove_calls.orphan_candidates(keys, found)
        while candidates and not (limit and removed >= limit):
            length = limit - removed if limit else len(candidates)
            removed += yield remove_calls.remove_orphans(keys, candidates[:length])
            candidates = candidates[length:]
    return removed
