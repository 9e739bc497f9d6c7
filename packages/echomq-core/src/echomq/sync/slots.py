"""The jobs a blocking worker holds: each in a thread, from the take to the stored result.

What an outcome means is decided by :mod:`echomq.scheduling`; here it is only
carried out. A job is released exactly once, whatever its thread does: one that
does not end when it should is reported, or given back, behind its back.

Source: protocol spec 05 sections 4.5 and 4.7.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextvars import Context as Variables
from contextvars import copy_context
from typing import Any, TypeVar

import attrs

from echomq.call import Command, ScriptCall
from echomq.calls.fetch import Take
from echomq.chance import dice
from echomq.clock import local_zone, wall_ms
from echomq.complaints import log_failure
from echomq.driver import Connection
from echomq.errors import (
    JobTimedOut,
    ProtocolError,
    ScriptError,
    ServerRefused,
    UsageError,
)
from echomq.job import Job
from echomq.options import WorkerOptions
from echomq.scheduling.attempts import came_late, follow_up, keep
from echomq.scheduling.messages import Reported
from echomq.scheduling.outcome import (
    Completed,
    HandedBack,
    Outcome,
    failure_of,
    left_of_limit_s,
    of_error,
    of_result,
    of_unknown_backoff,
    refusal,
    time_limit_ms,
)
from echomq.scheduling.settling import Settled, insistently, settle
from echomq.signals import JobCancelled, Unrecoverable

from .context import Context
from .cutting import last_words
from .errands import Later
from .held import Held
from .insisting import Insisting
from .processing import JobRunner
from .stopping import GRACE_S, Detached, attempt, detach, stop

__all__ = ["Slots"]

T = TypeVar("T")


@attrs.define(eq=False, kw_only=True)
class Slots:
    """The jobs of one run of a worker.

    Attributes:
        connection: For all calls but the blocking ones; shared by all threads.
        options: The worker's.
        run: The user's function.
        room_for: Tells how many jobs may come along when so many end.
        tell: Calls the listeners of a local event.
        complain: Told about errors that are not the job's.
        answered: Told when the server has answered a report.
        left_ms: Tells how long running jobs may go on.
        later: Calls a function after so many seconds, unless that is cancelled.
        go_on: Lets another thread work on a job.
        shared: What the lifespan gave to all jobs.
        held: The jobs; a dict for its order, and because copying it is safe in any thread.
        insisting: Carries their calls through outages.
    """

    connection: Connection
    options: WorkerOptions
    run: JobRunner
    room_for: Callable[[int], int]
    tell: Callable[..., None]
    complain: Callable[[BaseException], None]
    answered: Callable[[], None]
    left_ms: Callable[[], int | None]
    later: Callable[[float, Callable[[], object]], Later]
    go_on: Callable[[Held], None]
    shared: Any = None
    held: dict[Held, None] = attrs.field(init=False, factory=dict)
    insisting: Insisting = attrs.field(init=False)
    _changed: threading.Condition = attrs.field(init=False, factory=threading.Condition)
    _variables: Variables = attrs.field(init=False, factory=copy_context)
    """Context variables of the start, so that no job sees those of another."""

    def __attrs_post_init__(self) -> None:
        self.insisting = Insisting(self.connection, self.complain, self._changed)

    # -- a job's life ---------------------------------------------------------------------------

    def hold(self, job: Job, take: Take, outcome: Outcome | None = None) -> Held:
        """Take a job in; :meth:`work` processes it, or only reports the outcome that is given."""
        held = Held(job, take, Context(job, take.token, self), outcome)
        held.over = outcome is not None
        with self._changed:
            self.held[held] = None
        return held

    def release(self, held: Held) -> bool:
        """Let go of a job; False if it was let go of before."""
        with self._changed:
            known = held in self.held
            self.held.pop(held, None)
            self._changed.notify_all()
        return known

    def work(self, held: Held) -> Outcome | None:
        """Process a job in the present thread; raises nothing.

        Returns:
            How it ended; None if another thread has reported it meanwhile.
        """
        held.thread = threading.get_ident()
        try:
            outcome = held.outcome or self._attempt(held)
        except Detached:
            return None
        except BaseException as error:  # noqa: BLE001  # whatever it is, the slot must be free again
            self.complain(error)
            outcome = of_unknown_backoff(held.job, error)
        held.outcome = outcome
        return outcome

    def report(self, held: Held, outcome: Outcome, *, is_repeated: bool = False) -> Settled:
        """Report how a job ended, and tell the listeners; raises nothing.

        Args:
            held: The job.
            outcome: How.
            is_repeated: A batch may have reported it already.
        """
        settled = Settled()
        try:
            settled = self._settle(held, outcome, is_repeated=is_repeated)
            if settled.refused is not None:
                held.untold = settled.refused
                outcome = self._judge(held.job, settled.refused)
                settled = self._settle(held, outcome)
            self.announce(held, outcome, settled)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the slot must be free again
            held.untold = error
            if not held.given_up.is_set():
                self.complain(error)
        return settled

    def released(self, held: Held, settled: Settled) -> Reported:
        """Return what a released slot tells the mind."""
        return Reported(held.take, settled.taken, wall_ms(), settled.limited_ms, settled.stray)

    def _attempt(self, held: Held) -> Outcome:
        job = held.job
        try:
            if came_late(job, held.take, wall_ms()) and not self._keeps(held):
                return HandedBack()
            self._follow_up(held)
            self.tell("active", job)
            if why := refusal(job, self.options):
                raise Unrecoverable(why)
            self._set_limit(held)
            variables = self._variables.copy()
            return of_result(job, attempt(held, self._changed, lambda: variables.run(self.run, job, held.context)))
        except Detached:
            raise
        except BaseException as error:  # noqa: BLE001  # a job may raise anything, SystemExit too
            if held.cut and not held.lost:
                return HandedBack()
            held.over = True
            return self._judge(job, error)
        finally:
            if held.limit is not None:
                held.limit.cancel()

    def _keeps(self, held: Held) -> bool:
        """Ask for the lock of a job that came late; who cannot find out runs it."""
        try:
            kept = self.insisting.report(keep(held.job, held.take), held)
        except (ScriptError, ProtocolError, ServerRefused) as error:
            self.complain(error)
            kept = True
        if not kept:
            self._tell_lost(held)
        with self._changed:
            held.reporting = False
        return kept

    def _follow_up(self, held: Held) -> None:
        try:
            self.insisting.run(follow_up(held.job, wall_ms(), local_zone()), held.given_up)
        except (ScriptError, ProtocolError, ServerRefused) as error:
            self.complain(error)

    def _set_limit(self, held: Held) -> None:
        limit_ms = time_limit_ms(held.job, self.options)
        if limit_ms is not None:
            verdict = JobTimedOut(held.job.id, limit_ms)
            held.limit = self.later(limit_ms / 1000, lambda: self._at_limit(held, verdict))

    def _at_limit(self, held: Held, verdict: JobTimedOut) -> None:
        left_s = left_of_limit_s(held.context.began_at_s, verdict.timeout_ms, time.monotonic())
        if not left_s:
            self._stop(held, verdict)
        elif held.attempting:
            held.limit = self.later(left_s, lambda: self._at_limit(held, verdict))

    def _judge(self, job: Job, error: BaseException) -> Outcome:
        options = self.options
        try:
            return of_error(job, error, options=options, dice=dice(), strategies=options.backoff_strategies)
        except Exception as problem:  # noqa: BLE001  # a strategy may raise anything, and the job must go somewhere
            self.complain(problem)
            return of_unknown_backoff(job, error)

    def _settle(self, held: Held, outcome: Outcome, *, is_repeated: bool = False) -> Settled:
        if held.lost or held.given_up.is_set():
            return Settled()
        fetch = self.room_for(1) > 0
        plan = settle(
            held.job, outcome, held.take, self.options, fetch=fetch, now_ms=wall_ms(), is_repeated=is_repeated
        )
        return self.insisting.report(plan, held)

    def announce(self, held: Held, outcome: Outcome, settled: Settled) -> None:
        """Tell the listeners how a job ended; what was reported with others may be told by another thread."""
        held.thread = threading.get_ident()
        if held.given_up.is_set():
            return
        self.answered()
        if settled.lost is not None:
            self._tell_lost(held)
        if held.lost:
            return
        if type(outcome) is Completed:
            self.tell("completed", held.job, outcome.value)
        elif (error := failure_of(outcome)) is not None:
            log_failure(held.job, error)
            self.tell("failed", held.job, error)

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
        found = [held for held in list(self.held) if held.job.id == job_id and token in (None, held.token)]
        return any(self._stop(held, JobCancelled(reason or "cancelled")) for held in found)

    def _stop(self, held: Held, verdict: BaseException) -> bool:
        if not stop(held, self._changed, verdict):
            return False
        self.later(GRACE_S, lambda: self._detach(held))
        return True

    def _detach(self, held: Held) -> None:
        if held.verdict is not None and detach(held, self._changed):
            held.outcome = self._judge(held.job, held.verdict)
            self.go_on(held)

    def lost(self, held: Held) -> None:
        """Cancel a job whose lock is not ours any more; no result will be written.

        While it is being reported nothing is done: the report finds out by itself.
        """
        with self._changed:
            if held.reporting or held not in self.held:
                return
        self._tell_lost(held)

    def _tell_lost(self, held: Held) -> None:
        with self._changed:
            if held.lost or held.given_up.is_set():
                return
            held.lost = True
        self.tell("lock_lost", held.job.id, self.options.name)
        held.context.cancel()

    def cut(self, released: Callable[[Held], None]) -> None:
        """End all jobs now: ask them to, and give back those that do not end; see :mod:`echomq.sync.cutting`.

        Args:
            released: Told each that did not.
        """
        with self._changed:
            running = [held for held in self.held if not held.cut]
            for held in running:
                held.cut = True
                if not held.reporting:
                    held.context.cancel()
            self._changed.wait_for(lambda: not any(held in self.held for held in running), GRACE_S)
            left = [held for held in running if held in self.held]
            for held in left:
                held.given_up.set()
        last_words(self.connection, [held for held in left if not held.lost], self.options, self.complain)
        for held in left:
            released(held)

    def idle(self) -> None:
        """Wait until no job is held."""
        with self._changed:
            self._changed.wait_for(lambda: not self.held)

    # -- calls ----------------------------------------------------------------------------------

    def send_for_job(self, context: Context, call: ScriptCall[T] | Command[T]) -> T | None:
        """See :class:`~echomq.sync.context.Host`."""
        held = next((held for held in list(self.held) if held.context is context), None)
        if held is None or held.detached:
            raise UsageError(f"this attempt of job {context.job.id} is over; nothing it does counts any more")
        plan: Generator[Any, Any, tuple[T | None, bool]] = insistently(call)
        reply, _ = self.insisting.run(plan, held.given_up)
        return reply

    def time_left_ms(self) -> int | None:
        """See :class:`~echomq.sync.context.Host`."""
        return self.left_ms()
