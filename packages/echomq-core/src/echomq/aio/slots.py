"""The jobs a worker holds: each in a task of its own, from the take to its outcome, and on to the stored result.

What an outcome means is decided by :mod:`echomq.scheduling`; here it is only
carried out. A job is released exactly once, whatever happens to its task.

Source: protocol spec 05 sections 4.5 and 4.7.
"""

import asyncio
import contextlib
import inspect
import random
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from typing import Any, TypeVar, cast

import attrs

from echomq.call import Command, ScriptCall
from echomq.calls.batches import Terms
from echomq.calls.fetch import Take, move_job_from_active_to_wait
from echomq.clock import local_zone, wall_ms
from echomq.complaints import log_failure
from echomq.driver import AsyncConnection
from echomq.errors import ConnectionLost, EchoMQError, ProtocolError, ScriptError, ServerRefused
from echomq.job import Job
from echomq.options import Keep, WorkerOptions
from echomq.scheduling.attempts import came_late, follow_up, keep
from echomq.scheduling.messages import Reported
from echomq.scheduling.outcome import (
    Completed,
    HandedBack,
    Outcome,
    failure_of,
    has_attempt_left,
    of_error,
    of_result,
    of_unknown_backoff,
    refusal,
    time_limit_ms,
)
from echomq.scheduling.settling import Settled, SitOut, insistently, settle
from echomq.scheduling.timing import pause_ms
from echomq.signals import JobCancelled, Unrecoverable

from .batches import Batches
from .context import Context, ThreadContext
from .processing import JobRunner
from .stopping import attempt, stop

__all__ = ["Held", "Slots"]

T = TypeVar("T")

_GRACE_S = 0.5
"""How long a cancelled job may take to end before it is given back behind its back."""

_TURNS_TO_CUT = 3
"""Turns of the loop from the cancellation of a run until its jobs are marked as cut."""

_LAST_WORD_MS = 1_000
"""How long a job that does not end is tried to be given back."""


@attrs.define(eq=False)
class Held:
    """A job of ours; also the :class:`~echomq.sync.renewal.Lease` of its lock.

    Attributes:
        job: The job.
        take: How it was taken.
        context: Its ``ctx``.
        renewed_at_s: When the lock was taken or renewed, on the monotonic clock.
        task: What works on it.
        reporting: A call that releases the lock is under way.
        lost: The lock is not ours any more.
        cut: The worker closes and does not wait longer.
        given_up: The slot is released already; whatever its task does has no effect.
        attempting: Its code runs.
        over: Its code has ended, or will not be run.
        verdict: What the attempt fails with because it was told to stop.
        untold: Why its end is not stored as it was told.
    """

    job: Job
    take: Take
    context: Context | ThreadContext
    renewed_at_s: float
    task: "asyncio.Task[None] | None" = None
    reporting: bool = False
    lost: bool = False
    cut: bool = False
    given_up: bool = False
    attempting: bool = False
    over: bool = False
    verdict: BaseException | None = None
    untold: BaseException | None = None

    @property
    def job_id(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.job.id

    @property
    def token(self) -> str:
        """See :class:`~echomq.sync.renewal.Lease`."""
        return self.take.token

    def interrupt(self) -> None:
        """Cancel a coroutine; ask a thread to end."""
        self.context.cancel()
        if self.task is not None and not isinstance(self.context, ThreadContext):
            self.task.cancel()


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
    released: Callable[[Reported], None]
    tell: Callable[..., None]
    complain: Callable[[BaseException], None]
    answered: Callable[[], None]
    left_ms: Callable[[], int | None]
    shared: Any = None
    held: dict[Held, None] = attrs.field(init=False, factory=dict)
    batches: Batches = attrs.field(init=False)
    spawn: "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]" = attrs.field(init=False)
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _thread: int = attrs.field(init=False, factory=threading.get_ident)

    def __attrs_post_init__(self) -> None:
        """Remember the context variables of here, so that no job sees those of another."""
        self.spawn = _spawner()
        self.batches = Batches(slots=self, connection=self.connection, terms=self.terms, room_for=self.room_for)

    # -- a job's life ---------------------------------------------------------------------------

    def start(self, job: Job, take: Take, outcome: Outcome | None = None) -> None:
        """Process a job and report how it ended; with an outcome given, only report that."""
        held = Held(job, take, self.processing.context(job, take.token, self), time.monotonic())
        held.over = outcome is not None
        self.held[held] = None
        held.task = self.spawn(self._work(held) if outcome is None else self.report(held, outcome))

    async def _work(self, held: Held) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._attempt(held)
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
                outcome = await self._judge(held.job, settled.refused)
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

    async def _attempt(self, held: Held) -> Outcome:
        job = held.job
        try:
            if came_late(job, held.take, wall_ms()) and not await self._keeps(held):
                return HandedBack()
            if job.scheduler_id is not None:
                await self._follow_up(job)
            self.tell("active", job)
            if why := refusal(job, self.options):
                raise Unrecoverable(why)
            return of_result(job, await attempt(held, self.processing, time_limit_ms(job, self.options)))
        except BaseException as error:  # a job may raise anything, CancelledError and SystemExit too
            if isinstance(error, KeyboardInterrupt) or not _is_alive(held):
                raise
            if isinstance(error, asyncio.CancelledError):
                await _until_all_heard()
            if held.cut and not held.lost:
                return HandedBack()
            held.over = True
            return await self._judge(job, error)

    async def _keeps(self, held: Held) -> bool:
        """Ask for the lock of a job that came late; who cannot find out runs it."""
        try:
            kept = await self._insist(keep(held.job, held.take), held)
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
            await self._insist(follow_up(job, wall_ms(), local_zone()))
        except (ScriptError, ProtocolError, ServerRefused) as error:
            self.complain(error)

    async def _judge(self, job: Job, error: BaseException) -> Outcome:
        try:
            strategies = await self._asked_strategy(job, error)
            return of_error(job, error, options=self.options, dice=_dice(), strategies=strategies)
        except Exception as problem:  # noqa: BLE001  # a strategy may raise anything, and the job must go somewhere
            self.complain(problem)
            return of_unknown_backoff(job, error)

    async def _asked_strategy(self, job: Job, error: BaseException) -> "dict[str, Callable[..., int]]":
        backoff = job.options.backoff
        strategy = self.options.backoff_strategies.get(backoff.type) if backoff else None
        if backoff is None or strategy is None or not has_attempt_left(job, error, self.options):
            return {}
        answer: Any = strategy(job.attempts_made + 1, backoff.type, error, job)
        if inspect.isawaitable(answer):
            answer = await answer
        return {backoff.type: lambda *_: answer}

    async def _settle(self, held: Held, outcome: Outcome, *, is_repeated: bool = False) -> Settled:
        if held.lost or held.given_up:
            return Settled()
        fetch = self.room_for(1) > 0
        plan = settle(
            held.job, outcome, held.take, self.options, fetch=fetch, now_ms=wall_ms(), is_repeated=is_repeated
        )
        return await self._insist(plan, held)

    def announce(self, held: Held, outcome: Outcome, settled: Settled) -> None:
        """Tell the listeners how a job ended."""
        if settled.lost is not None:
            self.lost(held)
        if held.lost:
            return
        if type(outcome) is Completed:
            self.tell("completed", held.job, outcome.value)
        elif (error := failure_of(outcome)) is not None:
            log_failure(held.job, error)
            self.tell("failed", held.job, error)

    def release(self, held: Held, settled: Settled) -> None:
        """Let go of a job, and start the one that came along; nothing if it was let go of before."""
        if held in self.held:
            del self.held[held]
            self.released(Reported(held.take, settled.taken, wall_ms(), settled.limited_ms, settled.stray))

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

    # -- calls ----------------------------------------------------------------------------------

    async def send_for_job(self, call: ScriptCall[T]) -> T | None:
        """See :class:`~echomq.aio.context.Host`."""
        reply: T | None
        reply, _ = await self._insist(insistently(call))
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

    async def _insist(
        self, plan: "Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, T]", held: Held | None = None
    ) -> T:
        """Run a plan to its end.

        Args:
            plan: What to send, and when to rest.
            held: The job whose report this is; what cancels the report then is only heard
                if we did it ourselves, since a job may leave a cancellation behind.
        """
        reply: Any = None
        error: EchoMQError | None = None
        while True:
            try:
                request = plan.send(reply) if error is None else plan.throw(error)
            except StopIteration as end:
                return cast("T", end.value)
            reply, error = None, None
            try:
                if isinstance(request, SitOut):
                    await self._sit_out(request, held)
                elif held is None:
                    reply = await self.connection.send(request)
                else:
                    held.reporting = True
                    reply = await self.connection.send(request)
            except EchoMQError as failure:
                error = failure
            except asyncio.CancelledError:
                if held is None or held.lost or held.given_up:
                    raise
                error = _Interrupted("the wait for the reply was cancelled", may_have_run=True)

    async def _sit_out(self, rest: SitOut, held: Held | None) -> None:
        if held is not None:
            held.reporting = False  # the lock is still ours, and has to be renewed
        if not isinstance(rest.error, _Interrupted):
            self.complain(rest.error)
        await asyncio.sleep(pause_ms(rest.failures, _dice()) / 1000)


class _Interrupted(ConnectionLost):
    """A job left a cancellation behind that met its report: nothing is wrong with the link."""


def _spawner() -> "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]":
    """Return a way to start tasks that all begin with the context variables of now."""
    loop, base = asyncio.get_running_loop(), copy_context()

    def spawn(work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        # A copy each time: a loop with eager tasks would enter one and the same context twice.
        return base.copy().run(loop.create_task, work)

    return spawn


def _is_alive(held: Held) -> bool:
    """Tell whether a job's task goes on; a coroutine that is thrown away must not wait for anything any more."""
    try:
        return asyncio.current_task() is held.task
    except RuntimeError:  # no loop runs
        return False


async def _until_all_heard() -> None:
    """Let the worker hear of a cancellation, too: a program that ends cancels all tasks, in any order."""
    for _ in range(_TURNS_TO_CUT):
        with contextlib.suppress(asyncio.CancelledError):  # the worker has heard, and cuts this job
            await asyncio.sleep(0)


def _dice() -> float:
    return random.random()  # noqa: S311  # spreads load, keeps no secret
