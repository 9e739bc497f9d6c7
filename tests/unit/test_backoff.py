"""Waits between attempts."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq.backoff import FAIL_NOW, MAX_DELAY_MS, Backoff, next_delay_ms
from echomq.errors import InvalidOption
from echomq.job import Job
from echomq.keys import Keys

JOB = Job(keys=Keys("q"), id="1", name="n")
ERROR = ValueError("boom")


def delay(backoff: Backoff | None, attempts_made: int = 1, dice: float = 0.0, **strategies: Any) -> int:
    """The wait after so many failed attempts."""
    return next_delay_ms(backoff, attempts_made, dice, strategies, ERROR, JOB)


def test_no_backoff_retries_at_once() -> None:
    """A job without backoff is retried at once."""
    assert delay(None, 5) == 0


def test_fixed() -> None:
    """A fixed backoff waits the same each time."""
    assert [delay(Backoff("fixed", 100), n) for n in (1, 2, 9)] == [100, 100, 100]


def test_exponential() -> None:
    """An exponential backoff doubles, from its delay on."""
    assert [delay(Backoff("exponential", 100), n) for n in (1, 2, 3, 4)] == [100, 200, 400, 800]


@given(
    st.sampled_from(["fixed", "exponential"]),
    st.integers(0, 10**15),
    st.floats(0, 1),
    st.integers(0, 10_000),
    st.floats(0, 1),
)
def test_bounds(kind: str, base: int, jitter: float, attempts: int, dice: float) -> None:
    """Whatever the numbers, a wait is whole, bounded, and its jitter only shortens it."""
    longest = delay(Backoff(kind, base), attempts)
    shortest = math.floor(longest * (1 - jitter))

    assert shortest - 1 <= delay(Backoff(kind, base, jitter), attempts, dice) <= longest <= MAX_DELAY_MS


def test_strategy() -> None:
    """A strategy of the worker is asked with attempts, type, error and job, and answers ms or "fail now"."""
    asked: list[Any] = []

    def mine(*arguments: Any) -> int:
        asked.append(arguments)
        return 7

    assert delay(Backoff("mine"), 3, mine=mine) == 7
    assert asked == [(3, "mine", ERROR, JOB)]
    assert delay(Backoff("mine"), mine=lambda *_: FAIL_NOW) == -1
    assert delay(Backoff("mine"), mine=lambda *_: -50) == -1
    assert delay(Backoff("fixed", 5), fixed=lambda *_: 9.9) == 9


@pytest.mark.parametrize("answer", [None, "5", True, math.nan, math.inf])
def test_strategy_answers_nonsense(answer: Any) -> None:
    """A strategy that does not answer ms is named."""
    with pytest.raises(InvalidOption, match="'mine' must answer milliseconds"):
        delay(Backoff("mine"), mine=lambda *_: answer)


def test_unknown_type() -> None:
    """A type nobody knows is an error that names it, not a job that hangs."""
    with pytest.raises(
        InvalidOption, match="'other' is neither built in nor a strategy of this worker; there are: exponential, fixed"
    ):
        delay(Backoff("other", 5))
