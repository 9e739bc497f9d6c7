"""How an outcome is reported, also through outages."""

from typing import Any

import pytest

from echomq.call import Command, ScriptCall
from echomq.calls.fetch import Taken
from echomq.calls.query import Finished
from echomq.errors import (
    ConnectionClosed,
    ConnectionLost,
    JobHasPendingChildren,
    JobNotFound,
    LockMismatch,
    LockMissing,
    ServerNotReady,
    ServerRefused,
)
from echomq.keys import Keys
from echomq.options import WorkerOptions
from echomq.scheduling.outcome import AwaitsChildren, Completed, Delayed, Failed, HandedBack, Outcome, Retried
from echomq.scheduling.settling import Settled, SitOut, settle, stray_jobs
from echomq.states import JobState
from support.shell import job, take

DONE = Completed(1, "1")
WHY: dict[str, Any] = {"reason": "x", "stacktrace": ("x",), "error": OSError("x")}
LOST = ConnectionLost("gone", may_have_run=True)
UNSENT = ConnectionLost("gone")


def name(request: Any) -> str:
    """A short name of what a plan asks for."""
    if isinstance(request, SitOut):
        return "rest"
    return request.script if isinstance(request, ScriptCall) else str(request.parts[0])


def play(plan: Any, *answers: Any) -> tuple[list[str], Any]:
    """Run a plan with these answers; exceptions are thrown; returns what it asked and its result."""
    asked: list[str] = []
    waiting = list(answers)
    try:
        request = plan.send(None)
        while True:
            asked.append(name(request))
            if isinstance(request, SitOut):
                request = plan.send(None)
                continue
            answer = waiting.pop(0)
            request = plan.throw(answer) if isinstance(answer, BaseException) else plan.send(answer)
    except StopIteration as end:
        assert not waiting
        return asked, end.value


def report(outcome: Outcome, *answers: Any, fetch: bool = True, is_repeated: bool = False) -> tuple[list[str], Settled]:
    """Report an outcome and return what was asked and what became of it."""
    plan = settle(job(), outcome, take(), WorkerOptions(), fetch=fetch, now_ms=1, is_repeated=is_repeated)
    return play(plan, *answers)


@pytest.mark.parametrize(
    ("outcome", "answers", "asked"),
    [
        (DONE, [Taken()], ["moveToFinished"]),
        (Failed(**WHY), [Taken()], ["moveToFinished"]),
        (Retried(**WHY), [None], ["retryJob"]),
        (Delayed(delay_ms=5, **WHY), [None], ["moveToDelayed"]),
        (HandedBack(), [0], ["moveJobFromActiveToWait"]),
        (HandedBack(700), [None, 700], ["SET", "moveJobFromActiveToWait"]),
        (AwaitsChildren(), [True], ["moveToWaitingChildren"]),
        (AwaitsChildren(), [False, 0], ["moveToWaitingChildren", "moveJobFromActiveToWait"]),
    ],
)
def test_calls_of_an_outcome(outcome: Outcome, answers: list[Any], asked: list[str]) -> None:
    """Each outcome is reported by its script, in one call where that is possible."""
    assert report(outcome, *answers)[0] == asked


def test_waiting_for_no_children_is_braked() -> None:
    """A job that waits for children it does not have is delayed once it has done so many times in a row."""
    plan = settle(job(attempts_started=9), AwaitsChildren(), take(), WorkerOptions(), fetch=False, now_ms=1)

    assert play(plan, False, None)[0] == ["moveToWaitingChildren", "moveToDelayed"]


def test_finish_that_found_nothing_says_so() -> None:
    """A finish that was asked for the next job and answers with none means that there is none."""
    assert report(DONE, None)[1] == Settled(taken=Taken())
    assert report(DONE, None, fetch=False)[1] == Settled()


def test_delay_that_found_nothing_says_nothing() -> None:
    """A move to delayed hides limits and due times, so that without a job a take must follow."""
    assert report(Delayed(delay_ms=5, **WHY), None)[1] == Settled()


def test_rest_of_a_limit_is_told() -> None:
    """What a rate limit still lasts comes with the job that was given back."""
    assert report(HandedBack(700), None, 650)[1] == Settled(limited_ms=650)


@pytest.mark.parametrize("error", [UNSENT, ServerNotReady("LOADING"), ServerRefused("OOM", prefix="OOM")])
def test_report_is_repeated_through_an_outage(error: Exception) -> None:
    """While the server cannot be reached or cannot serve, the report is repeated, not the job (pain 14)."""
    asked, settled = report(DONE, error, error, Taken())

    assert asked == ["moveToFinished", "rest", "moveToFinished", "rest", "moveToFinished"]
    assert settled == Settled(taken=Taken())


def test_rests_are_counted() -> None:
    """The second rest in a row knows that it is the second, so that it can be longer."""
    plan = settle(job(), DONE, take(), WorkerOptions(), fetch=True, now_ms=1)
    plan.send(None)
    rests = []
    for _ in range(2):
        rests.append(plan.throw(UNSENT))
        plan.send(None)

    assert [rest.failures for rest in rests if isinstance(rest, SitOut)] == [1, 2]


@pytest.mark.parametrize("refusal", [LockMissing("x"), LockMismatch("x"), JobNotFound("x")])
@pytest.mark.parametrize("found", [Finished(state=JobState.COMPLETED), JobNotFound("isFinished")])
def test_repeat_declined_after_success_is_success(refusal: Exception, found: Any) -> None:
    """A repeat that is declined, of a job that is finished or removed, means that the first try got through."""
    asked, settled = report(DONE, LOST, refusal, found)

    assert asked == ["moveToFinished", "rest", "moveToFinished", "isFinished"]
    assert settled == Settled(stray=True)


def test_repeat_declined_without_success_is_a_lost_lock() -> None:
    """A repeat that is declined, of a job that is not finished, means that the lock was lost."""
    settled = report(DONE, LOST, LockMissing("x"), Finished())[1]

    assert settled.lost is not None


def test_declined_first_try_is_a_lost_lock() -> None:
    """A first try that is declined wrote nothing, and no server is asked further."""
    asked, settled = report(DONE, LockMismatch("x"))

    assert asked == ["moveToFinished"]
    assert settled.lost is not None


def test_declined_after_unsent_try_is_a_lost_lock() -> None:
    """A try that certainly never left does not excuse a lost lock."""
    assert report(DONE, UNSENT, LockMissing("x"))[1].lost is not None


def test_lost_reply_of_a_retry_is_no_lost_lock() -> None:
    """A retry that is declined when repeated got through the first time."""
    assert report(Retried(**WHY), LOST, LockMissing("x"))[1] == Settled()
    assert report(Delayed(delay_ms=5, **WHY), LOST, LockMissing("x"))[1] == Settled(stray=True)


def test_pending_children_refuse_a_completion() -> None:
    """A job with pending children cannot complete, and that is the error its attempt failed with."""
    refused = report(DONE, JobHasPendingChildren("moveToFinished", "1"))[1].refused

    assert isinstance(refused, JobHasPendingChildren)


@pytest.mark.parametrize("error", [ConnectionClosed("closed"), ServerRefused("NOPERM", prefix="NOPERM")])
def test_what_does_not_pass_is_raised(error: Exception) -> None:
    """A closed connection or a missing right is not waited out."""
    with pytest.raises(type(error)):
        report(DONE, error)


def test_stray_jobs() -> None:
    """Of the active jobs those count that carry one of our tokens and that we do not hold."""
    tokens = ["me:1", "other:1", None, "me:2"]

    asked, found = play(stray_jobs(Keys("mail"), "me:", lambda: {"4"}), ["1", "2", "3", "4"], tokens, job(1))

    assert asked == ["LRANGE", "MGET", "HGETALL"]
    assert [(each.id, token) for each, token in found] == [("1", "me:1")]


def test_no_active_job_means_no_stray_one() -> None:
    """An empty list of active jobs needs no look at locks."""
    assert play(stray_jobs(Keys("mail"), "me:", set), []) == (["LRANGE"], [])


def test_locks_are_read_in_pieces() -> None:
    """A long list of active jobs is compared a thousand at a time (pain 18)."""
    plan = stray_jobs(Keys("mail"), "me:", set)
    plan.send(None)
    first = plan.send([str(number) for number in range(1_500)])

    assert isinstance(first, Command)
    assert len(first.parts) == 1_001


def test_repeated_report_that_is_declined_got_through() -> None:
    """A report that a batch made before is asked for if it is declined; the batch may have brought a job along."""
    found = Finished(state=JobState.COMPLETED)

    asked, settled = report(DONE, LockMissing("x"), found, fetch=False, is_repeated=True)

    assert asked == ["moveToFinished", "isFinished"]
    assert settled == Settled(stray=True)


def test_repeated_report_that_was_never_heard_is_the_first() -> None:
    """A report that did not arrive with its batch is simply made, also through an outage."""
    asked, settled = report(DONE, UNSENT, Taken(job=job(2)), is_repeated=True)

    assert asked == ["moveToFinished", "rest", "moveToFinished"]
    assert settled == Settled(taken=Taken(job=job(2)))
