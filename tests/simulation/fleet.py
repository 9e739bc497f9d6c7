"""A fleet in virtual time: the real worker and queue of :mod:`echomq.aio`, the real scripts, and faults.

After each request that reached the server the whole keyspace is checked. When
the faults are over everything must come to its end by itself.
"""

import asyncio
import itertools
import random
from collections import Counter
from functools import partial
from typing import Any

import attrs

from echomq import FlowNode, FlowProducer, Job, Keys, Queue, Worker
from echomq.aio.context import Context
from echomq.errors import ConnectionLost, FlowFailed, ServerRefused
from echomq.signals import Delay, RateLimited, Wait
from scripts.invariants import faults
from vectors.keyspace import Keyspace

from .links import Link, Road
from .plans import FAULT_MS, Fault, Plan, Work
from .server import Store, Wire
from .threads import renewals_in
from .universe import Process, Universe

__all__ = ["Outcome", "simulate"]

_QUIET_MS = FAULT_MS + 15_000
"""From here on nothing goes wrong any more."""

_END_MS = _QUIET_MS + 15 * 60_000
_CLOSE_MS = 60_000
_ENDED = {"completed", "failed"}
_TOO_OFTEN = "job stalled more than allowable limit"


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
    """One simulation under way."""

    plan: Plan
    wire: Wire
    universe: Universe = attrs.field(init=False)
    store: Store = attrs.field(init=False)
    members: list[_Member] = attrs.field(factory=list)
    processes: list[Process] = attrs.field(factory=list)
    violation: str | None = None
    keys: Keys = attrs.field(factory=lambda: Keys("q", "bull"))
    acknowledged: set[str] = attrs.field(factory=set)
    ends: "Counter[str]" = attrs.field(factory=Counter)
    runs: "Counter[str]" = attrs.field(factory=Counter)
    requests: int = 0
    keyspace: Keyspace = attrs.field(factory=dict)
    states: dict[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.universe = Universe(random.Random(f"code {self.plan.seed}"))
        self.store = Store(self.universe, self.wire, self.keys, self._look)

    # -- members --------------------------------------------------------------------------------

    def _join(self, name: str, skew_ms: int) -> _Member:
        process = Process(self.universe, f"{name}.{len(self.processes)}", skew_ms)
        self.processes.append(process)
        dice = random.Random(f"road {self.plan.seed} {process.name}")
        return _Member(process, Road(self.universe, self.store, process, dice))

    def _hire(self, number: int) -> _Member:
        member = self._join(f"w{number}", self.plan.skews[number % len(self.plan.skews)])
        member.worker = Worker("q", partial(self._process), Link(member.road), **self.plan.options)
        self.universe.tell(member.process.name, "starts")
        member.process.start(self._employ(member, member.worker))
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
        self.runs[job.id] += 1
        run = self.runs[job.id]
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
            self.acknowledged |= {each.id for each in work.all()}
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
            "jump": lambda: setattr(process, "skew_ms", process.skew_ms + 30 * (fault.length_ms - 2_500)),
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
        self.universe.at(
            self.universe.now_ms + fault.length_ms, lambda: self.members.__setitem__(fault.who, self._hire(fault.who))
        )

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
        member.process.start(worker.close(timeout_ms))

    def _pause(self, fault: Fault, member: _Member) -> None:
        worker = member.worker
        if worker is not None:
            member.process.start(_rest(worker, fault.length_ms))

    def _heal(self) -> None:
        self.universe.tell("FAULTS", "are over")
        self.store.refusal = None
        for member in self.members:
            member.road.lose_next = None

    # -- what must hold -------------------------------------------------------------------------

    def _violated(self, what: str) -> None:
        if self.violation is None:
            self.violation = what
            self.universe.tell("VIOLATION", what)

    def _look(self, keyspace: Keyspace, news: list[dict[str, str]]) -> None:
        self.requests += 1
        self.keyspace = keyspace
        for event in news:
            if event["event"] in _ENDED:
                self.ends[event["jobId"]] += 1
                if self.ends[event["jobId"]] > 1:
                    self._violated(f"job {event['jobId']} finished twice")
        for key, what in faults(keyspace, [self.keys.base.removesuffix(":")]).items():
            self._violated(f"{key} {what}")
        self._find_states()
        for job_id in self.acknowledged - self.states.keys():
            self._violated(f"job {job_id} is lost")

    def _find_states(self) -> None:
        self.states = {}
        for state in ("wait", "active", "delayed", "prioritized", "waiting-children", "completed", "failed"):
            for item in self.keyspace.get(f"{self.keys.base}{state}", {"value": ()})["value"]:
                self.states[item if isinstance(item, str) else item[0]] = state

    def _have_all_ended(self) -> bool:
        if self.violation is not None:
            return True
        return self.members[-1].has_ended and all(self.states.get(work.id) in _ENDED for work in self._works())

    def _works(self) -> list[Work]:
        return [each for work in self.plan.works for each in work.all()]

    def _have_all_left(self) -> bool:
        return self.violation is not None or all(
            member.has_ended or not member.process.alive for member in self.members[:-1]
        )

    def _check_end(self) -> None:
        for work in self._works():
            job = self.keyspace[f"{self.keys.base}{work.id}"]["value"]
            self._check_job(work, job, self.states[work.id])

    def _check_job(self, work: Work, job: dict[str, str], state: str) -> None:
        if job.get("failedReason") == _TOO_OFTEN and state == "failed" and self.plan.options["max_stalled_count"] == 1:
            return
        expected = "failed" if work.is_doomed else "completed"
        if state != expected:
            self._violated(f"job {work.id} is {state} ({job.get('failedReason')}), not {expected}")
        if int(job["atm"]) != work.attempts_made:
            self._violated(f"job {work.id} made {job['atm']} attempts, not {work.attempts_made}")
        if int(job["ats"]) < self.runs[work.id] or not self.runs[work.id]:
            self._violated(f"job {work.id} ran {self.runs[work.id]} times, started {job['ats']} times")

    # -- from beginning to end ------------------------------------------------------------------

    def go(self) -> Outcome:
        """Run it."""
        with self.universe.rules(), renewals_in(self.universe):
            for number in range(len(self.plan.skews)):
                self.members.append(self._hire(number))
            self.members.append(self._join("producer", 0))
            self.members[-1].process.start(self._produce(self.members[-1]))
            for fault in self.plan.faults:
                self.universe.at(fault.at_ms, partial(self._strike, fault))
            self.universe.at(_QUIET_MS, self._heal)
            self._see_through()
            self.universe.wind_up(self.processes)
        return Outcome(
            violation=self.violation,
            trace=tuple(self.universe.trace),
            requests=self.requests,
            runs=sum(self.runs.values()),
            virtual_s=self.universe.now_ms / 1000,
        )

    def _see_through(self) -> None:
        universe = self.universe
        universe.run(lambda: universe.now_ms > _QUIET_MS or self.violation is not None, _QUIET_MS)
        if not universe.run(self._have_all_ended, _END_MS):
            left = {job_id: state for job_id, state in self.states.items() if state not in _ENDED}
            self._violated(f"15 minutes after the last fault these have not ended: {left}")
            return
        for member in self.members[:-1]:
            if not member.is_closing:
                self._end(member, 5_000)
        if not universe.run(self._have_all_left, universe.now_ms + _CLOSE_MS):
            self._violated("a worker does not close")
        if self.violation is None:
            self._check_end()
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


def simulate(plan: Plan, wire: Wire) -> Outcome:
    """Run a plan against a real server, which is emptied first."""
    return Fleet(plan, wire).go()
