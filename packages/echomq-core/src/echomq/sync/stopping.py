"""Ends an attempt before its code does: a time limit, or somebody's wish; the twin of :mod:`echomq.aio.stopping`.

A thread is asked to end. If it does not, its attempt fails behind its back: the
thread goes on, since nobody can stop it, and whatever it does has no effect.

Source: design.md section 5; protocol spec 05 section 4.7.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echomq.scheduling.outcome import stopped_with

if TYPE_CHECKING:
    from .held import Held

__all__ = ["GRACE_S", "Detached", "attempt", "detach", "stop"]

_log = logging.getLogger("echomq.worker")

GRACE_S = 0.5
"""How long a job that was asked to end may take."""


class Detached(BaseException):
    """The attempt was ended behind the back of this thread."""


def attempt(held: "Held", lock: threading.Condition, run: Callable[[], Any]) -> Any:
    """Run a job's code and return its result.

    Args:
        held: The job.
        lock: Guards its flags.
        run: Runs the code.

    Raises:
        Detached: Another thread has reported the attempt meanwhile.
        BaseException: What the code raised, or why it was stopped.
    """
    result: Any = None
    raised: BaseException | None = None
    with lock:
        held.attempting = held.verdict is None
    try:
        if held.attempting:
            result = run()
    except BaseException as error:  # noqa: BLE001  # it is raised again below, unless nobody wants it any more
        raised = error
    with lock:
        if held.detached:
            raise Detached from raised
        held.attempting, held.over = False, True
    if held.verdict is not None and not held.lost:
        raise stopped_with(held.verdict, raised)
    if raised is not None:
        raise raised
    return result


def stop(held: "Held", lock: threading.Condition, verdict: BaseException) -> bool:
    """Tell a job's code to end, or not to begin.

    Args:
        held: The job.
        lock: Guards its flags.
        verdict: What its attempt fails with. The first one counts.

    Returns:
        False if the code has ended already.
    """
    with lock:
        if held.over or held.lost or held.given_up.is_set():
            return False
        if held.verdict is None:
            held.verdict = verdict
            if held.attempting:
                held.context.cancel()
        return True


def detach(held: "Held", lock: threading.Condition) -> bool:
    """End an attempt that was told to stop and goes on; False if there is nothing to end."""
    with lock:
        if not held.attempting or held.lost or held.given_up.is_set():
            return False
        held.attempting, held.over, held.detached = False, True, True
    _log.warning(
        "job %s: %s. Its thread goes on, since nobody can stop a thread; its result is not used. "
        "Look at ctx.cancelled in long work, or run it in a process.",
        held.job.id,
        held.verdict,
    )
    return True
