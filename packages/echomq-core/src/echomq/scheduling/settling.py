"""From the outcome of an attempt to the calls that report it: a plan, run by the shell.

A report is repeated through outages, and only the report: the job's code is not
run again for a lost reply. A repeat that the server declines because the lock
is gone means that the first try got through, which is then asked for.

Source: protocol spec 03 section 5; 05 section 4.7.
"""

from collections.abc import Callable, Collection, Generator
from typing import Any, TypeAlias

import attrs

from echomq import replies
from echomq.call import Command, ScriptCall
from echomq.calls.fetch import Take, Taken, move_job_from_active_to_wait
from echomq.calls.finish import complete, fail, move_to_delayed, move_to_waiting_children, retry_job
from echomq.calls.query import get_job, is_finished
from echomq.calls.queue import rate_limit
from echomq.errors import (
    ConnectionClosed,
    ConnectionLost,
    JobHasFailedChildren,
    JobHasPendingChildren,
    JobNotFound,
    JobNotInState,
    LockMismatch,
    LockMissing,
    ReplyTimeout,
    ScriptError,
    ServerNotReady,
    ServerRefused,
)
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import WorkerOptions
from echomq.signals import WaitForChildren
from echomq.states import JobState

from .outcome import AwaitsChildren, Completed, Delayed, Failed, HandedBack, Outcome, Retried, brake_ms

__all__ = ["LetGo", "Settled", "Settling", "SitOut", "give_back", "insistently", "is_passing", "settle", "stray_jobs"]

_GONE = (JobNotFound, LockMissing, JobNotInState, LockMismatch)
_PASSING = frozenset({"OOM", "MISCONF", "NOREPLICAS"})
"""Refusals that end when an administrator acts; the rest of the passing ones are ServerNotReady."""


@attrs.frozen
class SitOut:
    """Rest before the next try, since the server cannot be reached or cannot serve.

    Attributes:
        error: What happened.
        failures: How often in a row; at least 1.
    """

    error: BaseException
    failures: int


@attrs.frozen(kw_only=True)
class Settled:
    """What became of a report.

    Attributes:
        taken: What came along; None if nothing was asked for, or nothing is known.
        limited_ms: Rest of a rate limit.
        stray: A reply was lost that may have brought a job.
        lost: The job was not ours any more; nothing was written.
        refused: The server refused this outcome; the attempt has failed with that error instead.
    """

    taken: Taken | None = None
    limited_ms: int = 0
    stray: bool = False
    lost: ScriptError | None = None
    refused: ScriptError | None = None


Settling: TypeAlias = Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, Settled]

_Insisting: TypeAlias = Generator[ScriptCall[Any] | Command[Any] | SitOut, Any, tuple[Any, bool]]


class LetGo(ReplyTimeout):
    """A worker that closes waits no longer for the reply of a take; its server may be well, and only slow."""

    def __init__(self) -> None:
        super().__init__(
            "a take was not answered in time, and is not waited for; "
            "a job that it may yet bring is recovered when its lock has run out"
        )


def is_passing(error: BaseException) -> bool:
    """Tell whether an error ends by itself, so that trying again makes sense."""
    if isinstance(error, ConnectionLost):
        return not isinstance(error, ConnectionClosed)
    return isinstance(error, ServerNotReady) or (isinstance(error, ServerRefused) and error.prefix in _PASSING)


def insistently(call: ScriptCall[Any] | Command[Any], *, may_have_run: bool = False) -> _Insisting:
    """Send a call until it is answered.

    Args:
        call: What to send.
        may_have_run: It was sent before, and its reply was lost.

    Returns:
        The decoded reply and False; or None and True if the server declined a repeat as
        the first try, whose reply was lost, would make it.

    Raises:
        EchoMQError: Whatever does not pass by itself.
    """
    failures = 0
    while True:
        try:
            return (yield call), False
        except (ConnectionLost, ServerRefused) as error:
            if not is_passing(error):
                raise
            may_have_run = may_have_run or getattr(error, "may_have_run", False)
            failures += 1
            yield SitOut(error, failures)
        except _GONE:
            if not may_have_run:
                raise
            return None, True


def settle(
    job: Job,
    outcome: Outcome,
    take: Take,
    options: WorkerOptions,
    *,
    fetch: bool,
    now_ms: int,
    is_repeated: bool = False,
) -> Settling:
    """Report how an attempt ended.

    Args:
        job: As taken.
        outcome: How.
        take: The slot's.
        options: The worker's.
        fetch: Bring the next job along if that costs no call.
        now_ms: The present on the wall clock.
        is_repeated: It was reported before that the job is done, and that reply was lost; it may have brought
            a job along.

    Raises:
        EchoMQError: The server refused for a reason that neither passes nor concerns the job.
    """
    try:
        if is_repeated and isinstance(outcome, Completed):
            return (yield from _complete(job, outcome, take, options, fetch, now_ms, is_repeated=True))
        return (yield from _SETTLE[type(outcome)](job, outcome, take, options, fetch, now_ms))
    except _GONE as error:
        return Settled(lost=error)
    except (JobHasPendingChildren, JobHasFailedChildren) as error:
        return Settled(refused=error)


def _complete(
    job: Job,
    outcome: Completed,
    take: Take,
    options: WorkerOptions,
    fetch: bool,
    now_ms: int,
    *,
    is_repeated: bool = False,
) -> Settling:
    call = complete(
        job,
        outcome.value_json,
        take=take,
        keep=options.remove_on_complete,
        fetch=fetch,
        now_ms=now_ms,
        metrics_points=options.metrics,
    )
    return (yield from _finish(job, call, fetch, is_repeated=is_repeated))


def _fail(job: Job, outcome: Failed, take: Take, options: WorkerOptions, fetch: bool, now_ms: int) -> Settling:
    call = fail(
        job,
        outcome.reason,
        stacktrace=outcome.stacktrace,
        take=take,
        keep=options.remove_on_fail,
        fetch=fetch,
        now_ms=now_ms,
        metrics_points=options.metrics,
    )
    return (yield from _finish(job, call, fetch))


def _finish(job: Job, call: ScriptCall[Taken | None], fetch: bool, *, is_repeated: bool = False) -> Settling:
    taken, doubtful = yield from insistently(call, may_have_run=is_repeated)
    if not doubtful:
        return Settled(taken=(taken or Taken()) if fetch else None)
    fetch = fetch or is_repeated
    try:
        found, _ = yield from insistently(is_finished(job.keys, job.id))
    except JobNotFound:
        return Settled(stray=fetch)  # finished, and removed at once as its options say
    if found.state is None:
        return Settled(lost=LockMissing(call.script, job.id), stray=fetch)
    return Settled(stray=fetch)


def _retry(job: Job, outcome: Retried, take: Take, _: WorkerOptions, __: bool, now_ms: int) -> Settling:
    yield from insistently(
        retry_job(job, token=take.token, now_ms=now_ms, reason=outcome.reason, stacktrace=outcome.stacktrace)
    )
    return Settled()


def _delay(job: Job, outcome: Delayed, take: Take, _: WorkerOptions, fetch: bool, now_ms: int) -> Settling:
    taken, doubtful = yield from insistently(
        move_to_delayed(
            job,
            delay_ms=outcome.delay_ms,
            count_attempt=outcome.reason is not None,
            take=take,
            fetch=fetch,
            now_ms=now_ms,
            reason=outcome.reason,
            stacktrace=outcome.stacktrace,
        )
    )
    return Settled(taken=taken, stray=doubtful and fetch)


def _hand_back(job: Job, outcome: HandedBack, take: Take, _: WorkerOptions, __: bool, ___: int) -> Settling:
    if outcome.limit_ms:
        yield from insistently(rate_limit(job.keys, outcome.limit_ms))
    return (yield from give_back(job, take))


def give_back(job: Job, take: Take) -> Settling:
    """Let a job wait again, as the next in line, without using an attempt."""
    limited_ms, _ = yield from insistently(move_job_from_active_to_wait(job.keys, job.id, take.token))
    return Settled(limited_ms=limited_ms or 0)


def _await_children(
    job: Job, _: AwaitsChildren, take: Take, options: WorkerOptions, fetch: bool, now_ms: int
) -> Settling:
    moved, doubtful = yield from insistently(move_to_waiting_children(job, token=take.token, now_ms=now_ms))
    if moved or doubtful:
        return Settled()
    # No child is pending, so what it waits for has happened, or there never was a child.
    pause_ms = brake_ms(job)
    if pause_ms:
        return (
            yield from _delay(job, Delayed(delay_ms=pause_ms, error=WaitForChildren()), take, options, fetch, now_ms)
        )
    return (yield from give_back(job, take))


_SETTLE: dict[type[Any], Callable[..., Settling]] = {
    Completed: _complete,
    Failed: _fail,
    Retried: _retry,
    Delayed: _delay,
    HandedBack: _hand_back,
    AwaitsChildren: _await_children,
}


def stray_jobs(
    keys: Keys, owner: str, is_held: Callable[[], Collection[str]]
) -> Generator[Command[Any], Any, list[tuple[Job, str]]]:
    """Find active jobs that are locked for a worker and that it does not hold.

    Only after a lost reply: the list of active jobs is read whole. Replies on one
    connection come in order, so whatever a reply brought before the locks were
    read is held by the time they are compared.

    Args:
        keys: The queue.
        owner: What all tokens of the worker begin with.
        is_held: Ids of the jobs it holds, asked when the locks are known.

    Returns:
        Each job with the token of its lock.
    """
    ids = yield Command(parts=("LRANGE", keys.active, 0, -1), decode=replies.texts, repeatable=True)
    found = []
    for start in range(0, len(ids), _STEP):
        part = ids[start : start + _STEP]
        tokens = yield Command(parts=("MGET", *map(keys.lock, part)), decode=_optional_texts, repeatable=True)
        held = is_held()
        found += [
            (job_id, token)
            for job_id, token in zip(part, tokens, strict=False)
            if token is not None and token.startswith(owner) and job_id not in held
        ]
    jobs = []
    for job_id, token in found:
        job = yield get_job(keys, job_id)
        if job is not None:
            jobs.append((attrs.evolve(job, state=JobState.ACTIVE), token))
    return jobs


_STEP = 1_000


def _optional_texts(reply: Any) -> list[str | None]:
    return [replies.optional_text(item) for item in replies.items(reply)]
