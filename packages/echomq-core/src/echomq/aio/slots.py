"""The jobs a worker holds: each in a task of its own, from the take to its outcome, and on to the stored result.

What an outcome means is decided by :mod:`echomq.scheduling`; here it is only
carried out. A job is released exactly once, whatever happens to its task.

Source: protocol spec 05 sections 4.5 and 4.7.
"""

import asyncio
import contextlib
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from typing import Any, TypeVar

import attrs

from echomq.call import Command, ScriptCall
from echomq.calls.batches import Found, Terms
from echomq.calls.fetch import Take, move_job_from_active_to_wait
from echomq.clock import local_zone, wall_ms
from echomq.complaints import log_failure
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError, ProtocolError, ScriptError, ServerRefused
from echomq.job import Job
from echomq.options import Keep, WorkerOptions
from echomq.scheduling.attempts import came_late, follow_up, keep
from echomq.scheduling.batching import reported_together
from echomq.scheduling.messages import Reported, ReportedTogether
from echomq.scheduling.outcome import (
    Completed,
    HandedBack,
    Outcome,
    failure_of,
    of_result,
    refusal,
    time_limit_ms,
)
from echomq.scheduling.settling import Settled, insistently, settle
from echomq.signals import JobCancelled, Unrecoverable

from .batches import Batches
from .held import Held
from .insisting import Insisting
from .judging import judged
from .processing import JobRunner
from .stopping import attempt, stop

__all__ = ["Slots"]

T = TypeVar("T")

_GRACE_S = 0.5
"""How long a cancelled job may take to end before it is given back behind its back."""

_TURNS_TO_CUT = 3
"""Turns of the loop from the cancellation of a run until its jobs are marked as cut."""

_LAST_WORD_MS = 1_000
"""How long a job that does not end is tried to be given back."""


@attrs.define(eq=False, kw_only=True)
class Slots:
    """The jobs of one run of a worker.

    Attributes:
        connection: For all calls but the blocking ones.
        options: The worker's.
        processing: Runs the user's function.
        terms: How jobs are taken and ended, for each rule of keeping them.
        room_for: Tells how many jobs may come along when so many end.
        released: Told when a slot has got rid of its job.
        tell: Calls the listeners of a local event.
        complain: Told about errors that are not the job's.
        answered: Told when the server has answered a report.
        left_ms: Tells how long running jobs may go on.
        shared: What the lifespan gave to all jobs.
        held: The jobs; a dict for its order, and because copying it is safe in any thread.
    """

    connection: AsyncConnection
    options: WorkerOptions
    processing: JobRunner
    terms: Callable[[Keep | None], Terms]
    room_for: Callable[[int], int]
    released: Callable[[Reported | ReportedTogether], None]
    tell: Callable[..., None]
    complain: Callable[[BaseException], None]
    answered: Callable[[], None]
    left_ms: Callable[[], int | None]
    shared: Any = None
    held: dict[Held, None] = attrs.field(init=False, factory=dict)
    batches: Batches = attrs.field(init=False)
    _insisting: Insisting = attrs.field(init=False)
    spawn: "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]" = attrs.field(init=False)
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _thread: int = attrs.field(init=False, factory=threading.get_ident)

    def __attrs_post_init__(self) -> None:
        """Remember the context variables of here, so that no job sees those of another."""
        self.spawn = _spawner()
        self._insisting = Insisting(self.connection, self.complain)
        self.batches = Batches(slots=self, connection=self.connection, terms=self.terms, room_for=self.room_for)

    # -- a job's life ---------------------------------------------------------------------------

    def start(self, job: Job, take: Take, outcome: Outcome | None = None) -> None:
        """Process a job and report how it ended; with an outcome given, only report that."""
        held = self._hold(job, take, time.monotonic())
        held.is_late, held.over = came_late(job, take, wall_ms()), outcome is not None
        task = self.spawn(self._work(held) if outcome is None else self.report(held, outcome))
        if held.task is None:
            held.task = task

    def start_all(self, found: Sequence[tuple[Job, Take]]) -> None:
        """Process jobs that one call has taken, and report how each of them ended."""
        now_s, spawn = time.monotonic(), self.spawn
        is_late = came_late(*found[0], wall_ms())
        for job, take in found:
            held = self._hold(job, take, now_s)
            if is_late:
                held.is_late = True
            task = spawn(self._work(held))
            if held.task is None:  # else the task was eager, and has passed the job on
                held.task = task

    def _hold(self, job: Job, take: Take, now_s: float) -> Held:
        held = Held(job, take, self.processing.context(job, take.token, self), now_s)
        self.held[held] = None
        return held

    async def _work(self, held: Held) -> None:
        job, outcome = held.job, None
        try:
            if held.is_late and not await self._keeps(held):
                return
            if job.scheduler_id is not None:
                await self._follow_up(job)
            self.tell("active", job)
            if why := refusal(job, self.options):
                raise Unrecoverable(why)
            outcome = of_result(job, await attempt(held, self.processing, time_limit_ms(job, self.options)))
        except BaseException as error:  # a job may raise anything, CancelledError and SystemExit too
            if isinstance(error, KeyboardInterrupt) or not _is_alive(held):
                raise
            outcome = await self._failed(held, error)
        finally:
            if outcome is None:
                self.release(held, Settled())
        if not self.batches.join(held, outcome):
            await self.report(held, outcome)

    async def report(self, held: Held, outcome: Outcome, *, is_repeated: bool = False) -> None:
        """Report how a job ended, and release it.

        Args:
            held: The job.
            outcome: How.
            is_repeated: A batch may have reported it already.
        """
        settled = Settled()
        try:
            settled = await self._settle(held, outcome, is_repeated=is_repeated)
            if settled.refused is not None:
                held.untold = settled.refused
                outcome = await judged(held.job, settled.refused, self.options, self.complain)
                settled = await self._settle(held, outcome)
            if not held.given_up:
                self.answered()
                self.announce(held, outcome, settled)
        except EchoMQError as error:
            held.untold = error
            self.complain(error)
        except asyncio.CancelledError:
            if not (held.lost or held.given_up):
                raise
        finally:
            self.release(held, settled)

    async def _failed(self, held: Held, error: BaseException) -> Outcome:
        if isinstance(error, asyncio.CancelledError):
            await _until_all_heard()
        if held.cut and not held.lost:
            return HandedBack()
        held.over = True
        return await judged(held.job, error, self.options, self.complain)

    async def _keeps(self, held: Held) -> bool:
        """Ask for the lock of a job that came late; who cannot find out runs it."""
        try:
            kept = await self._insisting.run(keep(held.job, held.take), held)
        except (ScriptError, ProtocolError, ServerRefused) as error:
            self.complain(error)
            kept = True
        if not kept:
            self.lost(held)
        held.reporting = False
        return kept

    async def _follow_up(self, job: Job) -> None:
        """Let a scheduler make the job after this one; its refusal is no reason not to do this one."""
        try:
            await self._insisting.run(follow_up(job, wall_ms(), local_zone()))
        except (ScriptError, ProtocolError, ServerRefused) as error:
            self.complain(error)

    async def _settle(self, held: Held, outcome: Outcome, *, is_repeated: bool = False) -> Settled:
        if held.lost or held.given_up:
            return Settled()
        fetch = self.room_for(1) > 0
        plan = settle(
            held.job, outcome, held.take, self.options, fetch=fetch, now_ms=wall_ms(), is_repeated=is_repeated
        )
        return await self._insisting.run(plan, held)

    def announce(self, held: Held, outcome: Outcome, settled: Settled) -> None:
        """Tell the listeners how a job ended."""
        if settled.lost is not None:
            self.lost(held)
        if held.lost:
            return
        if type(outcome) is Completed:
            self.tell_completed(held, outcome)
        elif (error := failure_of(outcome)) is not None:
            log_failure(held.job, error)
            self.tell("failed", held.job, error)

    def tell_completed(self, held: Held, outcome: Completed) -> None:
        """Tell the listeners that the result of a job is stored."""
        if not held.lost:
            self.tell("completed", held.job, outcome.value)

    def release(self, held: Held, settled: Settled) -> None:
        """Let go of a job, and start the one that came along; nothing if it was let go of before."""
        if held in self.held:
            del self.held[held]
            self.released(Reported(held.take, settled.taken, wall_ms(), settled.limited_ms, settled.stray))

    def release_all(self, stored: Sequence[Held], found: Found) -> None:
        """Let go of jobs whose results one call has stored, and start those that came along."""
        held = self.held
        known = [one for one in stored if one in held]
        for one in known:
            del held[one]
        self.released(reported_together(len(known), [one.take for one in stored], found, wall_ms()))

    # -- what goes wrong ------------------------------------------------------------------------

    def cancel(self, job_id: str, reason: str | None = None, token: str | None = None) -> bool:
        """Stop a job and let it fail for good.

        Args:
            job_id: The job.
            reason: What it fails with.
            token: Of its lock; None: whatever it is.

        Returns:
            Whether it is here and its code has not ended.
        """
        held = next((held for held in self.held if held.job.id == job_id and token in (None, held.token)), None)
        return held is not None and stop(held, JobCancelled(reason or "cancelled"))

    def lost(self, held: Held) -> None:
        """Cancel a job whose lock is not ours any more; no result will be written."""
        if held.lost or held.given_up or held not in self.held:
            return
        held.lost = True
        self.tell("lock_lost", held.job.id, self.options.name)
        if not held.reporting:
            held.interrupt()

    async def cut(self) -> None:
        """End all jobs now: cancel them, and give back those that do not end."""
        running = [held for held in self.held if not held.cut]
        for held in running:
            held.cut = True
            if not held.reporting:
                held.interrupt()
        tasks = [held.task for held in running if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=_GRACE_S)
        await asyncio.gather(*(self._give_up(held) for held in running if held in self.held))

    async def _give_up(self, held: Held) -> None:
        held.given_up = True
        try:
            if not held.reporting and not held.lost:
                call = move_job_from_active_to_wait(held.job.keys, held.job.id, held.take.token)
                await self.connection.send(call, deadline_ms=_LAST_WORD_MS)
        except EchoMQError as error:
            self.complain(error)
        finally:
            if held.task is not None:
                held.task.cancel()
            self.release(held, Settled())

    async def idle(self) -> None:
        """Wait until no job is held."""
        while tasks := [held.task for held in self.held if held.task is not None]:
            await asyncio.wait(tasks)

    # -- for the context of a job -----------------------------------------------------------------

    async def send_for_job(self, call: ScriptCall[T] | Command[T]) -> T | None:
        """See :class:`~echomq.aio.context.Host`."""
        reply: T | None
        reply, _ = await self._insisting.run(insistently(call))
        return reply

    def in_loop(self, function: Callable[..., object], *args: Any) -> None:
        """See :class:`~echomq.aio.context.Host`."""
        if threading.get_ident() == self._thread:
            function(*args)
        else:
            self._loop.call_soon_threadsafe(function, *args)

    def time_left_ms(self) -> int | None:
        """See :class:`~echomq.aio.context.Host`."""
        return self.left_ms()


def _spawner() -> "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]":
    """Return a way to start tasks that all begin with the context variables of now."""
    loop, base = asyncio.get_running_loop(), copy_context()
    # A copy each time: a loop with eager tasks would enter one and the same context twice.
    if sys.version_info >= (3, 11):
        return lambda work: loop.create_task(work, context=base.copy())
    return lambda work: base.copy().run(loop.create_task, work)


def _is_alive(held: Held) -> bool:
    """Tell whether a job's task goes on; a coroutine that is thrown away must not wait for anything any more."""
    try:
        return held.task is None or asyncio.current_task() is held.task
    except RuntimeError:  # no loop runs
        return False


async def _until_all_heard() -> None:
    """Let the worker hear of a cancellation, too: a program that ends cancels all tasks, in any order."""
    for _ in range(_TURNS_TO_CUT):
        with contextlib.suppress(asyncio.CancelledError):  # the worker has heard, and cuts this job
            await asyncio.sleep(0)
