"""The worker's mind under any order of events."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from echomq.calls.fetch import Taken
from echomq.errors import ConnectionLost
from echomq.scheduling import messages
from echomq.scheduling.state import Pace, Phase
from echomq.scheduling.timing import alarm_at
from support.shell import Shell, job, take

FOUND = st.one_of(
    st.builds(lambda: Taken(job=job())),
    st.builds(Taken),
    st.builds(Taken, limited_ms=st.integers(1, 90_000)),
    st.builds(lambda ahead: Taken(next_delayed_at_ms=1_000_000 + ahead), st.integers(-5_000, 90_000)),
)
ERRORS = st.builds(lambda maybe: (ConnectionLost("gone", may_have_run=maybe), maybe), st.booleans())


class Mind(RuleBasedStateMachine):
    """Any event may come at any time it can come at all; the rules of step hold after each."""

    shell: Shell

    @initialize(concurrency=st.integers(1, 4), stalled_ms=st.sampled_from([0, 30_000]), until=st.booleans())
    def start(self, concurrency: int, stalled_ms: int, until: bool) -> None:
        """Ask the worker to work."""
        pace = Pace(drain_ms=5_000, limit_ms=30_000, stalled_ms=stalled_ms, until_drained=until)
        self.shell = Shell.started(concurrency, pace)
        self.most = concurrency

    @precondition(lambda self: isinstance(self.shell.taking, messages.Fetch))
    @rule(found=FOUND, before=st.integers(0, 3))
    def take_is_answered(self, found: Taken, before: int) -> None:
        """A take is answered, with as many jobs as were asked for at most."""
        assert isinstance(self.shell.taking, messages.Fetch)
        self.shell.fetched(found, before=min(before, self.shell.taking.count - (found.job is not None)))

    @precondition(lambda self: self.shell.taking is not None)
    @rule(failure=ERRORS)
    def take_fails(self, failure: Any) -> None:
        """A take or a search fails."""
        self.shell.failed(failure[0], may_have_run=failure[1])

    @precondition(lambda self: isinstance(self.shell.taking, messages.Adopt))
    @rule(found=st.booleans())
    def search_is_answered(self, found: bool) -> None:
        """A search for lost replies is answered."""
        self.shell.taking = None
        self.shell.tell(messages.Adopted(((job(), take()),) if found else ()))

    @precondition(lambda self: self.shell.blocks)
    @rule(score=st.one_of(st.none(), st.just(0.0), st.floats(900_000, 1_200_000)))
    def wait_ends(self, score: float | None) -> None:
        """A wait ends."""
        self.shell.marked(score)

    @precondition(lambda self: self.shell.blocks)
    @rule(failure=ERRORS)
    def wait_fails(self, failure: Any) -> None:
        """A wait fails."""
        self.shell.blocks.pop()
        self.shell.tell(messages.WaitFailed(failure[0], 0.5))

    @precondition(lambda self: self.shell.running)
    @rule(found=FOUND, brings=st.booleans(), stray=st.booleans(), limited_ms=st.sampled_from([0, 0, 0, 700]))
    def job_ends(self, found: Taken, brings: bool, stray: bool, limited_ms: int) -> None:
        """A job ends, with or without another that came along."""
        brings = brings and self.shell.state.takes_more
        self.shell.reported(found if brings else None, stray=stray and not brings, limited_ms=limited_ms)

    @precondition(lambda self: self.shell.running)
    @rule(count=st.integers(1, 4), brought=st.integers(0, 4), rest=st.one_of(st.none(), FOUND))
    def jobs_end_together(self, count: int, brought: int, rest: Taken | None) -> None:
        """Several jobs end by one call, with or without others that came along."""
        count = min(count, self.shell.running)
        brought = min(brought, self.shell.state.room_for(count))
        rest = None if rest is None or rest.job is not None or brought == count else rest
        self.shell.reported_together(count, brought, rest)

    @precondition(lambda self: self.shell.checks)
    @rule()
    def check_ends(self) -> None:
        """A look for stalled jobs ends."""
        self.shell.checked()

    @rule(ms=st.sampled_from([1, 20, 300, 4_000, 40_000]))
    def time_passes(self, ms: int) -> None:
        """Time passes."""
        self.shell.pass_time(ms)

    @rule()
    def host_pauses(self) -> None:
        """The host pauses the worker."""
        self.shell.tell(messages.Paused())

    @rule()
    def host_resumes(self) -> None:
        """The host resumes the worker."""
        self.shell.tell(messages.Resumed())

    @rule(count=st.integers(1, 4))
    def host_changes_concurrency(self, count: int) -> None:
        """The host changes the concurrency."""
        self.most = max(self.most, count)
        self.shell.tell(messages.ConcurrencyChanged(count))

    @rule(timeout_ms=st.one_of(st.none(), st.sampled_from([0, 500])))
    def host_closes(self, timeout_ms: int | None) -> None:
        """The host closes the worker."""
        self.shell.tell(messages.Closed(timeout_ms))

    @invariant()
    def counts_are_right(self) -> None:
        """The state counts what is really under way."""
        shell, state = self.shell, self.shell.state
        assert shell.running == state.running
        assert (shell.taking.count if isinstance(shell.taking, messages.Fetch) else shell.taking is not None) == (
            state.fetching
        )
        assert len(shell.blocks) == state.waiting
        assert shell.checks == state.checking

    @invariant()
    def slots_suffice(self) -> None:
        """No more jobs run than the worker ever had slots."""
        assert self.shell.running + self.shell.state.fetching <= self.most

    @invariant()
    def nothing_is_taken_when_it_must_not_be(self) -> None:
        """No take and no wait begins while paused, limited or closing, and no take while resting."""
        state = self.shell.state
        for action in self.shell.last:
            if isinstance(action, messages.Fetch | messages.Wait):
                assert state.phase is Phase.OPEN
                assert not state.paused
                assert not state.limited_until
                assert not state.retry_at
            if isinstance(action, messages.Run | messages.RunAll):
                assert state.phase is Phase.OPEN

    @invariant()
    def it_never_sleeps_for_ever(self) -> None:
        """An open worker with a free slot has something under way, or an alarm set."""
        state = self.shell.state
        if state.phase is Phase.OPEN and not state.paused and state.free > 0:
            assert state.fetching or state.waiting or alarm_at(state)

    @invariant()
    def it_ends_once(self) -> None:
        """The end is said once, and only when nothing is left."""
        assert self.shell.stops <= 1
        if self.shell.has_ended:
            assert not self.shell.running
            assert self.shell.taking is None
            assert not self.shell.blocks

    def teardown(self) -> None:
        """Closing ends, whatever came before, once all that is under way has ended."""
        if not hasattr(self, "shell"):
            return
        self.shell.tell(messages.Closed(None))
        for _ in range(50):
            if self.shell.has_ended:
                break
            if self.shell.taking is not None:
                self.shell.failed(ConnectionLost("gone", may_have_run=True), may_have_run=True)
            elif self.shell.running:
                self.shell.reported()
        assert self.shell.has_ended


TestMind = Mind.TestCase
TestMind.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
