"""A fleet in virtual time: the real worker and queue of :mod:`echomq.aio`, the real scripts, and faults.

After some of the requests that reached the server, chosen by dice, the whole
keyspace is checked, and in the end; a simulation that is to be told is checked
after each. Whether it is checked changes nothing of what happens. When the
faults are over everything must come to its end by itself.
"""

import asyncio
import itertools
import random
from functools import partial
from typing import Any

import attrs

from echomq import FlowNode, FlowProducer, Job, Keys, Queue, Worker
from echomq.aio.context import Context
from echomq.errors import ConnectionLost, FlowFailed, ServerRefused
from echomq.signals import Delay, RateLimited, Wait

from .judge import Judge
from .links import Link, Road
from .plans import FAULT_MS, Fault, Plan, Work
from .server import Store, Wire
from .threads import renewals_in
from .universe import Process, Universe

__all__ = ["LOOK_EVERY", "Outcome", "simulate"]

LOOK_EVERY = 8
"""Of so many requests one is followed by a look at all keys."""

_QUIET_MS = FAULT_MS + 15_000
"""From here on nothing goes wrong any more."""

_END_MS = _QUIET_MS + 15 * 60_000
_CLOSE_MS = 60_000


@attrs.frozen(kw_only=True)
class Outcome:
    """What came of a simulation.

    Attributes:
        violation: What should not be; None if all is well.
        trace: What happened.
        requests: How many reached the server.
        runs: How often jobs ran.
        virtual_s: How long it took in virtual time.
    """

    violation: str | None
    trace: tuple[str, ...]
    requests: int
    runs: int
    virtual_s: float


@attrs.define(eq=False)
class _Member:
    """A worker, or the producer, and what can be done to it."""

    process: Process
    road: Road
    worker: Worker | None = None
    is_closing: bool = False
    has_ended: bool = False


@attrs.define(eq=False)
class Fleet:
    """One simulation under way.

    Attributes:
        plan: What to do.
        wire: To the server.
        look_every: Of so many requests one is followed by a look at all keys.
        members: Whom faults happen to: the workers of the plan, the producer last.
        staff: All that there have ever been; who is killed while closing is replaced twice.
        violation: The first thing that should not be.
        is_ending: Nobody is hired and nothing goes wrong any more.
    """

    plan: Plan
    wire: Wire
    look_every: int
    universe: Universe = attrs.field(init=False)
    store: Store = attrs.field(init=False)
    judge: Judge = attrs.field(init=False)
    members: list[_Member] = attrs.field(factory=list)
    staff: list[_Member] = attrs.field(factory=list)
    violation: str | None = None
    is_ending: bool = False
    _job_count: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        keys, jobs = Keys("q", "bull"), self.plan.all()
        self._job_count = len(jobs)
        self.universe = Universe(random.Random(f"code {self.plan.seed}"))
        self.judge = Judge(self.plan, keys, self._violated)
        dice = random.Random(f"looks {self.plan.seed}")
        self.store = Store(
            universe=self.universe,
            wire=self.wire,
            keys=keys,
            job_ids=tuple(job.id for job in jobs),
            looked=self.judge.look,
            is_look_due=lambda: dice.randrange(self.look_every) == 0,
        )

    # -- members --------------------------------------------------------------------------------

    def _join(self, name: str, skew_ms: int) -> _Member:
        process = Process(self.universe, f"{name}.{len(self.staff)}", skew_ms)
        dice = random.Random(f"road {self.plan.seed} {process.name}")
        member = _Member(process, Road(self.universe, self.store, process, dice))
        self.staff.append(member)
        return member

    def _hire(self, number: int) -> _Member:
        member = self._join(f"w{number}", self.plan.skews[number % len(self.plan.skews)])
        member.worker = Worker("q", partial(self._process), Link(member.road), **self.plan.options)
        self.universe.tell(member.process.name, "starts")
        member.process.start(partial(self._employ, member, member.worker))
        return member

    async def _employ(self, member: _Member, worker: Worker) -> None:
        try:
            await worker.run(handle_signals=False)
        except Exception as error:  # noqa: BLE001  # whatever it is, a worker must not end by it
            if not self.universe.is_over:
                self._violated(f"worker {member.process.name} ended by {error!r}")
        else:
            if not (member.is_closing or self.universe.is_over):
                self._violated(f"worker {member.process.name} ended by itself")
        member.has_ended = True

    async def _process(self, job: Job, ctx: Context) -> str:
        work: dict[str, Any] = job.data
        self.judge.runs[job.id] += 1
        run = self.judge.runs[job.id]
        if work["reports"]:
            await ctx.log(f"run {run}")
        await asyncio.sleep(work["ms"] / 1000)
        if work["reports"]:
            await ctx.progress(run)
        if run == 1 and work["signal"] is not None:
            raise {"delay": Delay(700), "wait": Wait(), "limit": RateLimited(500)}[work["signal"]]
        if job.attempts_made < work["failures"]:
            raise ValueError(f"attempt {job.attempts_made + 1}")
        return job.id

    # -- the producer ---------------------------------------------------------------------------

    async def _produce(self, member: _Member) -> None:
        link = Link(member.road)
        queue, flows = Queue("q", link), FlowProducer(link)
        for work in sorted(self.plan.works, key=lambda work: work.at_ms):
            await asyncio.sleep(max(0, work.at_ms - self.universe.now_ms) / 1000)
            await self._add(queue, flows, work)
            self.judge.acknowledged |= {each.id for each in work.all()}
        member.has_ended = True

    async def _add(self, queue: Queue, flows: FlowProducer, work: Work) -> None:
        """Add a job, again and again until that is acknowledged; its id makes a repeat harmless."""
        for _ in itertools.count():
            try:
                if work.children:
                    await flows.add(_node(work))
                else:
                    await queue.add("work", _data(work), **_options(work))
            except (ConnectionLost, FlowFailed, ServerRefused):
                await asyncio.sleep(0.3)
            else:
                return

    # -- what goes wrong ------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        if self.is_ending:
            return
        member = self.members[fault.who]
        self.universe.tell("FAULT", f"{fault.kind} {member.process.name} {fault.length_ms} ms")
        until = self.universe.now_ms + fault.length_ms
        road, process, store = member.road, member.process, self.store
        deeds: dict[str, Any] = {
            "kill": lambda: self._kill(fault, member),
            "freeze": lambda: setattr(process, "frozen_until", until),
            "block": lambda: setattr(process, "blocked_until", until),
            "cut": road.cut,
            "lose request": lambda: setattr(road, "lose_next", "request"),
            "lose reply": lambda: setattr(road, "lose_next", "reply"),
            "refuse": lambda: self._close_road(fault, road),
            "slow": lambda: self._slow_down(fault, road),
            "jump": lambda: setattr(process, "skew_ms", process.skew_ms + 3 * (fault.length_ms - 2_500)),
            "close": lambda: self._close(fault, member),
            "pause": lambda: self._pause(fault, member),
            "restart server": lambda: self._restart(fault),
            "freeze server": lambda: setattr(store, "frozen_until", until),
            "readonly": lambda: self._refuse(fault, "READONLY You can't write against a read only replica."),
            "out of memory": lambda: self._refuse(fault, "OOM command not allowed when used memory > 'maxmemory'."),
            "unblock": store.unblock,
        }
        deeds[fault.kind]()

    def _close_road(self, fault: Fault, road: Road) -> None:
        road.closed_until = self.universe.now_ms + fault.length_ms
        road.cut()

    def _slow_down(self, fault: Fault, road: Road) -> None:
        road.latency_ms = fault.length_ms
        self.universe.at(self.universe.now_ms + 3_000, lambda: setattr(road, "latency_ms", 2))

    def _refuse(self, fault: Fault, answer: str) -> None:
        self.store.refusal = answer
        self.universe.at(self.universe.now_ms + fault.length_ms, lambda: setattr(self.store, "refusal", None))

    def _restart(self, fault: Fault) -> None:
        self.store.restart(fault.length_ms)
        for member in self.members:
            member.road.cut(all_lost=True)

    def _kill(self, fault: Fault, member: _Member) -> None:
        if member.worker is None:  # the producer's jobs are what we count by
            member.road.cut()
            return
        member.process.alive = False
        member.road.cut()
        self._replace(fault)

    def _replace(self, fault: Fault) -> None:
        self.universe.at(self.universe.now_ms + fault.length_ms, lambda: self._hire_again(fault.who))

    def _hire_again(self, number: int) -> None:
        if not self.is_ending:
            self.members[number] = self._hire(number)

    def _close(self, fault: Fault, member: _Member) -> None:
        if member.worker is None or member.is_closing or not member.process.alive:
            return
        self._end(member, fault.length_ms // 2)
        self._replace(fault)

    def _end(self, member: _Member, timeout_ms: int) -> None:
        member.is_closing = True
        worker = member.worker
        assert worker is not None
        self.universe.tell(member.process.name, f"closes within {timeout_ms} ms")
        member.process.start(partial(worker.close, timeout_ms))

    def _pause(self, fault: Fault, member: _Member) -> None:
        worker = member.worker
        if worker is not None:
            member.process.start(partial(_rest, worker, fault.length_ms))

    def _heal(self) -> None:
        self.universe.tell("FAULTS", "are over")
        self.store.refusal = None
        for member in self.members:
            member.road.lose_next = None

    # -- what must hold -------------------------------------------------------------------------

    def _violated(self, what: str) -> None:
        if self.violation is None:
            self.violation = what

    def _is_all_done(self) -> bool:
        if self.violation is not None:
            return True
        if self.store.ended < self._job_count or self.store.on_their_way or not self.members[-1].has_ended:
            return False
        return not self.plan.lingers or self.universe.now_ms > FAULT_MS

    def _have_all_left(self) -> bool:
        if self.violation is not None:
            return True
        return all(member.has_ended or not member.process.alive for member in self.staff)

    # -- from beginning to end ------------------------------------------------------------------

    def go(self) -> Outcome:
        """Run it."""
        with self.universe.rules(), renewals_in(self.universe):
            for number in range(len(self.plan.skews)):
                self.members.append(self._hire(number))
            self.members.append(self._join("producer", 0))
            self.members[-1].process.start(partial(self._produce, self.members[-1]))
            for fault in self.plan.faults:
                self.universe.at(fault.at_ms, partial(self._strike, fault))
            self.universe.at(_QUIET_MS, self._heal)
            self._see_through()
            if self.violation is not None:
                self.universe.tell("VIOLATION", self.violation)
            self.universe.wind_up([member.process for member in self.staff])
        return Outcome(
            violation=self.violation,
            trace=tuple(self.universe.trace),
            requests=self.store.requests,
            runs=sum(self.judge.runs.values()),
            virtual_s=self.universe.now_ms / 1000,
        )

    def _see_through(self) -> None:
        universe = self.universe
        is_done = universe.run(self._is_all_done, _END_MS)
        self.store.look()
        left = self.judge.unfinished()
        if not is_done or left:
            self._violated(f"{'15 minutes after the last fault' if not is_done else 'at last'} have not ended: {left}")
            return
        self.is_ending = True
        for member in self.staff:
            if member.worker is not None and member.process.alive and not member.is_closing:
                self._end(member, 5_000)
        if not universe.run(self._have_all_left, universe.now_ms + _CLOSE_MS):
            self._violated("a worker does not close")
        self.store.look()
        self.judge.end()
        if universe.unhandled:
            self._violated(f"nobody handled {universe.unhandled[0]}")


async def _rest(worker: Worker, length_ms: int) -> None:
    await worker.pause(wait=False)
    await asyncio.sleep(length_ms / 1000)
    worker.resume()


def _data(work: Work) -> dict[str, Any]:
    return {"ms": work.ms, "failures": work.failures, "signal": work.signal, "reports": work.reports}


def _options(work: Work) -> dict[str, Any]:
    return {"job_id": work.id, "attempts": work.attempts, **work.options}


def _node(work: Work) -> FlowNode:
    children = tuple(_node(child) for child in work.children)
    return FlowNode(queue="q", name="work", data=_data(work), options=_options(work), children=children)


def simulate(plan: Plan, wire: Wire, look_every: int = 1) -> Outcome:
    """Run a plan against a real server, which is emptied first.

    Args:
        plan: What to do.
        wire: To the server.
        look_every: Of so many requests one, chosen by dice, is followed by a look at all keys; 1: each is.
    """
    return Fleet(plan, wire, look_every).go()
