"""How long a failed job waits before its next attempt.

Source: protocol spec 05 section 5.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import attrs

from .errors import InvalidOption
from .moments import Duration, duration_ms

if TYPE_CHECKING:
    from .job import Job

__all__ = ["FAIL_NOW", "MAX_DELAY_MS", "Backoff", "BackoffStrategy", "next_delay_ms"]

MAX_DELAY_MS = 2**40
"""Longest wait, 34 years: a higher due time would lose its milliseconds in a score (01 section 5)."""

FAIL_NOW = -1
"""What a strategy answers to fail the job for good, whatever attempts are left."""

BackoffStrategy: TypeAlias = Callable[[int, str, BaseException, "Job"], int | Awaitable[int]]
"""Plain or ``async``; called with (attempts made, type of the backoff, error, job), answers ms, 0 or ``FAIL_NOW``."""


def _delay(value: Duration) -> int:
    return duration_ms("backoff.delay", value)


def _type(_: object, __: object, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidOption("backoff.type", f"expected 'fixed', 'exponential' or the name of a strategy, not {value!r}")


def _jitter(_: object, __: object, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidOption("backoff.jitter", f"must lie within 0 and 1, not {value!r}")


@attrs.frozen
class Backoff:
    """How the waits between attempts grow.

    Attributes:
        type: ``"fixed"``, ``"exponential"`` (doubles each time), or the name of a strategy of the worker.
        delay: First wait in ms (or a ``timedelta``).
        jitter: Part of the wait that is left to chance, 0 to 1.

    Source: protocol spec 05 sections 2.1 and 5.
    """

    type: str = attrs.field(default="fixed", validator=_type)
    delay: int = attrs.field(default=0, converter=_delay)
    jitter: float = attrs.field(default=0.0, validator=_jitter)


def next_delay_ms(
    backoff: Backoff | None,
    attempts_made: int,
    dice: float,
    strategies: Mapping[str, BackoffStrategy],
    error: BaseException,
    job: "Job",
) -> int:
    """Return how long to wait before the next attempt.

    Args:
        backoff: Of the job; None retries at once.
        attempts_made: How often the job has failed, this failure included: 1 after the first attempt.
        dice: Random number within 0 and 1, for the jitter.
        strategies: The worker's own, by type; one named ``fixed`` replaces ours.
        error: What the attempt raised, for the strategy.
        job: The job, for the strategy.

    Returns:
        Milliseconds, 0 for at once, or ``FAIL_NOW``.

    Raises:
        InvalidOption: Nobody knows that type, or the strategy answered something else than ms.
    """
    if backoff is None:
        return 0
    if strategy := strategies.get(backoff.type):
        return _answered(backoff.type, strategy(attempts_made, backoff.type, error, job))
    if backoff.type == "fixed":
        longest: int = backoff.delay
    elif backoff.type == "exponential":
        longest = backoff.delay << min(max(attempts_made - 1, 0), 40)
    else:
        known = ", ".join(sorted({"exponential", "fixed", *strategies}))
        raise InvalidOption(
            "backoff.type", f"{backoff.type!r} is neither built in nor a strategy of this worker; there are: {known}"
        )
    longest = min(longest, MAX_DELAY_MS)
    return math.floor(longest * (1 - backoff.jitter) + dice * longest * backoff.jitter)


def _answered(name: str, answer: object) -> int:
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not math.isfinite(answer):
        raise InvalidOption("backoff_strategies", f"strategy {name!r} must answer milliseconds, not {answer!r}")
    return max(FAIL_NOW, min(math.floor(answer), MAX_DELAY_MS))
