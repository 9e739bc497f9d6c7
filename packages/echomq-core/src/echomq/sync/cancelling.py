"""Cancel jobs, blocking.

How it is done: :mod:`echomq.cancelling`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from echomq.cancelling import CANCELLED, Cancellation, pause_ms
from echomq.cancelling import cancel as plan_cancel
from echomq.clock import mono_ms, wall_ms
from echomq.moments import duration_ms

if TYPE_CHECKING:
    from echomq.moments import Duration

    from .queue import Queue

__all__ = ["cancel"]


def cancel(self: Queue, job_id: str, reason: str | None = None, *, timeout: Duration = 5_000) -> Cancellation:
    """Let a job fail with a reason and never run again, wherever it is and whoever runs it.

    One that has not started fails at once. One that runs in a worker of ours is stopped there: a coroutine is
    cancelled, a thread is asked to end, a process killed. One that runs in another client's worker goes on,
    since it cannot hear; it is marked, so that it fails when it is taken again.
    To remove a job without a trace, there is ``remove``.

    Args:
        job_id: The job.
        reason: What it fails with; None: "cancelled".
        timeout: Wait so long (ms or ``timedelta``) for a running job to end; 0 only asks.

    Returns:
        What became of it.

    Raises:
        JobNotFound: There is no such job.
        JobBelongsToScheduler: It is the next job of a scheduler; remove that.
    """
    reason, until_ms = reason or CANCELLED, mono_ms() + duration_ms("timeout", timeout)
    token, told, steps = str(uuid4()), "", 0
    while True:
        found, told = self._perform(plan_cancel(self.keys, job_id, reason, token, told, wall_ms()))
        if found is not Cancellation.ASKED or mono_ms() >= until_ms:
            return found
        time.sleep(pause_ms(steps) / 1000)
        steps += 1
