"""What must hold of the one queue of a simulation, whenever all of its keys are read and when all has ended."""

from collections import Counter
from collections.abc import Callable, Iterator

import attrs
import msgspec

from echomq import Keys
from scripts.invariants import faults
from vectors.keyspace import Keyspace

from .plans import Plan, Work

__all__ = ["ENDED", "Judge"]

ENDED = {"completed", "failed"}
_STATES = ("wait", "active", "delayed", "prioritized", "waiting-children", "completed", "failed")
_TOO_OFTEN = "job stalled more than allowable limit"
_MAY_STAY = {"events", "meta", "id", "pc", "marker", "limiter", "stalled-check", "completed", "failed"}
"""Keys of the queue itself that are there when every job has ended and every worker has left."""

_OF_WORKERS = "echomq:worker"
"""What workers tell of themselves; that of one that was killed goes by expiry."""


@attrs.define(eq=False)
class Judge:
    """Looks at keys and events and says what is wrong.

    Attributes:
        plan: What was to be done.
        keys: The queue's.
        violated: Told what should not be.
        acknowledged: Ids of jobs whose adding was acknowledged.
        runs: How often each job ran.
        states: State of each job that there is.
    """

    plan: Plan
    keys: Keys
    violated: Callable[[str], None]
    acknowledged: set[str] = attrs.field(factory=set)
    runs: "Counter[str]" = attrs.field(factory=Counter)
    states: dict[str, str] = attrs.field(factory=dict)
    _works: dict[str, Work] = attrs.field(init=False)
    _keyspace: Keyspace = attrs.field(factory=dict)
    _starts: "Counter[str]" = attrs.field(factory=Counter)
    _ends: "Counter[str]" = attrs.field(factory=Counter)

    def __attrs_post_init__(self) -> None:
        self._works = {each.id: each for each in self.plan.all()}

    def look(self, keyspace: Keyspace, news: list[dict[str, str]]) -> None:
        """Judge all keys at some moment, and the events since the last one."""
        self._keyspace = keyspace
        self._hear(news)
        for key, what in faults(keyspace, [self.keys.qualified_name]).items():
            self.violated(f"{key} {what}")
        self._find_states()
        for job_id in self.acknowledged - self.states.keys():
            self.violated(f"job {job_id} is lost")
        for job_id, state in self.states.items():
            for what in self._wrong_with(self._works[job_id], state):
                self.violated(f"job {job_id} {what}")

    def end(self) -> None:
        """Judge what is left when all jobs have ended and all workers have left."""
        for work in self._works.values():
            for what in self._wrong_in_the_end(work):
                self.violated(f"job {work.id} {what}")
        for key in self._keyspace.keys() - self._expected():
            self.violated(f"{key} is left over")

    def unfinished(self) -> dict[str, str]:
        """State of each job that has not ended."""
        return {job_id: self.states.get(job_id, "lost") for job_id in self._works if self._state(job_id) not in ENDED}

    def _hear(self, news: list[dict[str, str]]) -> None:
        for event in news:
            if event["event"] == "active":
                self._starts[event["jobId"]] += 1
            if event["event"] in ENDED:
                self._ends[event["jobId"]] += 1
                if self._ends[event["jobId"]] > 1:
                    self.violated(f"job {event['jobId']} finished twice")

    def _find_states(self) -> None:
        self.states = {}
        for state in _STATES:
            for item in self._keyspace.get(self.keys.base + state, {"value": ()})["value"]:
                self.states[item if isinstance(item, str) else item[0]] = state

    def _state(self, job_id: str) -> str:
        return self.states.get(job_id, "")

    def _fields(self, job_id: str) -> dict[str, str]:
        fields: dict[str, str] = self._keyspace.get(self.keys.job(job_id), {"value": {}})["value"]
        return fields

    def _wrong_with(self, work: Work, state: str) -> Iterator[str]:
        fields = self._fields(work.id)
        made, started = int(fields.get("atm", 0)), int(fields.get("ats", 0))
        if made > started:
            yield f"made {made} attempts but started {started} times"
        if made > work.attempts_made and fields.get("failedReason") != _TOO_OFTEN:
            yield f"made {made} attempts, not at most {work.attempts_made}"
        if started != self._starts[work.id]:
            yield f"started {started} times, as events tell {self._starts[work.id]} times"
        if self.runs[work.id] > started:
            yield f"ran {self.runs[work.id]} times but started {started} times"
        waits_for = [child.id for child in work.children if self._state(child.id) not in ENDED]
        if waits_for and state != "waiting-children":
            yield f"is {state} though {waits_for[0]} is {self._state(waits_for[0]) or 'nowhere'}"

    def _wrong_in_the_end(self, work: Work) -> Iterator[str]:
        fields, state = self._fields(work.id), self._state(work.id)
        reason = fields.get("failedReason")
        if self._ends[work.id] != 1:
            yield f"ended {self._ends[work.id]} times, as events tell"
        if reason == _TOO_OFTEN and state == "failed" and self.plan.options["max_stalled_count"] == 1:
            return
        expected = "failed" if work.is_doomed else "completed"
        if state != expected:
            yield f"is {state or 'nowhere'} ({reason}), not {expected}"
            return
        if int(fields["atm"]) != work.attempts_made:
            yield f"made {fields['atm']} attempts, not {work.attempts_made}"
        if not self.runs[work.id]:
            yield "never ran"
        if not work.is_doomed and msgspec.json.decode(fields["returnvalue"]) != work.id:
            yield f"returned {fields['returnvalue']}"
        processed = self._keyspace.get(f"{self.keys.job(work.id)}:processed", {"value": {}})["value"]
        if processed.keys() != {self.keys.job(child.id) for child in work.children}:
            yield f"has results of {sorted(processed)}"

    def _expected(self) -> set[str]:
        """All keys that may be there in the end."""
        expected = {self.keys.base + name for name in _MAY_STAY}
        expected |= {key for key in self._keyspace if key.startswith(self.keys.base + _OF_WORKERS)}
        for work in self._works.values():
            job = self.keys.job(work.id)
            expected |= {job, f"{job}:logs" if work.reports else job, f"{job}:processed" if work.children else job}
        return expected
