"""Ends an attempt before its code does: a time limit, or somebody's wish.

A coroutine is cancelled, a thread is asked to end and left behind if it does not, a
process is killed. The attempt has failed only when that has happened, so that no
code of it runs on unnoticed beside the next one.

Source: design.md section 5; protocol spec 05 section 4.7.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from echomq.errors import JobTimedOut
from echomq.scheduling.outcome import left_of_limit_s, stopped_with

from .context import ThreadContext

if TYPE_CHECKING:
    from .held import Held
    from .processing import JobRunner

__all__ = ["attempt", "stop"]

_log = logging.getLogger("echomq.worker")

_THREAD_GRACE_S = 0.5
"""How long a thread that was asked to end may take; then its attempt has failed, and it is cut off."""

_COROUTINE_GRACE_S = 5.0
"""How long a cancelled coroutine may tidy up before it is cancelled again."""


async def attempt(held: "Held", processing: "JobRunner", limit_ms: int | None) -> Any:
    """Run a job's code, for so long at most, and return its result.

    Raises:
        BaseException: What the code raised, or why it was stopped.
    """
    timer = _timer(held, limit_ms) if limit_ms is not None else None
    held.attempting = True
    result: Any = None
    raised: BaseException | None = None
    try:
        if held.verdict is None:
            try:
                result = await processing.call(held.job, held.context)
            finally:
                if held.context.rows is not None:
                    await held.context.rows.settle()
    except BaseException as error:
        if held.verdict is None or held.lost:
            raise
        raised = error
    finally:
        held.attempting, held.over = False, True
        if timer is not None:
            timer.cancel()
    if held.verdict is not None:
        raise stopped_with(held.verdict, raised)
    return result


def _timer(held: "Held", limit_ms: int) -> asyncio.TimerHandle:
    verdict = JobTimedOut(held.job.id, limit_ms)
    return asyncio.get_running_loop().call_later(limit_ms / 1000, _at_limit, held, verdict)


def _at_limit(held: "Held", verdict: JobTimedOut) -> None:
    began_at_s = held.context.began_at_s if isinstance(held.context, ThreadContext) else 0.0
    left_s = left_of_limit_s(began_at_s, verdict.timeout_ms, time.monotonic())
    if not left_s:
        stop(held, verdict)
    elif held.attempting:
        asyncio.get_running_loop().call_later(left_s, _at_limit, held, verdict)


def stop(held: "Held", verdict: BaseException) -> bool:
    """Tell a job's code to end, or not to begin.

    Args:
        held: The job.
        verdict: What its attempt fails with. The first one counts.

    Returns:
        False if the code has ended already.
    """
    if held.over or held.lost or held.given_up:
        return False
    if held.verdict is None:
        held.verdict = verdict
        if held.attempting:
            held.interrupt()
            _insist_later(held)
    return True


def _insist_later(held: "Held") -> None:
    grace_s = _THREAD_GRACE_S if isinstance(held.context, ThreadContext) else _COROUTINE_GRACE_S
    asyncio.get_running_loop().call_later(grace_s, _insist, held)


def _insist(held: "Held") -> None:
    if not held.attempting or held.task is None:
        return
    if isinstance(held.context, ThreadContext):
        _log.warning(
            "job %s: %s. Its thread goes on, since nobody can stop a thread; its result is not used. "
            "Look at ctx.cancelled in long work, or run it in a process.",
            held.job.id,
            held.verdict,
        )
        held.context.cut_off(str(held.verdict))
        held.task.cancel()
        return
    held.interrupt()
    _insist_later(held)
