"""The shells' clocks."""

import time
from datetime import datetime, timedelta, timezone

import pytest

from echomq.clock import local_zone, set_wall, wall_ms

SUMMER = datetime(2026, 7, 1, tzinfo=timezone.utc)
WINTER = datetime(2026, 1, 1, tzinfo=timezone.utc)


def test_local_zone_knows_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zone of the process has its summer and winter time, not only the offset of today."""
    monkeypatch.setenv("TZ", "Europe/Berlin")

    offsets = [moment.astimezone(local_zone()).utcoffset() for moment in (SUMMER, WINTER)]
    assert offsets == [timedelta(hours=2), timedelta(hours=1)]


def test_local_zone_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A zone that no database knows leaves the present offset."""
    monkeypatch.setenv("TZ", "<+05>-5")

    assert SUMMER.astimezone(local_zone()).utcoffset() is not None


def test_another_wall_clock() -> None:
    """A test may set the clock of the process, and gives the system's back."""
    set_wall(lambda: 42)
    try:
        assert wall_ms() == 42
    finally:
        set_wall(None)

    assert abs(wall_ms() - time.time() * 1000) < 60_000
