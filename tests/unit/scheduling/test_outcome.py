"""What an attempt's end means for its job."""

import json
from typing import Any

import pytest

from echomq.backoff import FAIL_NOW
from echomq.errors import InvalidOption
from echomq.job import Job
from echomq.options import WorkerOptions, worker_options
from echomq.scheduling.outcome import (
    AwaitsChildren,
    Completed,
    Delayed,
    Failed,
    HandedBack,
    Retried,
    brake_ms,
    failure_of,
    has_attempt_left,
    of_error,
    of_result,
    of_unknown_backoff,
    refusal,
)
from echomq.signals import Delay, RateLimited, Unrecoverable, Wait, WaitForChildren
from support.shell import job

DEFAULT = WorkerOptions()


def judged(job: Job, error: BaseException, *, strategies: Any = None, **options: Any) -> Any:
    """The outcome of an attempt that raised, with the dice in the middle."""
    return of_error(job, error, options=worker_options(**options), dice=0.5, strategies=strategies or {})


def with_options(attempts_made: int = 0, **wire: Any) -> Job:
    """A job that was added with these options, in wire spelling."""
    return job(attempts_made=attempts_made, raw_options=json.dumps(wire))


def test_result_is_json() -> None:
    """A returned value becomes compact JSON text."""
    assert of_result(job(), {"sent": [1, None]}) == Completed({"sent": [1, None]}, '{"sent":[1,null]}')


@pytest.mark.parametrize("value", [float("nan"), {"when": object()}, {1: 2}, b"bytes"])
def test_result_that_is_not_json_fails_at_once(value: object) -> None:
    """A result without a JSON form fails the job whatever attempts are left, and names the job (pain 56)."""
    outcome = of_result(with_options(attempts=5), value)

    assert isinstance(outcome, Failed)
    assert "result of job 1" in outcome.reason


def test_failure_without_attempts_is_final() -> None:
    """A job that was given one attempt fails for good, with its message and stack trace."""
    outcome = judged(job(), ValueError("no such address"))

    assert isinstance(outcome, Failed)
    assert outcome.reason == "no such address"
    assert outcome.stacktrace[-1].strip().endswith("ValueError: no such address")


class _Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_error_without_text_fails_its_job() -> None:
    """An exception that cannot say what it is fails the attempt like any other, by the name of its type."""
    outcome = judged(job(), _Untellable())

    assert isinstance(outcome, Failed)
    assert outcome.reason == "_Untellable"
    assert "_Untellable" in outcome.stacktrace[-1]


def test_failure_with_attempts_is_retried() -> None:
    """Without a backoff the next attempt follows at once, and the last one is final."""
    assert isinstance(judged(with_options(0, attempts=3), OSError("x")), Retried)
    assert isinstance(judged(with_options(1, attempts=3), OSError("x")), Retried)
    assert isinstance(judged(with_options(2, attempts=3), OSError("x")), Failed)


@pytest.mark.parametrize(
    ("backoff", "made", "delay_ms"),
    [
        (700, 0, 700),
        ({"type": "fixed", "delay": 700}, 3, 700),
        ({"type": "exponential", "delay": 100}, 0, 100),
        ({"type": "exponential", "delay": 100}, 3, 800),
        ({"type": "fixed", "delay": 1000, "jitter": 0.5}, 0, 750),
    ],
)
def test_backoff_delays_the_next_attempt(backoff: Any, made: int, delay_ms: int) -> None:
    """Fixed, exponential and jittered backoffs say how long the next attempt waits."""
    outcome = judged(with_options(made, attempts=9, backoff=backoff), OSError("x"))

    assert isinstance(outcome, Delayed)
    assert outcome.delay_ms == delay_ms
    assert outcome.reason == "x"


def test_strategy_decides() -> None:
    """A strategy of the worker may delay, retry at once, or fail the job for good."""
    ask = with_options(attempts=9, backoff={"type": "mine", "delay": 1})

    outcomes = [judged(ask, OSError("x"), strategies={"mine": lambda *_, n=n: n}) for n in (5, 0, FAIL_NOW)]

    assert [type(outcome) for outcome in outcomes] == [Delayed, Retried, Failed]


def test_unknown_backoff_is_taken_as_fixed() -> None:
    """A job whose backoff nobody knows waits its plain delay, or retries at once without one."""
    outcome = of_unknown_backoff(with_options(attempts=9, backoff={"type": "other", "delay": 40}), OSError("x"))

    assert isinstance(outcome, Delayed)
    assert outcome.delay_ms == 40
    assert isinstance(of_unknown_backoff(with_options(attempts=9), OSError("x")), Retried)


def test_unrecoverable_fails_whatever_is_left() -> None:
    """Unrecoverable ends the job, whatever attempts are left."""
    assert isinstance(judged(with_options(attempts=9), Unrecoverable("bad address")), Failed)


def test_error_of_an_unrecoverable_class_is_final() -> None:
    """An error of a class that the worker calls unrecoverable, or of a class below it, ends the job."""
    many = with_options(attempts=9)

    assert isinstance(judged(many, KeyError("x"), unrecoverable=LookupError), Failed)
    assert isinstance(judged(many, KeyError("x"), unrecoverable=[OSError, LookupError]), Failed)
    assert isinstance(judged(many, KeyError("x"), unrecoverable=OSError), Retried)


@pytest.mark.parametrize("wrong", ["ValueError", ValueError("x"), [int], Unrecoverable, BaseException, 5, None])
def test_what_is_no_class_of_errors(wrong: object) -> None:
    """What is no class of errors, or is a signal, is refused with the option's name."""
    with pytest.raises(InvalidOption, match="unrecoverable: expected classes of errors"):
        worker_options(unrecoverable=wrong)


class _Moody(type):
    """A class of classes that answers no question, once it is in the mood."""

    is_moody = False

    def __instancecheck__(cls, _: object) -> bool:
        if cls.is_moody:
            raise KeyError("not now")
        return False


class _MoodyError(Exception, metaclass=_Moody):
    """An error that cannot be asked after."""


def test_class_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class whose isinstance raises is refused when the worker is made; later it only is no class of the error."""
    many = with_options(attempts=9)
    assert isinstance(judged(many, OSError("x"), unrecoverable=[_MoodyError, OSError]), Failed)
    assert isinstance(judged(many, OSError("x"), unrecoverable=_MoodyError), Retried)

    options = worker_options(unrecoverable=[_MoodyError, LookupError])
    monkeypatch.setattr(_Moody, "is_moody", True)
    assert has_attempt_left(many, OSError("x"), options)
    assert not has_attempt_left(many, KeyError("x"), options)
    with pytest.raises(InvalidOption, match="_MoodyError cannot tell whether an error is one: it raised KeyError"):
        worker_options(unrecoverable=_MoodyError)


def test_signals_use_no_attempt() -> None:
    """Delay, Wait, WaitForChildren and RateLimited steer the job without a failure."""
    delayed = judged(job(), Delay(5_000))

    assert (delayed.delay_ms, delayed.reason) == (5_000, None)
    assert judged(job(), Wait()) == HandedBack()
    assert judged(job(), RateLimited(800)) == HandedBack(800)
    assert judged(job(), WaitForChildren()) == AwaitsChildren()
    assert failure_of(delayed) is None


def test_started_too_often_is_final() -> None:
    """With max_started_attempts a job that was started that often is not retried."""
    often = job(attempts_started=2, raw_options='{"attempts":9}')

    assert isinstance(judged(often, OSError("x"), max_started_attempts=2), Failed)
    assert isinstance(judged(often, OSError("x"), max_started_attempts=3), Retried)


def test_refused_jobs() -> None:
    """A job marked as failed, or started too often, is refused with the reason other clients store."""
    assert refusal(job(deferred_failure="job stalled more than allowable limit"), DEFAULT) == (
        "job stalled more than allowable limit"
    )
    assert refusal(job(attempts_started=3), worker_options(max_started_attempts=2)) == (
        "job started more than allowable limit"
    )
    assert refusal(job(attempts_started=3), DEFAULT) is None


def test_stack_traces_are_kept_up_to_the_limit() -> None:
    """The newest stack trace comes last, and stack_trace_limit keeps the last ones, or none."""
    earlier = '["one","two"]'

    kept = [
        judged(job(raw_stacktrace=earlier, raw_options=json.dumps({"stackTraceLimit": limit})), OSError("x")).stacktrace
        for limit in (2, 0)
    ]

    assert [len(rows) for rows in kept] == [2, 0]
    assert kept[0][0] == "two"


def test_message_that_utf8_cannot_express_is_stored() -> None:
    """A lone surrogate in a message does not keep the failure from being stored."""
    outcome = judged(job(), ValueError("bad \ud800"))

    assert outcome.reason == "bad \\ud800"
    assert all(row.encode() for row in outcome.stacktrace)


def test_error_without_message_is_named() -> None:
    """An error without a text is stored by the name of its class."""
    assert judged(job(), TimeoutError()).reason == "TimeoutError"


def test_brake() -> None:
    """A job that hands itself back in vain goes first at once a few times, then rests ever longer, up to a second."""
    pauses = [brake_ms(job(attempts_started=starts)) for starts in range(1, 20)]

    assert pauses[:5] == [0] * 5
    assert pauses[5:9] == [20, 40, 80, 160]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 1_000
    assert brake_ms(job(attempts_started=20, attempts_made=12, stalled_count=4)) == 0


@pytest.mark.parametrize("signal", [Wait(), RateLimited(0)])
def test_signals_that_would_spin_are_braked(signal: BaseException) -> None:
    """Handing back for no time is done at once at first, and after many times in a row by a short delay."""
    assert judged(job(attempts_started=1), signal) == HandedBack()
    assert judged(job(attempts_started=7), signal) == Delayed(delay_ms=40, error=signal)
    assert judged(job(attempts_started=7), RateLimited(500)) == HandedBack(500)
