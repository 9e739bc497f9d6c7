"""When a job scheduler's next job is due.

Intervals are computed by the server, in the script; cron patterns here. All of
it is a function of the time given: two workers that are asked the same answer
the same.

Source: protocol spec 02 section 4.4; 05 section 6.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import attrs
from cronsim import CronSim, CronSimError

from .errors import InvalidOption
from .moments import MAX_MS, Duration, Moment, duration_ms, moment_ms

__all__ = ["Iteration", "Repeat", "next_cron_ms", "next_iteration"]

_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@minutely": "* * * * *",
    "@secondly": "* * * * * *",
    "@weekdays": "0 0 * * 1-5",
    "@weekends": "0 0 * * 0,6",
}
_ONE_VALUE = re.compile(r"\b(\d+)-\1/\d+")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_NO_TIME = timedelta(0)
_LONGEST_JUMP = timedelta(hours=3)
"""More than any clock was set forward or back in living memory, but for days that islands left out."""


def _every(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("every", value, minimum=1)


def _start_date(value: Moment | None) -> int | None:
    return None if value is None else moment_ms("start_date", value)


def _end_date(value: Moment | None) -> int | None:
    return None if value is None else moment_ms("end_date", value)


def _offset(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("offset", value)


def _whole(_: object, field: "attrs.Attribute[int | None]", value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_MS:
        raise InvalidOption(field.name, f"expected a whole number of at least 0, not {value!r}")


@attrs.frozen(kw_only=True)
class Repeat:
    """How often a job scheduler makes a job; exactly one of ``every`` and ``pattern``.

    Attributes:
        every: Interval in ms (or a ``timedelta``).
        pattern: Cron, five fields, or six with seconds first; ``@hourly`` and its kin; ``L`` for the last day.
        tz: IANA name of the zone the pattern is meant in; None: the zone of the process that computes it.
        limit: Most jobs to make; None for no end.
        start_date: No job before this moment.
        end_date: No job after this moment.
        offset: Phase inside ``every``, in ms.
        immediately: The first job of a pattern is due at once.
        count: Jobs made so far; kept by the queue.

    Raises:
        InvalidOption: A value or a combination is not possible.

    Source: protocol spec 05 sections 6.1 and 6.2.
    """

    every: int | None = attrs.field(default=None, converter=_every)
    pattern: str | None = None
    tz: str | None = None
    limit: int | None = attrs.field(default=None, validator=_whole)
    start_date: int | None = attrs.field(default=None, converter=_start_date)
    end_date: int | None = attrs.field(default=None, converter=_end_date)
    offset: int | None = attrs.field(default=None, converter=_offset)
    immediately: bool = False
    count: int | None = attrs.field(default=None, validator=_whole)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if (self.every is None) == (self.pattern is None):
            raise InvalidOption("pattern", "give exactly one of every and pattern")
        if self.immediately and self.start_date is not None:
            raise InvalidOption("immediately", "does not go with start_date; leave one of them out")
        if self.offset is not None and self.every is None:
            raise InvalidOption("offset", "only goes with every; a pattern says its own minutes and seconds")
        if self.tz is not None:
            _zone(self.tz)
        if self.pattern is not None:
            _cron(self.pattern, _EPOCH)


@attrs.frozen(kw_only=True)
class Iteration:
    """The next job of a scheduler.

    Attributes:
        repeat: The scheduler's repeat with this job counted.
        slot_ms: When it is due; None for ``every``, where the script decides.
    """

    repeat: Repeat
    slot_ms: int | None


def next_iteration(
    repeat: Repeat, *, now_ms: int, previous_ms: int | None = None, local_zone: tzinfo = timezone.utc
) -> Iteration | None:
    """Return the next job of a scheduler, or None when it has come to its end.

    Args:
        repeat: As stored in the job before, or as the user wrote it for the first.
        now_ms: The present.
        previous_ms: Slot of the job before, for a pattern.
        local_zone: Meant by patterns without ``tz``.

    Source: protocol spec 02 section 4.4, steps 2 and 3.
    """
    count = (repeat.count or 0) + 1
    if repeat.limit is not None and count > repeat.limit:
        return None
    if repeat.end_date is not None and now_ms > repeat.end_date:
        return None
    slot_ms = None
    if repeat.pattern is not None:
        slot_ms = _next_slot(repeat, repeat.pattern, now_ms, previous_ms or 0, local_zone)
        if slot_ms is None:
            return None
    return Iteration(repeat=attrs.evolve(repeat, count=count, immediately=False), slot_ms=slot_ms)


def _next_slot(repeat: Repeat, pattern: str, now_ms: int, previous_ms: int, local_zone: tzinfo) -> int | None:
    base_ms = max(now_ms, previous_ms)
    if repeat.immediately:
        return base_ms
    zone = local_zone if repeat.tz is None else _zone(repeat.tz)
    slot_ms = next_cron_ms(pattern, max(base_ms, repeat.start_date or 0), zone)
    if slot_ms is not None and repeat.end_date is not None and slot_ms > repeat.end_date:
        return None
    return slot_ms


def next_cron_ms(pattern: str, after_ms: int, zone: tzinfo) -> int | None:
    """Return the first match of a cron pattern strictly after a moment; None if there is none.

    Where the clock goes forward, a time that is left out counts as much later
    as the clock jumps: 02:30 is then 03:30. Where it goes back, a time counts
    the first time only, unless the pattern says every hour.

    Raises:
        InvalidOption: The pattern cannot be read.

    Source: protocol spec 05 section 6.2; other clients do the same at these times.
    """
    after = (_EPOCH + timedelta(milliseconds=after_ms)).astimezone(zone)
    found = [match for match in (_next_on_clock(pattern, after), _next_left_out(pattern, after)) if match is not None]
    return (min(found) - _EPOCH) // _MILLISECOND if found else None


def _next_on_clock(pattern: str, after: datetime) -> datetime | None:
    """Return the next match at which the clock really shows the time."""
    counts_twice = _spelled(pattern).split()[2] == "*"
    start = _wall(after)
    if counts_twice and _is_twice(after) and not after.fold:
        again = _first(_cron(pattern, _second_pass(after)), after, fold=1, counts_twice=True)
        plain = _first(_cron(pattern, start), after, fold=0, counts_twice=True)
        return min((match for match in (again, plain) if match is not None), default=None)
    return _first(_cron(pattern, start), after, fold=after.fold, counts_twice=counts_twice)


def _first(walls: Iterable[datetime], after: datetime, *, fold: int, counts_twice: bool) -> datetime | None:
    for wall in walls:
        match = wall.replace(tzinfo=after.tzinfo)
        if _is_twice(match):
            if fold and not counts_twice:
                continue
            match = match.replace(fold=fold)
        moment = match.astimezone(timezone.utc)
        if _wall(moment.astimezone(after.tzinfo)) == wall and moment > after:
            return moment
    return None


def _next_left_out(pattern: str, after: datetime) -> datetime | None:
    """Return the next match if it is a time that the clock leaves out, read by the clock as it was before."""
    before = (after.astimezone(timezone.utc) - _LONGEST_JUMP).astimezone(after.tzinfo).utcoffset() or _NO_TIME
    start = min(_wall(after), _wall(after.astimezone(timezone.utc)) + before)
    wall = next(_cron(pattern, start), None)
    if wall is None:
        return None
    match = wall.replace(tzinfo=after.tzinfo, fold=0).astimezone(timezone.utc)
    is_left_out = _wall(match.astimezone(after.tzinfo)) != wall
    return match if is_left_out and match > after else None


def _wall(moment: datetime) -> datetime:
    """Return what the clock shows."""
    return moment.replace(tzinfo=None, fold=0)


def _is_twice(moment: datetime) -> bool:
    """Tell whether the clock shows this time twice, as it does where it goes back."""
    return (moment.replace(fold=0).utcoffset() or _NO_TIME) > (moment.replace(fold=1).utcoffset() or _NO_TIME)


def _second_pass(first: datetime) -> datetime:
    """Return the moment before the one at which the clock begins to show times again, for one in its first pass."""
    low, high = _NO_TIME, _LONGEST_JUMP
    start = first.astimezone(timezone.utc)
    offset = first.utcoffset()
    while high - low > _MILLISECOND:
        middle = (low + high) / 2
        is_before = (start + middle).astimezone(first.tzinfo).utcoffset() == offset
        low, high = (middle, high) if is_before else (low, middle)
    return _wall((start + high).astimezone(first.tzinfo)) - timedelta(seconds=1)


def _cron(pattern: str, after: datetime) -> CronSim:
    try:
        return CronSim(_spelled(pattern), after)
    except (CronSimError, ValueError) as error:
        raise InvalidOption(
            "pattern", f"{pattern!r} is not cron: {error}; expected 5 fields, or 6 with seconds first"
        ) from None


def _spelled(pattern: object) -> str:
    """Return a pattern so that our library reads it as the field's other clients do.

    Where both day fields are restricted, a day matches that fits either; only a
    bare star does not restrict. Our library calls any field with a star open.
    It also takes ``3-3/2`` for ``3/2``.
    """
    if not isinstance(pattern, str):
        return ""
    plain = _ALIASES.get(pattern.strip().lower(), pattern).replace("?", "*")
    fields = [_ONE_VALUE.sub(r"\1", field) for field in plain.split()]
    if len(fields) == 5:
        fields.insert(0, "0")  # with five, our library bends the rules where clocks change
    if len(fields) == 6:
        fields[-3] = fields[-3].replace("*/", "1-31/")
        fields[-1] = fields[-1].replace("*/", "0-7/")
    return " ".join(fields)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        raise InvalidOption("tz", f"no time zone is called {name!r}; expected an IANA name, 'Europe/Berlin'") from None
