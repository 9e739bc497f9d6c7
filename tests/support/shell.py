"""A worker's shell without a worker: performs the actions of ``step`` by noting what is under way."""

from typing import Any

import attrs

from echomq.calls.fetch import Take, Taken
from echomq.job import Job
from echomq.keys import Keys
from echomq.scheduling import messages
from echomq.scheduling.state import Pace, WorkerState
from echomq.scheduling.step import step
from echomq.scheduling.timing import alarm_at

__all__ = ["NOW", "PACE", "Shell", "job", "take"]

NOW = 1_000_000
PACE = Pace(drain_ms=5_000, limit_ms=30_000, stalled_ms=30_000)
_KEYS = Keys("mail")


def job(number: int = 1, **fields: Any) -> Job:
    """A job as it was taken."""
    return Job(keys=_KEYS, id=str(number), name="send", **fields)


def take(slot: int = 0) -> Take:
    """How a slot takes jobs."""
    return Take(token=f"me:{slot}", lock_ms=30_000)


@attrs.define
class Shell:
    """Notes what a worker has under way.

    Attributes:
        state: The worker's.
        now_ms: A clock that the test moves.
        taking: The take or search under way.
        blocks: Blocking reads under way.
        running: Jobs that run or are given back.
        checks: Looks for stalled jobs under way.
        announced: Local events so far.
        complaints: Errors told to the host so far.
        given_back: Jobs given back so far.
        cuts: How often running jobs were cut off.
        stops: How often the worker said that it has ended.
        last: The actions of the last step.
    """

    state: WorkerState
    now_ms: int = NOW
    taking: messages.Fetch | messages.Adopt | None = None
    blocks: list[messages.Wait] = attrs.field(factory=list)
    running: int = 0
    checks: int = 0
    announced: list[str] = attrs.field(factory=list)
    complaints: list[BaseException] = attrs.field(factory=list)
    given_back: int = 0
    cuts: int = 0
    stops: int = 0
    last: tuple[messages.Action, ...] = ()

    @classmethod
    def started(cls, concurrency: int = 1, pace: Pace = PACE) -> "Shell":
        """A worker that has just been asked to work."""
        shell = cls(WorkerState(pace=pace, concurrency=concurrency))
        shell.tell(messages.Started())
        return shell

    @property
    def has_ended(self) -> bool:
        """Whether the worker said so."""
        return self.stops > 0

    def tell(self, happened: messages.Happened) -> tuple[messages.Action, ...]:
        """Let something happen and perform what follows."""
        self.state, self.last = step(self.state, happened, self.now_ms)
        for action in self.last:
            self._perform(action)
        return self.last

    def fetched(self, found: Taken, *, before: int = 0) -> tuple[messages.Action, ...]:
        """Answer the take under way; it may have brought other jobs before."""
        assert isinstance(self.taking, messages.Fetch)
        self.taking = None
        return self.tell(messages.Fetched(take(), found, self.now_ms, ((job(), take()),) * before))

    def failed(self, error: BaseException, *, may_have_run: bool = False) -> tuple[messages.Action, ...]:
        """Let the take or search under way fail."""
        self.taking = None
        return self.tell(messages.Failed(error, may_have_run, 0.5))

    def marked(self, score: float | None) -> tuple[messages.Action, ...]:
        """End the blocking read."""
        self.blocks.pop()
        return self.tell(messages.Marked(score, self.now_ms))

    def reported(self, found: Taken | None = None, **more: Any) -> tuple[messages.Action, ...]:
        """End a job."""
        self.running -= 1
        return self.tell(messages.Reported(take(), found, self.now_ms, **more))

    def reported_together(self, count: int, brought: int, rest: Taken | None) -> tuple[messages.Action, ...]:
        """End several jobs by one call."""
        self.running -= count
        found = tuple((job(number), take(number)) for number in range(brought))
        return self.tell(messages.ReportedTogether(count, found, rest, self.now_ms))

    def checked(self) -> tuple[messages.Action, ...]:
        """End the look for stalled jobs."""
        self.checks -= 1
        return self.tell(messages.StalledChecked())

    def pass_time(self, ms: int) -> tuple[messages.Action, ...]:
        """Let time pass; the alarm rings if it is set for a moment within."""
        self.now_ms += ms
        at = alarm_at(self.state)
        return self.tell(messages.Ticked()) if 0 < at <= self.now_ms else ()

    def _perform(self, action: messages.Action) -> None:
        if isinstance(action, messages.Fetch | messages.Adopt):
            assert self.taking is None, "a second take"
            self.taking = action
        elif isinstance(action, messages.StopFetching):
            self.failed(TimeoutError(), may_have_run=True)
        elif isinstance(action, messages.Wait):
            self.blocks.append(action)
        elif isinstance(action, messages.StopWaiting):
            self.blocks.pop()
        elif isinstance(action, messages.Run | messages.GiveBack):
            self.running += 1
            self.given_back += isinstance(action, messages.GiveBack)
        elif isinstance(action, messages.RunAll):
            self.running += len(action.found)
        else:
            self._note(action)

    def _note(self, action: messages.Action) -> None:
        if isinstance(action, messages.CheckStalled):
            self.checks += 1
        elif isinstance(action, messages.Announce):
            self.announced.append(action.event)
        elif isinstance(action, messages.Complain):
            self.complaints.append(action.error)
        elif isinstance(action, messages.Cut):
            self.cuts += 1
        elif isinstance(action, messages.Stop):
            self.stops += 1
