"""The shells' clocks."""

from datetime import datetime, timedelta, timezone

import pytest

from echomq.clock import local_zone

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
