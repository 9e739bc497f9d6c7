"""One run of a worker: performs the actions of ``step`` and tells it what happened.

No loop of ours runs. Something happens (a reply, a marker, a job's end, a wish
of the host), ``step`` answers with actions, and each action starts something
that will happen. An idle worker is one blocking read and one timer.

Source: design.md section 5; protocol spec 05 section 4.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from echomq.calls.locks import move_stalled_jobs_to_wait
from echomq.clock import mono_ms, wall_ms
from echomq.complaints import Complaints
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.options import WorkerOptions
from echomq.presence import DEADLINE_MS, LAST_WORD_MS, Presence
from echomq.scheduling import messages
from echomq.scheduling.outcome import HandedBack
from echomq.scheduling.state import Phase, WorkerState, opening_state
from echomq.scheduling.step import step
from echomq.scheduling.timing import alarm_at
from echomq.sync.renewal import Lease, Renewal

from .control import Control
from .fetching import Fetching
from .held import Held
from .listeners import Listeners
from .outlasting import outlasting
from .processing import JobRunner
from .shares import Access
from .slots import Slots
from .waiting import Waiting

__all__ = ["Shift"]

_log = logging.getLogger("echomq.worker")


@attrs.define(eq=False, kw_only=True)
class Shift:
    """One run.

    Attributes:
        keys: The queue.
        options: The worker's.
        processing: The user's function.
        listeners: Of local events.
        connection: For all calls but the blocking ones.
        until_drained: Close when there is nothing to do.
        is_paused: Begin with taking nothing.
        shared: What the lifespan gave to all jobs.
        share: Of slots that several workers have together; None: all are ours.
        state: What the worker knows.
        slots: The jobs it holds.
        ended: Done when nothing is left to do.
        answered_at_s: When the server last answered, on the monotonic clock.
    """

    keys: Keys
    options: WorkerOptions
    processing: JobRunner
    listeners: Listeners
    connection: AsyncConnection
    until_drained: bool
    is_paused: bool = False
    shared: Any = None
    share: Access | None = None
    state: WorkerState = attrs.field(init=False)
    slots: Slots = attrs.field(init=False)
    ended: "asyncio.Future[None]" = attrs.field(init=False)
    answered_at_s: float = attrs.field(init=False, factory=time.monotonic)
    _loop: asyncio.AbstractEventLoop = attrs.field(init=False, factory=asyncio.get_running_loop)
    _complaints: Complaints = attrs.field(init=False)
    _fetching: Fetching = attrs.field(init=False)
    _waiting: Waiting = attrs.field(init=False)
    _renewal: Renewal = attrs.field(init=False)
    _control: Control = attrs.field(init=False)
    _presence: Presence = attrs.field(init=False)
    _tasks: "set[asyncio.Task[None]]" = attrs.field(init=False, factory=set)
    _alarm: asyncio.TimerHandle | None = attrs.field(init=False, default=None)
    _alarm_at: int = attrs.field(init=False, default=0)
    _beat_due: bool = attrs.field(init=False, default=False)
    _perform: dict[type[Any], Callable[[Any], object]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Set the shift up; nothing is sent yet."""
        options = self.options
        self.state = opening_state(options, until_drained=self.until_drained, is_paused=self.is_paused)
        self.ended = self._loop.create_future()
        self._complaints = Complaints(self.keys.queue, self.listeners)
        self._fetching = Fetching(
            keys=self.keys,
            options=options,
            connection=self.connection,
            start=self._start,
            happened=self.happened,
            answered=self._answered,
            held=lambda: {held.job.id for held in self.slots.held},
        )
        self._waiting = Waiting(
            keys=self.keys,
            name=options.name,
            connection=self.connection,
            start=self._start,
            happened=self.happened,
            answered=self._answered,
            complain=self._complaints.tell,
        )
        self.slots = Slots(
            connection=self.connection,
            options=options,
            processing=self.processing,
            terms=self._fetching.terms,
            room_for=self._room_for,
            released=self.happened,
            tell=self.listeners.call,
            complain=self._complaints.tell,
            answered=self._answered,
            left_ms=self._left_ms,
            shared=self.shared,
        )
        self._renewal = self._make_renewal()
        self._presence = Presence(self.keys, options.name)
        self._control = Control(self.keys, self.connection.dedicated, self.slots)
        self._perform = {
            messages.Fetch: self._fetch,
            messages.StopFetching: lambda _: self._fetching.stop(),
            messages.Adopt: lambda _: self._fetching.search(),
            messages.Wait: lambda action: self._waiting.wait(action.timeout_ms),
            messages.StopWaiting: lambda _: self._waiting.stop(),
            messages.Run: self._run,
            messages.RunAll: self._run_all,
            messages.GiveBack: lambda action: self.slots.start(action.job, action.take, HandedBack()),
            messages.CheckStalled: lambda _: self._start(self._look_for_stalled()),
            messages.Complain: lambda action: self._complaints.tell(action.error),
            messages.Announce: lambda action: self.listeners.call(action.event),
            messages.Cut: lambda _: self._start(self.slots.cut()),
            messages.Stop: lambda _: self.ended.set_result(None),
        }

    def happened(self, event: messages.Happened) -> None:
        """Tell ``step`` what happened and do what it says."""
        before = self.state
        self.state, actions = step(before, event, mono_ms())
        if self.state is not before:
            self._set_alarm()
        for action in actions:
            self._perform[type(action)](action)
        if self.share is not None:
            self.share.using(self.state.running)
            if self.state.phase is not Phase.OPEN:
                self.share.stop()

    async def work(self) -> None:
        """Work until there is nothing left to do.

        Raises:
            ConnectionClosed: The connection's owner closed it.
        """
        if not self.options.skip_lock_renewal:
            self._renewal.start()
        self._start(self._waiting.appear())
        try:
            self.happened(messages.Started())
            await outlasting(self.ended, lambda: self.happened(messages.Closed(0)))
        finally:
            await outlasting(self._leave())
        if self._complaints.fatal is not None:
            raise self._complaints.fatal

    async def _leave(self) -> None:
        """Let go of everything; jobs are done or given back by now."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._waiting.settle()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._presence.is_told:
            with contextlib.suppress(EchoMQError):
                await self.connection.send_batch(self._presence.leaving(), deadline_ms=LAST_WORD_MS)
        await self._control.close()
        self._renewal.stop()
        self.processing.close()
        await self._waiting.close()
        await self.listeners.settle()

    def _answered(self) -> None:
        self.answered_at_s = time.monotonic()
        self._complaints.answered()

    # -- what step wants ------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _fetch(self, action: messages.Fetch) -> None:
        share, fetching = self.share, self._fetching
        fetching.begin(fetching.take(action.count) if share is None else self._take_in_turn(share, action.count))

    async def _take_in_turn(self, share: Access, wanted: int) -> None:
        try:
            # Who waits here sits on a marker, and other workers of the queue may have slots.
            count = await share.acquire(wanted, lambda: self._start(self._waiting.wake_others()))
            if count and self.state.phase is Phase.OPEN and not self.state.paused:
                await self._fetching.take(count)
            else:
                self.happened(messages.NotFetched())
        finally:
            share.fetched()

    def _room_for(self, ending: int) -> int:
        room = self.state.room_for(ending)
        return room if self.share is None or not room else min(room, self.share.room_for(ending))

    def _run(self, action: messages.Run) -> None:
        self.slots.start(action.job, action.take)
        self._control.started()

    def _run_all(self, action: messages.RunAll) -> None:
        self.slots.start_all(action.found)
        self._control.started()

    async def _look_for_stalled(self) -> None:
        options = self.options
        call = move_stalled_jobs_to_wait(self.keys, options.max_stalled_count, options.stalled_interval, wall_ms())
        try:
            for job_id in await self.connection.send(call):
                self.listeners.call("stalled", job_id)
        except EchoMQError as error:
            self._complaints.tell(error)
        self.happened(messages.StalledChecked())

    # -- time -----------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        at = alarm_at(self.state)
        if not at:
            return
        if self._alarm is not None:
            if self._alarm_at <= at:
                return  # it rings too early, which does no harm and costs less than moving it
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.call_later(max(0, at - mono_ms()) / 1000, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.happened(messages.Ticked())
        if self._alarm is None:
            self._set_alarm()

    def _left_ms(self) -> int | None:
        return max(0, self.state.cut_at - mono_ms()) if self.state.cut_at else None

    # -- the thread that renews locks -----------------------------------------------------------

    def _make_renewal(self) -> Renewal:
        return Renewal(
            keys=self.keys,
            connection=self.connection.blocking_twin(),
            lock_ms=self.options.lock_duration,
            held=lambda: [held for held in list(self.slots.held) if not held.lost],
            lost=lambda lease: self._from_thread(self._lost, lease),
            renewed=lambda ids: self._from_thread(self._renewed, ids),
            failed=lambda error: self._from_thread(self._complaints.tell, error),
            ticked=self._ticked,
        )

    def _from_thread(self, function: Callable[..., None], *args: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(function, *args)

    def _renewed(self, job_ids: list[str]) -> None:
        self._answered()
        self.listeners.call("locks_renewed", job_ids)

    def _lost(self, lease: Lease) -> None:
        if isinstance(lease, Held):
            self.slots.lost(lease)

    async def _tell_presence(self) -> None:
        batch = self._presence.telling(self.state.concurrency, [held.job for held in self.slots.held])
        with contextlib.suppress(EchoMQError):  # of an outage the worker's other calls tell
            await self.connection.send_batch(batch, deadline_ms=DEADLINE_MS)

    def _ticked(self) -> None:
        """Ask the loop for a sign of life; called in the thread."""
        if not self._beat_due:
            self._beat_due = True
            self._from_thread(self._beat, time.monotonic())

    def _beat(self, asked_at_s: float) -> None:
        self._beat_due = False
        if self.state.phase is Phase.OPEN and self._presence.is_due():
            self._start(self._tell_presence())
        blocked_s = time.monotonic() - asked_at_s
        if blocked_s * 2000 < self.options.lock_duration:
            return
        _log.warning(
            "worker of queue %s: the event loop was blocked for %.1f s, and with it: %s. Locks were kept, but "
            "nothing else could run. Make the processor a plain function, which runs in a thread, or await in it.",
            self.keys.queue,
            blocked_s,
            ", ".join(f"job {held.job.id}" for held in self.slots.held) or "jobs that have ended",
        )
