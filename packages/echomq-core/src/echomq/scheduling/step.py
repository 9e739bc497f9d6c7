"""The worker's whole mind: what happened goes in, what to do comes out.

The rules it keeps, whatever the order of events:

* One take at a time, for all slots that are free, and it holds them; one wait at a
  time. A finish brings the next job along, so takes only fill slots that are free.
* No take and no wait while paused, rate limited, closing, or resting after a failure.
* After a take that found nothing, wait; after a wait, and when a delayed job is
  due, take. After a failed wait, take, since a marker may have been popped and lost.
* After a lost reply, look for the job it may have brought before taking another.
* Closing takes nothing, gives back what comes too late, and ends when the last slot is free.

Source: design.md section 5; protocol spec 05 sections 4.3 to 4.8.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from echomq.calls.batches import MOST_JOBS
from echomq.calls.fetch import Take, Taken
from echomq.errors import ConnectionClosed
from echomq.job import Job

from .messages import (
    Action,
    Adopt,
    Adopted,
    Announce,
    CheckStalled,
    Closed,
    Complain,
    ConcurrencyChanged,
    Cut,
    Failed,
    Fetch,
    Fetched,
    GiveBack,
    Happened,
    Marked,
    NotFetched,
    Paused,
    Reported,
    ReportedTogether,
    Resumed,
    Run,
    RunAll,
    StalledChecked,
    Started,
    Stop,
    StopFetching,
    StopWaiting,
    Ticked,
    Wait,
    WaitFailed,
)
from .settling import is_passing
from .state import Phase, WorkerState
from .timing import due_at, pause_ms, wait_ms

__all__ = ["LET_GO_MS", "Step", "step"]

Step: TypeAlias = tuple[WorkerState, tuple[Action, ...]]

LET_GO_MS = 1_000
"""How long a close waits for the reply of a take; a server that answers at all answers long before."""


def step(state: WorkerState, happened: Happened, now_ms: int) -> Step:
    """Return the next state and what to do.

    Args:
        state: Before.
        happened: What.
        now_ms: The present, on a clock that never jumps.
    """
    return _RULES[type(happened)](state, happened, now_ms)


# -- what happened ------------------------------------------------------------------------------


def _started(state: WorkerState, _: Started, now_ms: int) -> Step:
    return _decide(state.but(check_at=now_ms), now_ms)


def _fetched(state: WorkerState, happened: Fetched, now_ms: int) -> Step:
    told: tuple[Action, ...] = () if state.ready else (Announce("ready"),)
    taken, found = happened.taken, happened.before
    if taken.job is not None:
        found = (*found, (taken.job, happened.take))
    state = state.but(fetching=0, ready=True, failures=0, retry_at=0, let_go_at=0)
    if found:
        state = state.but(running=state.running + len(found), empty=False, drained=False, next_delayed_at=0)
        told = (*told, *(action for job, take in found for action in _use(state, job, take)))
    if taken.job is None:
        return _found_nothing(state, taken, happened.wall_ms, now_ms, told)
    return _then(state, now_ms, told)


def _reported(state: WorkerState, happened: Reported, now_ms: int) -> Step:
    taken = happened.taken
    if taken is not None and taken.job is not None:
        if state.empty or state.drained:
            state = state.but(empty=False, drained=False)
        return state, _use(state, taken.job, happened.take)
    state = state.but(running=state.running - 1, stray=state.stray or happened.stray)
    if happened.limited_ms:
        state = state.but(limited_until=_limited(state, happened.limited_ms, now_ms))
    if taken is not None:
        return _found_nothing(state, taken, happened.wall_ms, now_ms, ())
    # The job may have gone back to wait, and who puts it there leaves no marker where one is.
    return _decide(state.but(empty=False), now_ms)


def _reported_together(state: WorkerState, happened: ReportedTogether, now_ms: int) -> Step:
    found = happened.found
    told = _use_all(state, found) if found else ()
    if found and (state.empty or state.drained):
        state = state.but(empty=False, drained=False)
    if len(found) == happened.count:
        return state, told
    state = state.but(running=state.running - happened.count + len(found))
    if happened.rest is not None:
        return _found_nothing(state, happened.rest, happened.wall_ms, now_ms, told)
    return _then(state.but(empty=False), now_ms, told)


def _found_nothing(state: WorkerState, taken: Taken, wall_ms: int, now_ms: int, told: tuple[Action, ...]) -> Step:
    if taken.limited_ms:
        return _then(state.but(limited_until=_limited(state, taken.limited_ms, now_ms)), now_ms, told)
    if not state.drained:
        told = (*told, Announce("drained"))
    next_ms = taken.next_delayed_at_ms
    next_at = due_at(next_ms, wall_ms, now_ms) if next_ms else 0
    return _then(state.but(empty=True, drained=True, next_delayed_at=next_at), now_ms, told)


def _failed(state: WorkerState, happened: Failed, now_ms: int) -> Step:
    # A search is repeated after an outage, but not while closing, nor where the server forbids it: what it
    # would have found is recovered as stalled.
    searches = happened.may_have_run or ((state.stray or state.searching) and is_passing(happened.error))
    state = state.but(
        fetching=0,
        searching=False,
        let_go_at=0,
        stray=searches and state.phase is Phase.OPEN,
        failures=state.failures + 1,
        retry_at=now_ms + pause_ms(state.failures + 1, happened.dice),
    )
    return _complain(state, happened.error, state.failures + state.wait_failures, now_ms)


def _not_fetched(state: WorkerState, _: NotFetched, now_ms: int) -> Step:
    return _decide(state.but(fetching=0, let_go_at=0, empty=False), now_ms)


def _wait_failed(state: WorkerState, happened: WaitFailed, now_ms: int) -> Step:
    state = state.but(
        waiting=False,
        empty=False,
        wait_failures=state.wait_failures + 1,
        retry_at=now_ms + pause_ms(state.wait_failures + 1, happened.dice),
    )
    return _complain(state, happened.error, state.failures + state.wait_failures, now_ms)


def _complain(state: WorkerState, error: BaseException, failures: int, now_ms: int) -> Step:
    if isinstance(error, ConnectionClosed):
        state, actions = _closed(state, Closed(None), now_ms)
        return state, (Complain(error), *actions)
    return _then(state, now_ms, (Complain(error),) if failures == 1 else ())


def _marked(state: WorkerState, happened: Marked, now_ms: int) -> Step:
    state = state.but(waiting=False, wait_failures=0)
    if not happened.score:
        return _decide(state.but(empty=False, next_delayed_at=0), now_ms)
    at = due_at(happened.score, happened.wall_ms, now_ms)
    known = state.next_delayed_at
    return _decide(state.but(next_delayed_at=min(at, known) if known else at), now_ms)


def _adopted(state: WorkerState, happened: Adopted, now_ms: int) -> Step:
    state = state.but(
        fetching=0, searching=False, failures=0, retry_at=0, let_go_at=0, running=state.running + len(happened.found)
    )
    return _then(state, now_ms, tuple(action for job, take in happened.found for action in _use(state, job, take)))


def _stalled_checked(state: WorkerState, _: StalledChecked, now_ms: int) -> Step:
    return _decide(state.but(checking=False, check_at=now_ms + state.pace.stalled_ms), now_ms)


def _paused(state: WorkerState, _: Paused, now_ms: int) -> Step:
    return _decide(state.but(paused=True), now_ms)


def _resumed(state: WorkerState, _: Resumed, now_ms: int) -> Step:
    # What was added meanwhile may have found its marker popped.
    return _decide(state.but(paused=False, empty=False), now_ms)


def _concurrency_changed(state: WorkerState, happened: ConcurrencyChanged, now_ms: int) -> Step:
    return _decide(state.but(concurrency=happened.concurrency), now_ms)


def _closed(state: WorkerState, happened: Closed, now_ms: int) -> Step:
    if state.phase in (Phase.CUT, Phase.ENDED):
        return state, ()
    told: tuple[Action, ...] = (Announce("closing"),) if state.phase is Phase.OPEN else ()
    cut_at = state.cut_at
    if happened.timeout_ms is not None:
        wanted = now_ms + happened.timeout_ms
        cut_at = min(cut_at, wanted) if cut_at else wanted
    # A forced close waits as well: what the reply brings would else be locked until its lock runs out.
    let_go_at = (state.let_go_at or now_ms + LET_GO_MS) if state.fetching else 0
    state = state.but(phase=Phase.CLOSING, cut_at=cut_at, let_go_at=let_go_at, limited_until=0, retry_at=0)
    return _then(state, now_ms, told)


def _ticked(state: WorkerState, _: Ticked, now_ms: int) -> Step:
    return _decide(state, now_ms)


# -- what to do ---------------------------------------------------------------------------------


def _use(state: WorkerState, job: Job, take: Take) -> tuple[Action, ...]:
    if state.phase is Phase.OPEN:
        return (Run(job, take),)
    give_back = GiveBack(job, take)
    return (give_back, Cut()) if state.phase is Phase.CUT else (give_back,)


def _use_all(state: WorkerState, found: tuple[tuple[Job, Take], ...]) -> tuple[Action, ...]:
    if state.phase is Phase.OPEN:
        return (RunAll(found),)
    return tuple(action for job, take in found for action in _use(state, job, take))


def _limited(state: WorkerState, limited_ms: int, now_ms: int) -> int:
    return now_ms + min(limited_ms, state.pace.limit_ms)


def _then(state: WorkerState, now_ms: int, first: tuple[Action, ...]) -> Step:
    state, actions = _decide(state, now_ms)
    return state, (*first, *actions)


def _decide(state: WorkerState, now_ms: int) -> Step:
    """Return what follows from the state alone."""
    if state.limited_until or state.retry_at:
        state = _past_over(state, now_ms)
    if state.phase is not Phase.OPEN:
        return _close(state, now_ms)
    if state.paused:
        return _end_wait(state)
    state, checks = _check(state, now_ms)
    state, takes = _occupy(state, now_ms)
    return state, (*checks, *takes)


def _past_over(state: WorkerState, now_ms: int) -> WorkerState:
    if 0 < state.limited_until <= now_ms:
        state = state.but(limited_until=0, empty=False)
    if 0 < state.retry_at <= now_ms:
        state = state.but(retry_at=0)
    return state


def _check(state: WorkerState, now_ms: int) -> Step:
    if state.checking or not state.pace.stalled_ms or now_ms < state.check_at:
        return state, ()
    return state.but(checking=True), (CheckStalled(),)


def _occupy(state: WorkerState, now_ms: int) -> Step:
    """Give free slots something to do: a take, a search, or the one wait."""
    if state.fetching or state.free <= 0 or state.retry_at:
        return state, ()
    if state.stray:
        return state.but(fetching=1, stray=False, searching=True), (Adopt(),)
    if state.limited_until:
        return state, ()
    if state.pace.until_drained and _is_drained(state, now_ms):
        return _closed(state, Closed(None), now_ms)
    if state.waiting:
        # A server ends blocked reads ten times a second: what is due sooner is taken beside the read.
        if not 0 < state.next_delayed_at <= now_ms:
            return state, ()
        return _fetch(state)
    block_ms = wait_ms(state, now_ms) if state.empty else 0
    if block_ms:
        return state.but(waiting=True), (Wait(block_ms),)
    return _fetch(state)


def _fetch(state: WorkerState) -> Step:
    count = min(state.free, MOST_JOBS)
    return state.but(fetching=count, next_delayed_at=0), (Fetch(count),)


def _is_drained(state: WorkerState, now_ms: int) -> bool:
    """Tell whether nothing runs, nothing waits, and nothing is due within one wait."""
    if not state.empty or state.running:
        return False
    return not state.next_delayed_at or state.next_delayed_at - now_ms > state.pace.drain_ms


def _end_wait(state: WorkerState) -> Step:
    return (state.but(waiting=False), (StopWaiting(),)) if state.waiting else (state, ())


def _close(state: WorkerState, now_ms: int) -> Step:
    if state.phase is Phase.ENDED:
        return state, ()
    state, actions = _end_wait(state)
    if 0 < state.let_go_at <= now_ms:
        state, actions = state.but(let_go_at=0), (*actions, StopFetching())
    if state.stray and not state.fetching:
        state, actions = (
            state.but(fetching=1, stray=False, searching=True, let_go_at=now_ms + LET_GO_MS),
            (*actions, Adopt()),
        )
    if state.phase is Phase.CLOSING and 0 < state.cut_at <= now_ms:
        state, actions = state.but(phase=Phase.CUT), (*actions, *((Cut(),) if state.running else ()))
    if not state.running and not state.fetching:
        state, actions = state.but(phase=Phase.ENDED, cut_at=0, let_go_at=0), (*actions, Stop())
    return state, actions


_RULES: dict[type[Any], Callable[[WorkerState, Any, int], Step]] = {
    Started: _started,
    Fetched: _fetched,
    Failed: _failed,
    NotFetched: _not_fetched,
    Marked: _marked,
    WaitFailed: _wait_failed,
    Reported: _reported,
    ReportedTogether: _reported_together,
    Adopted: _adopted,
    StalledChecked: _stalled_checked,
    Paused: _paused,
    Resumed: _resumed,
    ConcurrencyChanged: _concurrency_changed,
    Closed: _closed,
    Ticked: _ticked,
}
