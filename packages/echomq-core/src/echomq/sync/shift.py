"""One run of a blocking worker: performs the actions of ``step`` and tells it what happened.

The thread that runs the worker performs actions and keeps time; it never waits
for the server. What may take time (a take, the blocking read, a look for stalled
jobs, a job) is done by the threads that run jobs. A job's thread tells ``step`` how
it ended by itself, and goes on with the job that came along.

Source: design.md section 5; protocol spec 05 section 4.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import attrs

from echomq.calls.batches import Terms
from echomq.calls.locks import move_stalled_jobs_to_wait
from echomq.chance import dice
from echomq.clock import wall_ms
from echomq.complaints import Complaints
from echomq.driver import Connection
from echomq.errors import ConnectionClosed, EchoMQError
from echomq.keys import Keys
from echomq.listening import Listening
from echomq.options import Keep, WorkerOptions
from echomq.presence import DEADLINE_MS, LAST_WORD_MS, Presence
from echomq.scheduling import messages
from echomq.scheduling.state import Phase, opening_state

from .control import Control
from .errands import Errand, Errands
from .fetching import Fetching
from .held import Held
from .mind import Mind
from .processing import JobRunner
from .renewal import Lease, Renewal
from .rounds import Rounds
from .slots import Slots
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
        slots: The jobs it holds.
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
    slots: Slots = attrs.field(init=False)
    thread: int = attrs.field(init=False, factory=threading.get_ident)
    is_over: bool = attrs.field(init=False, default=False)
    answered_at_s: float = attrs.field(init=False, factory=time.monotonic)
    _mind: Mind = attrs.field(init=False)
    _complaints: Complaints = attrs.field(init=False)
    _rounds: Rounds = attrs.field(init=False)
    _fetching: Fetching = attrs.field(init=False)
    _waiting: Waiting = attrs.field(init=False)
    _renewal: Renewal = attrs.field(init=False)
    _control: Control = attrs.field(init=False)
    _presence: Presence = attrs.field(init=False)
    _perform: dict[type[Any], Callable[[Any], object]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Set the shift up; nothing is sent yet."""
        options = self.options
        self._mind = mind = Mind(
            state=opening_state(options, until_drained=self.until_drained, is_paused=self.is_paused),
            turn=self.turn,
            want=lambda actions: self._rounds.want(actions),
            keep_time=lambda: self.post(_awake),
        )
        self._complaints = Complaints(self.keys.queue, self.listening)
        self.slots = Slots(
            connection=self.connection,
            options=options,
            run=self.run,
            room_for=mind.room_for,
            tell=self.listening.call,
            complain=self._complain,
            answered=self._answered,
            left_ms=mind.left_ms,
            shared=self.shared,
            later=self.errands.add_later,
            go_on=lambda held: self._rounds.start(held),
        )
        self._rounds = Rounds(
            mind=mind,
            slots=self.slots,
            connection=self.connection,
            terms=lru_cache(maxsize=64)(self._new_terms),
            started=lambda: self._control.started(),
            note=self._note,
            post=self.post,
            name=f"echomq-job-{self.keys.queue}",
        )
        start = self._rounds.threads.start
        self._fetching = Fetching(
            keys=self.keys,
            options=options,
            connection=self.connection,
            start=start,
            ended=self._fetched,
            held=self._rounds.held,
        )
        self._waiting = Waiting(
            keys=self.keys,
            name=options.name,
            connection=self.connection,
            start=start,
            ended=self._waited,
            failed=lambda error, is_wanted: mind.happened(messages.WaitFailed(error, dice()), is_wanted),
            complain=self._complain,
        )
        self._renewal = self._make_renewal()
        self._presence = Presence(self.keys, options.name)
        self._control = Control(
            keys=self.keys,
            connect=self.connection.dedicated,
            slots=self.slots,
            later=self.errands.add_later,
            start=start,
        )
        self._perform = {
            messages.Fetch: lambda action: self._fetch(action.count),
            messages.StopFetching: lambda _: self._fetching.stop(),
            messages.Adopt: lambda _: self._fetching.search(),
            messages.Wait: lambda action: self._waiting.wait(action.timeout_ms),
            messages.StopWaiting: lambda _: self._waiting.stop(is_last=mind.state.phase is not Phase.OPEN),
            messages.CheckStalled: lambda _: start(self._look_for_stalled),
            messages.Complain: lambda action: self._complaints.tell(action.error),
            messages.Announce: lambda action: self.listening.call(action.event),
            messages.Cut: lambda _: self.slots.cut(self._rounds.given_up),
            messages.Stop: self._stop,
        }

    # -- the thread that runs the worker ------------------------------------------------------------

    def begin(self) -> None:
        """Begin to work, unless the end was asked for before."""
        if self._mind.state.phase is Phase.ENDED:
            return
        if not self.options.skip_lock_renewal:
            self._renewal.start()
        self._waiting.appear()
        self.happened(messages.Started())

    def alarm_s(self) -> float | None:
        """Return when :meth:`ring` is due if nothing happens before, on the monotonic clock."""
        return self._mind.alarm_s()

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
        self._rounds.threads.close(_JOIN_S)
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
        self._mind.happened(event)

    def _note(self, action: messages.Action) -> None:
        self.post(partial(self._perform[type(action)], action))

    def _complain(self, error: BaseException) -> None:
        self.post(partial(self._complaints.tell, error))

    def _answered(self) -> None:
        self.answered_at_s = time.monotonic()
        if self._complaints.in_outage:
            self.post(self._complaints.answered)

    # -- what step wants ----------------------------------------------------------------------------

    def _new_terms(self, keep: Keep | None) -> Terms:
        return Terms(keys=self.keys, take=self._fetching.take(""), keep=keep, metrics_points=self.options.metrics)

    def _fetch(self, count: int) -> None:
        turn = self.turn
        if turn is None:
            self._fetching.fetch(count)
        elif not turn.ask(count, lambda granted: self.post(partial(self._granted, turn, granted))):
            # Who waits for a turn sits on a marker, and other workers of the queue may have slots.
            self._waiting.wake_others()

    def _granted(self, turn: Access, count: int) -> None:
        if count and self._mind.state.phase is Phase.OPEN and not self._mind.state.paused:
            self._fetching.fetch(count)
            return
        self.happened(messages.NotFetched())
        turn.fetched()

    def _fetched(self, event: messages.Happened, is_wanted: Callable[[], bool]) -> None:
        if not isinstance(event, messages.Failed):
            self._answered()
        then = self._rounds.taken(event, is_wanted)
        if then is not None:
            then()

    def _waited(self, marked: messages.Marked, is_wanted: Callable[[], bool]) -> None:
        self._answered()
        self._mind.happened(marked, is_wanted)

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
        if self._mind.state.phase is Phase.OPEN and self._presence.is_due():
            self._rounds.threads.start(self._tell_presence)

    def _tell_presence(self) -> None:
        batch = self._presence.telling(self._mind.state.concurrency, [held.job for held in list(self.slots.held)])
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
