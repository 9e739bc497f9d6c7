"""Cron patterns mean here what they mean to the library that BullMQ for Node uses."""

import json
import subprocess
from datetime import datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import pytest

from echomq.repeat import next_cron_ms
from support.peer import node_folder

ZONES = {
    "UTC": ("2026-03-28", "2026-10-24"),
    "Europe/Berlin": ("2026-03-28", "2026-10-24"),
    "America/New_York": ("2026-03-07", "2026-10-31"),
    "America/Santiago": ("2026-04-03", "2026-09-04"),
    "Australia/Lord_Howe": ("2026-04-04", "2026-10-03"),
    "Asia/Kolkata": ("2026-03-28", "2026-10-24"),
}
"""Zone -> a day before each change of its clock in 2026, or of Berlin's if it has none."""

ODD_ZONES = ("America/Santiago", "Australia/Lord_Howe")
"""Where the clock changes at midnight, and by half an hour; the other library has its own ideas then."""

MINUTES = ("*", "0", "30", "*/7", "5,35", "10-20", "59")
HOURS = ("*", "0", "2", "3", "*/2", "1,2,3", "0-4")
DAYS = (("*", "*", "*"), ("1", "*", "*"), ("*", "*", "1-5"), ("L", "*", "*"))
ODD = """
@yearly @monthly @weekly @daily @hourly @minutely @secondly @weekdays @weekends
*/15_*_*_*_*_* 30_0_*_*_*_* 0_30_2_*_*_* 59_59_23_*_*_* */20_0_2_*_*_* 0_0_0_1_1_* 15,45_59_1-3_*_*_*
0_0_1_JAN,JUL_* 0_0_*_*_MON 0_0_*_*_SUN 0_0_*_*_7 0_0_*_*_0 0_12_*_*_MON-FRI 0_0_13_*_5 0_0_1,15_*_1
0_0_29_2_* 0_0_31_*_* 0_0_*_2_*/2 0_0_*/10_*_1 0_0_*_*_1#1 0_0_*_*_5#3 0_0_*_*_5L 0_0_L_2_* 0_0_?_*_1 0_0_1_*_?
1-59/2_*_*_*_* 0-30/10_2_*_*_* 5/15_*_*_*_* */90_*_*_*_* 0_*/5_*_*_* 0_22-23_*_*_* 0_2_*_3_0 0_2_*_10,11_0 30_1-2_*_*_*
0_1_*_*_* 15_1_*_*_* 45_1_*_*_* 15_2_*_*_* 45_2_*_*_* 0_23_*_*_* 15_0_*_*_* 30_23_*_*_* 45_3_*_*_*
""".split()  # noqa: SIM905  # a list of these would be four times as long
PATTERNS = [
    *(f"{minute} {hour} {' '.join(day)}" for minute, hour, day in product(MINUTES, HOURS, DAYS)),
    *(pattern.replace("_", " ") for pattern in ODD),
]
RUNS = 100


def ours(pattern: str, zone: str, after_ms: int) -> list[int]:
    """The next matches by our rules."""
    found: list[int] = []
    for _ in range(RUNS):
        match = next_cron_ms(pattern, found[-1] if found else after_ms, ZoneInfo(zone))
        assert match is not None
        found.append(match)
    return found


def theirs(zone: str) -> list[tuple[str, int, list[int] | None]]:
    """Pattern, start and next matches by the other library, for all patterns and both starts; None if it gives up."""
    starts = [int(datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000) for day in ZONES[zone]]
    asked = list(product(PATTERNS, starts))
    questions = [{"pattern": pattern, "tz": zone, "after": start, "count": RUNS} for pattern, start in asked]
    command = ["node", str(node_folder() / "cron.mjs")]
    done = subprocess.run(command, input=json.dumps(questions), capture_output=True, text=True, timeout=600, check=True)
    return [(*question, answer) for question, answer in zip(asked, json.loads(done.stdout), strict=True)]


def on_steady_days(matches: list[int], zone: str, until_ms: int) -> list[int]:
    """Those matches, up to a moment, on days on which the clock of the zone does not change."""
    return [ms for ms in matches if ms <= until_ms and not _changes_clock(ms, zone)]


def _changes_clock(match_ms: int, zone: str) -> bool:
    day = datetime.fromtimestamp(match_ms / 1000, ZoneInfo(zone)).date()
    around = (datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) + timedelta(days=n) for n in (0, 1))
    return len({(moment - timedelta(hours=2)).utcoffset() for moment in around}) > 1


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("zone", [zone for zone in ZONES if zone not in ODD_ZONES])
def test_same_runs(zone: str) -> None:
    """The next 100 runs of 248 patterns are the same, over both clock changes of a year."""
    assert len(set(PATTERNS)) == len(PATTERNS) >= 200
    different = [pattern for pattern, start, runs in theirs(zone) if ours(pattern, zone, start) != runs]

    assert different == []


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("zone", ODD_ZONES)
def test_same_runs_on_steady_days(zone: str) -> None:
    """Where the clock jumps at midnight or by half an hour, runs differ on these days at most."""
    different = []
    for pattern, start, runs in theirs(zone):
        if runs is None:
            continue  # the other library gives up at such a jump
        found = ours(pattern, zone, start)
        last = min(found[-1], runs[-1])
        if on_steady_days(found, zone, last) != on_steady_days(runs, zone, last):
            different.append(pattern)

    assert different == []
