"""How an attempt ended, and what that means for the job. Pure.

The shell runs the job's code; what came of it becomes one of these values, and
:mod:`echomq.scheduling.settling` turns the value into calls.

Source: protocol spec 05 sections 4.7 and 5.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from echomq.backoff import FAIL_NOW, BackoffStrategy, next_delay_ms
from echomq.codec import as_utf8, quick_json, strict_json
from echomq.errors import JobSignal, NotEncodable, RaisedInProcess
from echomq.job import Job
from echomq.options import WorkerOptions
from echomq.signals import Delay, JobCancelled, RateLimited, Unrecoverable, Wait, WaitForChildren
from echomq.stacktraces import stack_trace

__all__ = [
    "AwaitsChildren",
    "Completed",
    "Delayed",
    "Failed",
    "HandedBack",
    "Outcome",
    "Retried",
    "brake_ms",
    "failure_of",
    "has_attempt_left",
    "left_of_limit_s",
    "of_error",
    "of_result",
    "of_unknown_backoff",
    "refusal",
    "stopped_with",
    "time_limit_ms",
]

_HANDED_BACK_AT_ONCE = 5
_SHORTEST_BRAKE_MS = 20
_LONGEST_BRAKE_MS = 1_000

_STARTED_TOO_OFTEN = "job started more than allowable limit"


@attrs.frozen
class Completed:
    """The job is done.

    Attributes:
        value: What its code returned.
        value_json: The same as JSON text.
    """

    value: Any
    value_json: str


@attrs.frozen(kw_only=True)
class Failed:
    """The job has failed for good."""

    reason: str
    stacktrace: tuple[str, ...]
    error: BaseException


@attrs.frozen(kw_only=True)
class Retried:
    """The attempt failed, and another follows at once."""

    reason: str
    stacktrace: tuple[str, ...]
    error: BaseException


@attrs.frozen(kw_only=True)
class Delayed:
    """The job runs again later.

    Attributes:
        delay_ms: How much later.
        reason: Why the attempt failed; None: it did not, the job asked for it, and no attempt is used.
        stacktrace: All stack traces; None: as ``reason``.
        error: What was raised.
    """

    delay_ms: int
    reason: str | None = None
    stacktrace: tuple[str, ...] | None = None
    error: BaseException


@attrs.frozen
class HandedBack:
    """The job waits again, as the next in line; no attempt is used.

    Attributes:
        limit_ms: Let all workers of the queue rest for so long; 0: go on.
    """

    limit_ms: int = 0


@attrs.frozen
class AwaitsChildren:
    """The job waits for its children; no attempt is used."""


Outcome: TypeAlias = Completed | Failed | Retried | Delayed | HandedBack | AwaitsChildren


def failure_of(outcome: Outcome) -> BaseException | None:
    """Return what the attempt failed with; None if it did not fail."""
    if isinstance(outcome, Failed | Retried):
        return outcome.error
    return outcome.error if isinstance(outcome, Delayed) and outcome.reason is not None else None


def refusal(job: Job, options: WorkerOptions) -> str | None:
    """Return why a job must fail without being run, or None.

    Source: protocol spec 05 section 4.7, step 3.
    """
    if job.deferred_failure:
        return job.deferred_failure
    limit = options.max_started_attempts
    return _STARTED_TOO_OFTEN if limit is not None and job.attempts_started > limit else None


def time_limit_ms(job: Job, options: WorkerOptions) -> int | None:
    """Return how long one attempt may take: the job's own limit, else the worker's. None: no limit."""
    own, limit = job.options.timeout, options.timeout
    if own is not None:
        return own
    if limit is None or isinstance(limit, int):
        return limit
    return limit.get(job.name)


def left_of_limit_s(began_at_s: float, limit_ms: int, now_s: float) -> float:
    """Return how much is left of an attempt's limit of time, at most all of it; 0: it is over.

    Args:
        began_at_s: From when it counts; in the future while the job's process starts.
        limit_ms: The limit.
        now_s: The present, on the same clock.
    """
    limit_s = limit_ms / 1000
    return min(max(began_at_s + limit_s - now_s, 0.0), limit_s)


def stopped_with(verdict: BaseException, raised: BaseException | None) -> BaseException:
    """Return what an attempt failed with that was told to stop.

    Args:
        verdict: Why it was.
        raised: What its code raised then, if anything: a signal counts after a time limit, and is too late
            after a cancellation; an error is shown as the verdict's cause.
    """
    if isinstance(raised, JobSignal) and not isinstance(verdict, JobCancelled):
        return raised
    if raised is None or raised is verdict:
        return verdict
    if isinstance(raised, Exception):
        verdict.__cause__ = raised
        return verdict
    return verdict.with_traceback(raised.__traceback__)  # a cancellation: the stack trace tells where the code was


def of_result(job: Job, value: object) -> Outcome:
    """Return the outcome of an attempt that returned a value.

    A value that is not JSON fails the job at once, since another attempt would return it again.
    """
    value_json = quick_json(value)
    if value_json is None:
        try:
            value_json = strict_json(f"the result of job {job.id}", value)
        except NotEncodable as error:
            return _failed(job, error)
    return Completed(value, value_json)


def of_error(
    job: Job,
    error: BaseException,
    *,
    options: WorkerOptions,
    dice: float,
    strategies: Mapping[str, BackoffStrategy],
) -> Outcome:
    """Return the outcome of an attempt that raised.

    Args:
        job: As taken.
        error: What was raised; signals of :mod:`echomq.signals` steer.
        options: The worker's.
        dice: Random number from 0 to 1, for the jitter.
        strategies: The worker's backoff types that have answered, by name.

    Raises:
        InvalidOption: A strategy answered something that is no time.

    Source: protocol spec 05 sections 4.7 and 5.
    """
    if isinstance(error, Delay):
        return Delayed(delay_ms=error.delay_ms, error=error)
    if isinstance(error, RateLimited) and error.retry_after_ms:
        return HandedBack(error.retry_after_ms)
    if isinstance(error, Wait | RateLimited):
        pause_ms = brake_ms(job)
        return Delayed(delay_ms=pause_ms, error=error) if pause_ms else HandedBack()
    if isinstance(error, WaitForChildren):
        return AwaitsChildren()
    if not has_attempt_left(job, error, options):
        return _failed(job, error)
    delay_ms = next_delay_ms(job.options.backoff, job.attempts_made + 1, dice, strategies, error, job)
    if delay_ms == FAIL_NOW:
        return _failed(job, error)
    return _again(job, error, delay_ms)


def brake_ms(job: Job) -> int:
    """Return how long a job rests that hands itself back again and again without an attempt; 0: not at all.

    The first few times it is next in line at once, as the signals say; what waits in vain must not keep server
    and worker busy at full speed.
    """
    in_vain = job.attempts_started - job.attempts_made - job.stalled_count - _HANDED_BACK_AT_ONCE
    return 0 if in_vain <= 0 else min(_LONGEST_BRAKE_MS, _SHORTEST_BRAKE_MS << min(in_vain - 1, 10))


def has_attempt_left(job: Job, error: BaseException, options: WorkerOptions) -> bool:
    """Tell whether a job that raised this may run again."""
    if isinstance(error, Unrecoverable | NotEncodable) or any(_is_a(error, cls) for cls in options.unrecoverable):
        return False
    limit = options.max_started_attempts
    if limit is not None and job.attempts_started >= limit:
        return False
    return job.attempts_made + 1 < job.options.attempts


def _is_a(error: BaseException, cls: type[Exception]) -> bool:
    try:
        return isinstance(error, cls) or (isinstance(error, RaisedInProcess) and error.is_a(cls))
    except Exception:  # noqa: BLE001  # a metaclass may raise anything, and the attempt must fail as any other
        return False


def of_unknown_backoff(job: Job, error: BaseException) -> Outcome:
    """Return the outcome of a failed attempt whose wait nobody can compute: the plain delay, as if it were fixed."""
    backoff = job.options.backoff
    return _again(job, error, backoff.delay if backoff else 0)


def _again(job: Job, error: BaseException, delay_ms: int) -> Outcome:
    reason, stacktrace = _reason(error), _stacktrace(job, error)
    if delay_ms:
        return Delayed(delay_ms=delay_ms, reason=reason, stacktrace=stacktrace, error=error)
    return Retried(reason=reason, stacktrace=stacktrace, error=error)


def _failed(job: Job, error: BaseException) -> Failed:
    return Failed(reason=_reason(error), stacktrace=_stacktrace(job, error), error=error)


def _reason(error: BaseException) -> str:
    return _shown(error, str)


def _stacktrace(job: Job, error: BaseException) -> tuple[str, ...]:
    rows = (*job.stacktrace, _shown(error, stack_trace))
    limit = job.options.stack_trace_limit
    return rows if limit is None else rows[len(rows) - limit :] if limit else ()


def _shown(error: BaseException, show: Callable[[BaseException], str]) -> str:
    """Return an error as text that can be stored; the name of its type if it has none, or cannot make it."""
    try:
        shown = as_utf8(show(error))
    except Exception:  # noqa: BLE001  # a class may raise anything in __str__, and its job must fail all the same
        shown = ""
    return shown or type(error).__name__
