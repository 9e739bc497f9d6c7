"""One run of a blocking worker: performs the actions of ``step`` and tells it what happened.

The thread that runs the worker performs actions and keeps time; it never waits
for the server. What may take time (a take, the blocking read, a look for stalled
jobs, a job) is done by the threads that run jobs. A job's thread tells ``step`` how
it ended by itself, and goes on with the job that came along.

Source: design.md section 5; protocol spec 05 section 4.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from echomq.calls.locks import move_stalled_jobs_to_wait
from echomq.clock import mono_ms, wall_ms
from echomq.complaints import Complaints
from echomq.driver import Connection
from echomq.errors import ConnectionClosed, EchoMQError
from echomq.keys import Keys
from echomq.listening import Listening
from echomq.options import WorkerOptions
from echomq.presence import DEADLINE_MS, LAST_WORD_MS, Presence
from echomq.scheduling import messages
from echomq.scheduling.outcome import HandedBack
from echomq.scheduling.settling import Settled
from echomq.scheduling.state import Phase, WorkerState, opening_state
from echomq.scheduling.step import step
from echomq.scheduling.timing import alarm_at

from .control import Control
from .errands import Errand, Errands
from .fetching import Fetching
from .held import Held
from .processing import JobRunner
from .renewal import Lease, Renewal
from .slots import Slots
from .threads import Threads
from .turns import Access
from .waiting import Waiting

__all__ = ["Shift"]

_JOIN_S = 0.15
"""Longest wait for idle threads to end; one that is busy with a job that was given up is not waited for."""


@attrs.define(eq=False, kw_only=True)
class Shift:
    """One run.

    Attributes:
        keys: The queue.
        options: The worker's.
        run: The user's function.
        listening: Who listens to local events.
        connection: For all calls but the blocking ones.
        until_drained: Close when there is nothing to do.
        errands: Of the thread that runs the worker.
        turn: Who says when slots may be used; None: always.
        is_paused: Begin with taking nothing.
        shared: What the lifespan gave to all jobs.
        state: What the worker knows.
        slots: The jobs it holds.
        threads: Those that run jobs.
        thread: Id of the thread that runs the worker.
        is_over: Nothing is left to do.
        answered_at_s: When the server last answered, on the monotonic clock.
    """

    keys: Keys
    options: WorkerOptions
    run: JobRunner
    listening: Listening
    connection: Connection
    until_drained: bool
    errands: Errands
    turn: Access | None = None
    is_paused: bool = False
    shared: Any = None
    state: WorkerState = attrs.field(init=False)
    slots: Slots = attrs.field(init=False)
    threads: Threads = attrs.field(init=False)
    thread: int = attrs.field(init=False, factory=threading.get_ident)
    is_over: bool = attrs.field(init=False, default=False)
    answered_at_s: float = attrs.field(init=False, factory=time.monotonic)
    _mind: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _alarm_at: int = attrs.field(init=False, default=0)
    _complaints: Complaints = attrs.field(init=False)
    _fetching: Fetching = attrs.field(init=False)
    _waiting: Waiting = attrs.field(init=False)
    _renewal: Renewal = attrs.field(init=False)
    _control: Control = attrs.field(init=False)
    _presence: Presence = attrs.field(init=False)
    _perform: dict[type[Any], Callable[[Any], object]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Set the shift up; nothing is sent yet."""
        options = self.options
        self.state = opening_state(options, until_drained=self.until_drained, is_paused=self.is_paused)
        self._complaints = Complaints(self.keys.queue, self.listening)
        self.threads = Threads(f"echomq-job-{self.keys.queue}")
        self.slots = Slots(
            connection=self.connection,
            options=options,
            run=self.run,
            takes_more=self._takes_more,
            tell=self.listening.call,
            complain=self._complain,
            answered=self._answered,
            left_ms=self._left_ms,
            shared=self.shared,
            later=self.errands.add_later,
            go_on=self._start,
        )
        self._fetching = Fetching(
            keys=self.keys,
            options=options,
            connection=self.connection,
            start=self.threads.start,
            ended=self._fetched,
            held=self._held,
        )
        self._waiting = Waiting(
            keys=self.keys,
            name=options.name,
            connection=self.connection,
            start=self.threads.start,
            ended=self._waited,
            failed=lambda error, is_wanted: self._tell_if(is_wanted, messages.WaitFailed(error, _dice())),
            complain=self._complain,
        )
        self._renewal = self._make_renewal()
        self._presence = Presence(self.keys, options.name)
        self._control = Control(
            keys=self.keys,
            connect=self.connection.dedicated,
            slots=self.slots,
            later=self.errands.add_later,
            start=self.threads.start,
        )
        self._perform = {
            messages.Fetch: lambda action: self._fetch(action.count),
            messages.StopFetching: lambda _: self._fetching.stop(),
            messages.Adopt: lambda _: self._fetching.search(),
            messages.Wait: lambda action: self._waiting.wait(action.timeout_ms),
            messages.StopWaiting: lambda _: self._waiting.stop(is_last=self.state.phase is not Phase.OPEN),
            messages.CheckStalled: lambda _: self.threads.start(self._look_for_stalled),
            messages.Complain: lambda action: self._complaints.tell(action.error),
            messages.Announce: lambda action: self.listening.call(action.event),
            messages.Cut: lambda _: self.slots.cut(self._given_up),
            messages.Stop: self._stop,
        }

    # -- the thread that runs the worker ------------------------------------------------------------

    def begin(self) -> None:
        """Begin to work, unless the end was asked for before."""
        if self.state.phase is Phase.ENDED:
            return
        if not self.options.skip_lock_renewal:
            self._renewal.start()
        self._waiting.appear()
        self.happened(messages.Started())

    def alarm_s(self) -> float | None:
        """Return when :meth:`ring` is due if nothing happens before, on the monotonic clock."""
        with self._mind:
            self._alarm_at = at = alarm_at(self.state)
        return at / 1000 if at else None

    def ring(self) -> None:
        """Look at the clock."""
        self.happened(messages.Ticked())

    def force(self) -> None:
        """End now, and give back what runs."""
        self.happened(messages.Closed(0))

    @property
    def fatal(self) -> ConnectionClosed | None:
        """Why the run cannot go on."""
        return self._complaints.fatal

    def leave(self) -> None:
        """Let go of everything; jobs are done or given back by now."""
        self._control.close()
        self._renewal.stop()
        self.threads.close(_JOIN_S)
        if self._presence.is_told:
            with contextlib.suppress(EchoMQError):
                self.connection.send_batch(self._presence.leaving(), deadline_ms=LAST_WORD_MS)
        self._waiting.close()

    def _stop(self, _: messages.Stop) -> None:
        self.is_over = True

    # -- what any thread may call -------------------------------------------------------------------

    def is_own_thread(self) -> bool:
        """Tell whether the present thread runs the worker, or one of its jobs."""
        here = threading.get_ident()
        return here == self.thread or any(held.thread == here for held in list(self.slots.held))

    def post(self, errand: Errand) -> None:
        """Let the thread that runs the worker do this; safe in signal handlers too."""
        self.errands.add(errand)

    def happened(self, event: messages.Happened) -> None:
        """Tell ``step`` what happened; what it wants is done by the thread that runs the worker."""
        with self._mind:
            self._want(self._step(event))

    def _step(self, event: messages.Happened) -> tuple[messages.Action, ...]:
        """Decide, while this thread has ``_mind``."""
        before = self.state
        self.state, actions = step(before, event, mono_ms())
        if self.state is not before:
            at = alarm_at(self.state)
            if at and not 0 < self._alarm_at <= at:
                self.post(_awake)
            if self.turn is not None:
                self.turn.using(self.state.running, is_open=self.state.phase is Phase.OPEN)
        return actions

    def _want(self, actions: tuple[messages.Action, ...]) -> None:
        """Note what is to be done, in the order in which it was decided."""
        for action in actions:
            if isinstance(action, messages.Run | messages.GiveBack):
                # Held from now on: a search for strays must see each job that is known.
                self.post(partial(self._start, self._hold(action)))
            else:
                self.post(partial(self._perform[type(action)], action))

    def _complain(self, error: BaseException) -> None:
        self.post(partial(self._complaints.tell, error))

    def _answered(self) -> None:
        self.answered_at_s = time.monotonic()
        if self._complaints.in_outage:
            self.post(self._complaints.answered)

    def _left_ms(self) -> int | None:
        return max(0, self.state.cut_at - mono_ms()) if self.state.cut_at else None

    # -- jobs ---------------------------------------------------------------------------------------

    def _hold(self, action: messages.Run | messages.GiveBack) -> Held:
        self._control.started()
        return self.slots.hold(action.job, action.take, HandedBack() if isinstance(action, messages.GiveBack) else None)

    def _start(self, held: Held) -> None:
        self.threads.start(partial(self._work, held))

    def _work(self, held: Held | None) -> None:
        """Run a job, and those that its reports bring along."""
        while held is not None:
            settled = self.slots.work(held)
            if settled is None:
                return
            held = self._release(held, settled)

    def _release(self, held: Held, settled: Settled) -> Held | None:
        with self._mind:
            # At once with what follows: a search must see the slot with the old job or with the new one.
            if not self.slots.release(held):
                return None
            return self._take_over(self._step(self.slots.report(held, settled)))

    def _take_over(self, actions: tuple[messages.Action, ...]) -> Held | None:
        """Hold the job that is to be run first, for the present thread; the rest is for the other."""
        own: Held | None = None
        if actions and isinstance(actions[0], messages.Run):
            own = self._hold(actions[0])
            actions = actions[1:]
        self._want(actions)
        return own

    def _given_up(self, held: Held) -> None:
        with self._mind:
            if self.slots.release(held):
                self._want(self._step(messages.Reported(held.take, None, wall_ms())))

    # -- what step wants ----------------------------------------------------------------------------

    def _takes_more(self) -> bool:
        return self.state.takes_more and (self.turn is None or self.turn.has_room())

    def _fetch(self, count: int) -> None:
        turn = self.turn
        if turn is None:
            self._fetching.fetch(count)
        elif not turn.ask(count, lambda granted: self.post(partial(self._granted, turn, granted))):
            # Who waits for a turn sits on a marker, and other workers of the queue may have slots.
            self._waiting.wake_others()

    def _granted(self, turn: Access, count: int) -> None:
        if count and self.state.phase is Phase.OPEN and not self.state.paused:
            self._fetching.fetch(count)
            return
        self.happened(messages.NotFetched())
        turn.fetched()

    def _fetched(self, event: messages.Happened, is_wanted: Callable[[], bool]) -> None:
        if not isinstance(event, messages.Failed):
            self._answered()
        with self._mind:
            if not is_wanted():
                return
            own = self._take_over(self._step(event))
        if self.turn is not None:
            self.turn.fetched()
        self._work(own)

    def _held(self) -> tuple[set[str], set[str]]:
        with self._mind:
            held = list(self.slots.held)
        return {one.job.id for one in held}, {one.token for one in held}

    def _waited(self, marked: messages.Marked, is_wanted: Callable[[], bool]) -> None:
        self._answered()
        self._tell_if(is_wanted, marked)

    def _tell_if(self, is_wanted: Callable[[], bool], event: messages.Happened) -> None:
        with self._mind:
            if is_wanted():
                self._want(self._step(event))

    def _look_for_stalled(self) -> None:
        options = self.options
        call = move_stalled_jobs_to_wait(self.keys, options.max_stalled_count, options.stalled_interval, wall_ms())
        try:
            for job_id in self.connection.send(call):
                self.post(partial(self.listening.call, "stalled", job_id))
        except EchoMQError as error:
            self._complain(error)
        self.happened(messages.StalledChecked())

    # -- the thread that renews locks ---------------------------------------------------------------

    def _make_renewal(self) -> Renewal:
        return Renewal(
            keys=self.keys,
            connection=self.connection.dedicated(),
            lock_ms=self.options.lock_duration,
            held=lambda: [held for held in list(self.slots.held) if not held.lost],
            lost=lambda lease: self.post(partial(self._lost, lease)),
            renewed=lambda ids: self.post(partial(self._renewed, ids)),
            failed=self._complain,
            ticked=self._ticked,
        )

    def _ticked(self) -> None:
        """Tell of the worker if it is time to; called in the thread."""
        if self.state.phase is Phase.OPEN and self._presence.is_due():
            self.threads.start(self._tell_presence)

    def _tell_presence(self) -> None:
        batch = self._presence.telling(self.state.concurrency, [held.job for held in list(self.slots.held)])
        with contextlib.suppress(EchoMQError):  # of an outage the worker's other calls tell
            self.connection.send_batch(batch, deadline_ms=DEADLINE_MS)

    def _renewed(self, job_ids: list[str]) -> None:
        self._answered()
        self.listening.call("locks_renewed", job_ids)

    def _lost(self, lease: Lease) -> None:
        if isinstance(lease, Held):
            self.slots.lost(lease)


def _awake() -> None:
    """Nothing; whoever waits for something to do looks at the clock again."""


def _dice() -> float:
    return random.random()  # noqa: S311  # spreads load, keeps no secret
