"""When schedulers' jobs are due."""

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from echomq.errors import InvalidOption
from echomq.repeat import Repeat, next_cron_ms, next_iteration

UTC = timezone.utc


def ms(text: str) -> int:
    """Milliseconds of an ISO moment, UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


CRON: list[tuple[str, str, str, str]] = [
    ("* * * * *", "UTC", "2026-01-01 00:00:00", "2026-01-01 00:01:00"),
    ("* * * * * *", "UTC", "2026-01-01 00:00:00.500", "2026-01-01 00:00:01"),
    ("*/15 * * * * *", "UTC", "2026-01-01 00:00:15", "2026-01-01 00:00:30"),
    ("30 5 * * *", "UTC", "2026-01-01 05:30:00", "2026-01-02 05:30:00"),
    ("0 0 12 * * MON-FRI", "UTC", "2026-01-02 13:00:00", "2026-01-05 12:00:00"),
    ("0 0 L * *", "UTC", "2026-02-01 00:00:00", "2026-02-28 00:00:00"),
    ("0 0 29 2 *", "UTC", "2026-01-01 00:00:00", "2028-02-29 00:00:00"),
    ("0 0 ? * 7", "UTC", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
    ("0 0 * * 5#3", "UTC", "2026-01-01 00:00:00", "2026-01-16 00:00:00"),
    ("0 0 1,15 * *", "UTC", "2026-01-02 00:00:00", "2026-01-15 00:00:00"),
    ("@hourly", "UTC", "2026-01-01 00:00:00", "2026-01-01 01:00:00"),
    ("@daily", "Europe/Berlin", "2026-01-01 12:00:00", "2026-01-01 23:00:00"),
    ("@WEEKLY", "UTC", "2026-01-01 00:00:00", "2026-01-04 00:00:00"),
    ("@yearly", "UTC", "2026-01-01 00:00:00", "2027-01-01 00:00:00"),
    ("0 9 * * *", "America/New_York", "2026-07-01 00:00:00", "2026-07-01 13:00:00"),
    ("0 0 */10 * MON", "UTC", "2026-01-02 00:00:00", "2026-01-05 00:00:00"),
    ("0 0 1 * */2", "UTC", "2026-01-02 00:00:00", "2026-01-03 00:00:00"),
    ("0-30/10 2 * * *", "America/New_York", "2026-03-08 07:00:00", "2026-03-08 07:10:00"),  # 02:10 is left out, too
    ("*/30 * * * *", "Europe/Berlin", "2026-10-25 00:30:00", "2026-10-25 01:00:00"),  # 02:00 comes again
    ("0 0 * * *", "Australia/Lord_Howe", "2026-10-03 13:30:00", "2026-10-04 13:00:00"),  # by half an hour
    ("0 0 * * *", "America/Santiago", "2026-09-05 04:00:00", "2026-09-06 04:00:00"),  # midnight is left out
    ("0 0 1 3-3/2 *", "UTC", "2026-01-02 00:00:00", "2026-03-01 00:00:00"),
]


@pytest.mark.parametrize(("pattern", "zone", "after", "expected"), CRON)
def test_next_match(pattern: str, zone: str, after: str, expected: str) -> None:
    """The next match lies strictly after the moment given, in the zone given."""
    assert next_cron_ms(pattern, ms(after), ZoneInfo(zone)) == ms(expected)


@pytest.mark.parametrize(
    "pattern", ["", "* * *", "* * * * * * *", "61 * * * *", "a b c d e", "@sometimes", "*/0 * * * *", "0 0 30 2 *"]
)
def test_bad_patterns(pattern: str) -> None:
    """A pattern that cannot be read is refused when it is said, not when it would be due."""
    with pytest.raises(InvalidOption) as caught:
        Repeat(pattern=pattern)

    assert caught.value.field == "pattern"


def test_rare_matches() -> None:
    """A match decades away is found, in reasonable time."""
    assert next_cron_ms("0 0 * 2 1#5", ms("2026-01-01"), UTC) == ms("2044-02-29")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "pattern"),
    ({"every": 5, "pattern": "* * * * *"}, "pattern"),
    ({"every": 0}, "every"),
    ({"every": 1.5}, "every"),
    ({"every": 5, "immediately": True, "start_date": 5}, "immediately"),
    ({"pattern": "* * * * *", "offset": 5}, "offset"),
    ({"every": 5, "limit": -1}, "limit"),
    ({"every": 5, "tz": "Mars/Base"}, "tz"),
    ({"every": 5, "tz": "../etc/passwd"}, "tz"),
    ({"every": 5, "start_date": datetime(2026, 1, 1)}, "start_date"),  # noqa: DTZ001  # that is the point
    ({"every": 5, "end_date": "soon"}, "end_date"),
]


@pytest.mark.parametrize(("given", "field"), REFUSED)
def test_refused(given: dict[str, Any], field: str) -> None:
    """A schedule that makes no sense is refused, naming the field."""
    with pytest.raises(InvalidOption) as caught:
        Repeat(**given)

    assert caught.value.field == field


NOW = ms("2026-01-01 12:00:30")
MINUTES = Repeat(pattern="* * * * *")


def slot(repeat: Repeat, **known: Any) -> int | None:
    """The slot of the next job, or None at the end."""
    iteration = next_iteration(repeat, now_ms=NOW, **known)
    return None if iteration is None else iteration.slot_ms


def test_pattern_slot() -> None:
    """A pattern's next job is due at the first match after now, or after the slot before."""
    assert slot(MINUTES) == ms("2026-01-01 12:01:00")
    assert slot(MINUTES, previous_ms=ms("2026-01-01 12:05:00")) == ms("2026-01-01 12:06:00")
    assert slot(MINUTES, previous_ms=ms("2026-01-01 11:00:00")) == ms("2026-01-01 12:01:00")


def test_start_and_end() -> None:
    """No job before the start (a start that matches is passed over), none after the end."""
    start = Repeat(pattern="* * * * *", start_date=ms("2026-01-01 13:00:00"))
    end = Repeat(pattern="0 0 * * *", end_date=ms("2026-01-01 18:00:00"))

    assert slot(start) == ms("2026-01-01 13:01:00")
    assert slot(end) is None
    assert next_iteration(Repeat(every=5, end_date=NOW - 1), now_ms=NOW) is None
    assert next_iteration(Repeat(every=5, end_date=NOW), now_ms=NOW) is not None


def test_immediately() -> None:
    """A first job wanted at once is due now, and the wish is not passed on to the next."""
    iteration = next_iteration(Repeat(pattern="0 0 * * *", immediately=True), now_ms=NOW)

    assert iteration is not None
    assert iteration.slot_ms == NOW
    assert not iteration.repeat.immediately


def test_limit() -> None:
    """Jobs are counted, and the last one is that of the limit."""
    first = next_iteration(Repeat(every=5, limit=2), now_ms=NOW)
    assert first is not None
    second = next_iteration(first.repeat, now_ms=NOW)
    assert second is not None

    assert (first.repeat.count, second.repeat.count) == (1, 2)
    assert next_iteration(second.repeat, now_ms=NOW) is None
    assert next_iteration(Repeat(every=5, limit=0), now_ms=NOW) is None


def test_interval_is_left_to_the_server() -> None:
    """An interval has no slot here: the script decides it."""
    assert slot(Repeat(every=timedelta(minutes=1))) is None


def test_local_zone() -> None:
    """A pattern without zone is meant in the local zone it is given; its own zone wins."""
    local = ZoneInfo("Asia/Tokyo")

    assert slot(Repeat(pattern="0 0 * * *"), local_zone=local) == ms("2026-01-01 15:00:00")
    assert slot(Repeat(pattern="0 0 * * *", tz="UTC"), local_zone=local) == ms("2026-01-02 00:00:00")
