"""What its host, or a job, may want of an asyncio worker: to cancel, to pause, to end.

Methods of :class:`~echomq.Worker`. All may be called before a run, while it lasts
and after it, and in other threads; where one would have to wait for what waits for
itself, it says so at once.

Source: design.md section 5.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from echomq.errors import UsageError
from echomq.moments import duration_ms
from echomq.scheduling import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from echomq.moments import Duration

    from .slots import Slots
    from .worker import Worker

__all__ = [
    "cancel",
    "cancel_all",
    "close",
    "interrupted",
    "pause",
    "refuse_to_close",
    "refuse_to_wait",
    "resume",
    "stop",
    "tell",
    "tell_end_of_fetching",
]

T = TypeVar("T")

_ANSWER_S = 5.0
"""How long another thread waits for the worker's loop; one that nothing blocks answers in a moment."""


def cancel(self: Worker, job_id: str, reason: str | None = None) -> bool:
    """Stop a job that this worker runs, and let it fail for good, whatever attempts are left.

    A coroutine is cancelled, a thread finds ``ctx.cancelled`` set, a process is killed.
    :meth:`Queue.cancel <echomq.Queue.cancel>` does the same from any process. In another thread than
    that of the worker's event loop, this waits for the loop to do it.

    Args:
        job_id: The job.
        reason: What it fails with; None: "cancelled".

    Returns:
        False if it does not run here, or its code has ended already.

    Raises:
        UsageError: Called in another thread, while something blocks the event loop; nothing was cancelled.
    """
    return _asked(self, lambda slots: slots.cancel(job_id, reason), nobody=False)


def cancel_all(self: Worker, reason: str | None = None) -> int:
    """Stop all jobs that this worker runs, as :meth:`cancel` does; returns how many."""
    return _asked(self, lambda slots: sum(slots.cancel(job.job_id, reason) for job in list(slots.held)), nobody=0)


def stop(self: Worker, timeout: Duration | None = None) -> None:
    """Begin to close, and return at once; safe in listeners and jobs, in signal handlers and in other threads.

    Where no run is under way, the next one ends at once.

    Args:
        timeout: As :meth:`close`.
    """
    _end_soon(self, messages.Closed(_timeout_ms(self, timeout)))


async def close(self: Worker, timeout: Duration | None = None) -> None:
    """Take no more jobs, let running ones end and store their results, then let go of the server.

    A run that has not begun, as one whose task was only just made, ends at once. Twice does no harm.

    Args:
        timeout: Longest wait for running jobs, in ms or as ``timedelta``. What has not ended then is
            cancelled and given back to wait at once, without using an attempt; a thread cannot be
            stopped, so it is only asked to end. None: the option ``close_timeout``.

    Raises:
        UsageError: A job of this worker calls it, or a listener, and would wait for itself; or the worker
            runs in another event loop; use :meth:`stop`.
        Exception: Where jobs are fetched by hand, what ended the work behind the scenes, as an error of the
            lifespan, if no fetch has raised it.
    """
    closed = messages.Closed(_timeout_ms(self, timeout))
    shift, gone, fetching = self._shift, self._gone, self._fetching
    if shift is not None and gone is not None:
        refuse_to_close(self, "worker.stop()")
        self._is_closed = True
        shift.happened(closed)
        await gone.wait()
    elif not self._is_closed:
        self._is_closed = True
        _end_soon(self, closed)
    if fetching is not None and fetching.get_loop() is _running_loop() and fetching is not asyncio.current_task():
        await asyncio.wait((fetching,))
    tell_end_of_fetching(self)


async def pause(self: Worker, *, wait: bool = True) -> None:
    """Take no jobs in this worker until :meth:`resume`; other workers go on.

    Args:
        wait: Return when the running jobs have ended. False also works in jobs and in other threads.

    Raises:
        UsageError: It would wait for the job that calls it, or in another event loop than the worker's.
    """
    shift = self._shift
    if wait:
        refuse_to_wait(self, "pause", "worker.pause(wait=False)")
    self._is_paused = True
    if shift is not None and self._loop is _running_loop():
        shift.happened(messages.Paused())
    else:
        tell(self, messages.Paused())
    if shift is not None and wait:
        await shift.slots.idle()
    _announce(self, "paused")


def resume(self: Worker) -> None:
    """Take jobs again; safe in other threads."""
    self._is_paused = False
    tell(self, messages.Resumed())
    _announce(self, "resumed")


def interrupted(worker: Worker, force: bool) -> None:
    """End at a signal; what :mod:`~echomq.aio.interrupts` calls in the loop."""
    closed = messages.Closed(0 if force else worker.options.close_timeout)
    if worker._shift is not None:
        worker._shift.happened(closed)
    else:  # the lifespan is being entered
        worker._wish = closed
    if force and worker._in_lifespan and worker._runner is not None:
        worker._runner.cancel()  # of a lifespan that hangs nobody knows how long it will


def tell(worker: Worker, event: messages.Happened) -> None:
    """Tell the run that is under way, if one is, in any thread, and between any two steps of the loop's own."""
    shift = worker._shift
    if shift is not None:
        _in_loop(worker, shift.happened, event)


def tell_end_of_fetching(worker: Worker) -> None:
    """Raise what ended the work behind the scenes of :meth:`Worker.fetch`, if it has ended and nobody was told."""
    fetching = worker._fetching
    if fetching is not None and fetching.done():
        worker._fetching = None
        if not fetching.cancelled():
            fetching.result()


def refuse_to_close(worker: Worker, instead: str) -> None:
    """Refuse to wait for the end of a run where that would never come.

    Args:
        worker: Whose run.
        instead: What to call.

    Raises:
        UsageError: As :func:`close`.
    """
    if worker._listeners.is_calling(asyncio.current_task()):
        raise UsageError(f"a listener cannot wait for its own worker to close; call {instead} instead")
    refuse_to_wait(worker, "close", instead)


def refuse_to_wait(worker: Worker, what: str, instead: str) -> None:
    """Refuse to wait for the jobs of a run where they would wait in turn.

    Args:
        worker: Whose run.
        what: What was called.
        instead: What to call.

    Raises:
        UsageError: One of the jobs does so, or the worker runs in another event loop.
    """
    shift = worker._shift
    if shift is None:
        return
    if any(held.task is asyncio.current_task() for held in list(shift.slots.held)):
        raise UsageError(f"a job cannot wait for its own worker to {what}; call {instead} instead")
    if worker._runner is asyncio.current_task():
        raise UsageError(f"a lifespan cannot wait for its own worker to {what}; call {instead} instead")
    if worker._loop is not asyncio.get_running_loop():
        raise UsageError(
            f"the worker runs in another event loop, where it can be waited for to {what}; call {instead} here"
        )


def _end_soon(worker: Worker, closed: messages.Closed) -> None:
    """End the run, or the next one if none is under way."""
    worker._wish = closed  # before the look: a run that begins now has read it, or is seen here
    shift = worker._shift
    if shift is not None:
        worker._wish = None
        _in_loop(worker, shift.happened, closed)


def _announce(worker: Worker, event: str) -> None:
    if worker._shift is None:
        worker._listeners.call(event)
    else:
        _in_loop(worker, worker._listeners.call, event)


def _in_loop(worker: Worker, call: Callable[..., None], *args: Any) -> None:
    """Call something where the worker runs, between two steps of its own, whatever thread or signal handler this is."""
    loop = worker._loop
    if loop is not None:
        with suppress(RuntimeError):  # the loop was closed, and whatever worked there has ended
            loop.call_soon_threadsafe(call, *args)


def _asked(worker: Worker, question: Callable[[Slots], T], nobody: T) -> T:
    """Ask about the jobs of the run under way, in its loop.

    Args:
        worker: Whose.
        question: What.
        nobody: The answer when no run is under way.
    """
    shift, loop = worker._shift, worker._loop
    if shift is None or loop is None or not shift.slots.held:
        return nobody
    if loop is _running_loop():
        return question(shift.slots)
    answer: Future[T] = Future()

    def ask() -> None:
        if not answer.set_running_or_notify_cancel():
            return  # who asked has given up
        try:
            answer.set_result(question(shift.slots))
        except BaseException as error:  # noqa: BLE001  # raised again where it was asked
            answer.set_exception(error)

    _in_loop(worker, ask)
    until_s = time.monotonic() + _ANSWER_S
    while not wait((answer,), 0.1).done and time.monotonic() < until_s:
        if loop.is_closed():
            return nobody
    if answer.cancel():
        raise UsageError(
            f"the event loop of the worker of queue {worker.keys.queue!r} has not answered for {_ANSWER_S:.0f} s, so "
            "nothing was cancelled: a job or a listener blocks it"
        )
    return answer.result()


def _timeout_ms(worker: Worker, timeout: Duration | None) -> int | None:
    return worker.options.close_timeout if timeout is None else duration_ms("timeout", timeout)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # a thread without one
        return None
