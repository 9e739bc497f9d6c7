"""How the threads of a blocking worker go from one job to the next.

A thread runs a job, reports it, or leaves that to a batch, and goes on with the job
that the report brought along. Releasing the one and holding the other is one step.

Source: design.md section 5; protocol spec 05 section 4.
"""

from collections.abc import Callable
from functools import partial

import attrs

from echomq.calls.batches import Terms
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.options import Keep
from echomq.scheduling import messages
from echomq.scheduling.outcome import HandedBack, Outcome
from echomq.scheduling.settling import Settled

from .batches import Batches
from .held import Held
from .mind import Mind
from .slots import Slots
from .threads import Task, Threads

__all__ = ["Rounds"]


@attrs.define(eq=False, kw_only=True)
class Rounds:
    """The threads of one run of a worker, and what they do with its jobs.

    Attributes:
        mind: What the worker knows.
        slots: The jobs it holds.
        connection: For reports.
        terms: How jobs are taken and ended, for each rule of keeping them.
        started: Told that a job is taken in; called for each.
        note: Notes what another thread than those of jobs is to do.
        post: Lets that thread call a function, in the same order.
        name: Of the threads.
        threads: They run whatever may take long.
    """

    mind: Mind
    slots: Slots
    connection: Connection
    terms: Callable[[Keep | None], Terms]
    started: Callable[[], object]
    note: Callable[[messages.Action], object]
    post: Callable[[Task], object]
    name: str
    threads: Threads = attrs.field(init=False)
    _batches: Batches = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the threads; none is started yet."""
        self._batches = Batches(
            slots=self.slots,
            connection=self.connection,
            terms=self.terms,
            room_for=self.mind.room_for,
            start=lambda task: self.threads.start(task),
            go_on=self._go_on,
            report=self._report,
        )
        self.threads = Threads(self.name, self._batches.is_due, self._batches.send)

    def want(self, actions: tuple[messages.Action, ...]) -> None:
        """See to what is wanted, in the order in which it was decided, while this thread has the lock of the mind."""
        is_noted = False
        for action in actions:
            if not isinstance(action, messages.Run | messages.GiveBack):
                self.note(action)
                is_noted = True
                continue
            # Held from now on: a search for strays must see each job that is known.
            held = self._hold(action)
            if is_noted:
                self.post(partial(self.start, held))  # after what was told before, as "ready"
            else:
                self.start(held)

    def start(self, held: Held) -> None:
        """Let a thread work on a job."""
        self.threads.start(partial(self._work, held))

    def taken(self, event: messages.Happened, is_wanted: Callable[[], bool]) -> Callable[[], object] | None:
        """Tell the mind of a take's end.

        Args:
            event: How it ended.
            is_wanted: Asked whether that still matters.

        Returns:
            What the present thread does next, which may take long; None if nobody waits for the take any more.
        """
        with self.mind.lock:
            if not is_wanted():
                return None
            actions = self.mind.step(event)
            if self.mind.turn is not None:
                self.mind.turn.fetched()  # before what follows, which may ask for slots again
            return partial(self._work, self._take_over(actions))

    def given_up(self, held: Held) -> None:
        """Release a job that does not end."""
        with self.mind.lock:
            if self.slots.release(held):
                self.want(self.mind.step(messages.Reported(held.take, None, wall_ms())))

    def held(self) -> tuple[set[str], set[str]]:
        """Return the ids of the jobs held, and the tokens of their slots."""
        with self.mind.lock:
            held = list(self.slots.held)
        return {one.job.id for one in held}, {one.token for one in held}

    def _hold(self, action: messages.Run | messages.GiveBack) -> Held:
        self.started()
        return self.slots.hold(action.job, action.take, HandedBack() if isinstance(action, messages.GiveBack) else None)

    def _work(self, held: Held | None) -> None:
        """Run a job, and those that its reports bring along."""
        while held is not None:
            outcome = self.slots.work(held)
            if outcome is None or self._batches.join(held, outcome):
                return
            held = self._release(held, self.slots.report(held, outcome))

    def _report(self, held: Held, outcome: Outcome, is_repeated: bool) -> None:
        """Report by itself a job that was reported with others, or was to be, and go on."""
        self._work(self._release(held, self.slots.report(held, outcome, is_repeated=is_repeated)))

    def _go_on(self, held: Held, outcome: Outcome, settled: Settled) -> None:
        """Go on where a job was reported with others."""
        try:
            self.slots.announce(held, outcome, settled)
        except BaseException as error:  # noqa: BLE001  # a listener may raise anything, and the slot must be free again
            self.slots.complain(error)
        self._work(self._release(held, settled))

    def _release(self, held: Held, settled: Settled) -> Held | None:
        with self.mind.lock:
            # At once with what follows: a search must see the slot with the old job or with the new one.
            if not self.slots.release(held):
                return None
            return self._take_over(self.mind.step(self.slots.released(held, settled)))

    def _take_over(self, actions: tuple[messages.Action, ...]) -> Held | None:
        """Hold the job that is to be run first, for the present thread; the rest is for others."""
        own: Held | None = None
        if actions and isinstance(actions[0], messages.Run):
            own = self._hold(actions[0])
            actions = actions[1:]
        self.want(actions)
        return own
