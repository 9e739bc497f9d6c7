"""What its host, or a job, may want of a blocking worker: to cancel, to pause, to end.

The twin of :mod:`echomq.aio.steering`; methods of :class:`~echomq.sync.Worker`. All
may be called before a run, while it lasts and after it, and in any thread; where
one would have to wait for what waits for itself, it says so at once. To stop, to
pause without waiting and to resume take no lock: a signal handler may do so
between any two steps of the thread that runs the worker.

Source: design.md section 5.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from echomq.errors import UsageError
from echomq.moments import duration_ms
from echomq.scheduling import messages

if TYPE_CHECKING:
    from echomq.moments import Duration

    from .shift import Shift
    from .worker import Worker

__all__ = ["cancel", "cancel_all", "close", "interrupted", "pause", "resume", "stop", "tell"]


def cancel(self: Worker, job_id: str, reason: str | None = None) -> bool:
    """Stop a job that this worker runs, and let it fail for good, whatever attempts are left.

    Its code finds ``ctx.cancelled`` set. If it does not end, the attempt fails all the same, and what its
    thread does then has no effect. Safe in any thread.

    Args:
        job_id: The job.
        reason: What it fails with; None: "cancelled".

    Returns:
        False if it does not run here, or its code has ended already.
    """
    shift = self._shift
    return shift is not None and shift.slots.cancel(job_id, reason)


def cancel_all(self: Worker, reason: str | None = None) -> int:
    """Stop all jobs that this worker runs, as :meth:`cancel` does; returns how many."""
    shift = self._shift
    held = [] if shift is None else list(shift.slots.held)
    return sum(self.cancel(job.job_id, reason) for job in held)


def stop(self: Worker, timeout: Duration | None = None) -> None:
    """Begin to close, and return at once; safe in listeners and jobs, in signal handlers and in other threads.

    Where no run is under way, the next one ends at once.

    Args:
        timeout: As :meth:`close`.
    """
    _end_soon(self, messages.Closed(_timeout_ms(self, timeout)))


def close(self: Worker, timeout: Duration | None = None) -> None:
    """Take no more jobs, let running ones end and store their results, then let go of the server.

    A run that has not begun, as one whose thread was only just started, ends at once. Twice does no harm.

    Args:
        timeout: Longest wait for running jobs, in ms or as ``timedelta``. What has not ended then is
            told so and given back to wait at once, without using an attempt; nobody can stop its thread,
            but what it does then has no effect. None: the option ``close_timeout``.

    Raises:
        UsageError: A job of this worker, or a listener in the thread that runs it, calls this and would
            wait for itself; use :meth:`stop`.
        Exception: Where jobs are fetched by hand, what ended the work behind the scenes, as an error of the
            lifespan, if no fetch has raised it.
    """
    closed = messages.Closed(_timeout_ms(self, timeout))
    shift, manual = self._shift, self._manual
    if shift is not None:
        _refuse_own_thread(shift, "close", "worker.stop()")
    if shift is not None or not self._is_closed:
        self._is_closed = True
        _end_soon(self, closed)
    self._gone.wait()
    if manual is not None:
        manual.finish()


def pause(self: Worker, *, wait: bool = True) -> None:
    """Take no jobs in this worker until :meth:`resume`; other workers go on.

    Args:
        wait: Return when the running jobs have ended. False also works in jobs and in signal handlers.

    Raises:
        UsageError: A job of this worker calls it and would wait for itself; pass ``wait=False``.
    """
    shift = self._shift
    if shift is not None and wait:
        _refuse_own_thread(shift, "pause", "worker.pause(wait=False)")
    self._is_paused = True
    if shift is not None and wait:
        shift.happened(messages.Paused())
        shift.slots.idle()
    else:
        tell(self, messages.Paused())
    self._listening.call("paused")


def resume(self: Worker) -> None:
    """Take jobs again; safe in any thread, and in signal handlers."""
    self._is_paused = False
    tell(self, messages.Resumed())
    self._listening.call("resumed")


def interrupted(worker: Worker, force: bool) -> None:
    """End at a signal; what :mod:`~echomq.sync.interrupts` calls."""
    _end_soon(worker, messages.Closed(0 if force else worker.options.close_timeout))
    if force and worker._in_lifespan:
        raise KeyboardInterrupt  # of a lifespan that hangs nobody knows how long it will


def tell(worker: Worker, event: messages.Happened) -> None:
    """Tell the run that is under way, if one is."""
    shift = worker._shift
    if shift is not None:
        shift.post(partial(shift.happened, event))


def _end_soon(worker: Worker, closed: messages.Closed) -> None:
    """End the run, or the next one if none is under way."""
    worker._wish = closed  # before the look: a run that begins now has read it, or is seen here
    if worker._shift is not None:
        worker._wish = None
        tell(worker, closed)


def _refuse_own_thread(shift: Shift, what: str, instead: str) -> None:
    if shift.is_own_thread():
        raise UsageError(
            f"this thread runs the worker or one of its jobs, and would wait for itself: {what} was called in a "
            f"job or a listener; call {instead} instead"
        )


def _timeout_ms(worker: Worker, timeout: Duration | None) -> int | None:
    return worker.options.close_timeout if timeout is None else duration_ms("timeout", timeout)
