"""Durations and moments as users give them, in the milliseconds of the wire.

A duration is a whole number of milliseconds or a ``timedelta``. A moment is an
aware ``datetime`` or milliseconds since the Unix epoch; a naive ``datetime`` is
refused, since it names a different moment on each machine.

Source: design.md section 2.
"""

import re
from datetime import datetime, timedelta, timezone

from .errors import InvalidOption, UsageError

__all__ = ["MAX_MS", "Duration", "Moment", "duration_ms", "moment_ms", "read_duration_ms", "to_datetime"]

Duration = int | timedelta
Moment = int | datetime

MAX_MS = 2**53 - 1
"""The last millisecond that every runtime can count."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_UNIT_MS = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(field: str, value: object, *, minimum: int = 0) -> int:
    """Return a duration in whole milliseconds.

    Raises:
        InvalidOption: Not an int or ``timedelta``, or below the minimum; names the field.
    """
    if isinstance(value, timedelta):
        value = value // _MILLISECOND
    if isinstance(value, datetime):
        raise InvalidOption(
            field,
            "expected milliseconds as int, or a timedelta, not a datetime; "
            "pass the time until then, moment - datetime.now(timezone.utc)",
        )
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(field, f"expected milliseconds as int, or a timedelta, not {value!r}")
    if value < minimum:
        raise InvalidOption(field, f"must be at least {minimum} ms, not {value}")
    return _countable(field, value)


def read_duration_ms(name: str, text: str) -> int:
    """Read ``1500``, ``500ms``, ``1.5s``, ``2m``, ``1h``, ``1d``.

    Args:
        name: What says so: an option of the command line, or a variable.
        text: The time.

    Raises:
        UsageError: It is something else.
    """
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{name}: expected milliseconds, or a number with ms, s, m, h or d, not {text!r}")
    return round(float(found[1]) * _UNIT_MS[found[2]])


def moment_ms(field: str, value: object) -> int:
    """Return a moment in milliseconds since the Unix epoch.

    Raises:
        InvalidOption: Not an int or aware ``datetime``, or before the epoch; names the field.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidOption(
                field,
                f"{value.isoformat()} has no time zone; pass an aware datetime, such as datetime.now(timezone.utc)",
            )
        value = (value - _EPOCH) // _MILLISECOND
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(field, f"expected an aware datetime, or milliseconds since the epoch as int, not {value!r}")
    if value < 0:
        raise InvalidOption(field, f"must not lie before 1970, but is {value} ms")
    return _countable(field, value)


def _countable(field: str, value: int) -> int:
    if value > MAX_MS:
        raise InvalidOption(field, f"must be at most {MAX_MS} ms, the largest number all runtimes share")
    return value


def to_datetime(value_ms: float | None) -> datetime | None:
    """Return milliseconds since the epoch as an aware UTC ``datetime``; None stays None."""
    return None if value_ms is None else _EPOCH + timedelta(milliseconds=value_ms)
