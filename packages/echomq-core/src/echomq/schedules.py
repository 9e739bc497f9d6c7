"""Operations on job schedulers, from what a user says.

Source: protocol spec 02 section 4; 05 section 6.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from .call import ScriptCall
from .calls.schedulers import JobScheduler, add_job_scheduler, get_job_scheduler, get_job_scheduler_ids
from .errors import InvalidOption, SchedulerCollision
from .job import Job
from .keys import Keys
from .moments import Duration, Moment
from .options import job_options
from .plans import Plan, ask_all
from .repeat import Repeat

__all__ = ["DEFAULT_ZONE", "list_schedulers", "upsert"]

DEFAULT_ZONE = "UTC"
"""Zone of patterns that name none: stored with them, since each machine would have another one in mind."""


def upsert(
    keys: Keys,
    scheduler_id: str,
    defaults: Mapping[str, Any],
    *,
    every: Duration | None,
    cron: str | None,
    tz: str | None,
    start: Moment | None,
    end: Moment | None,
    limit: int | None,
    offset: Duration | None,
    immediately: bool,
    name: str | None,
    data: object,
    options: Mapping[str, Any] | None,
    now_ms: int,
) -> Plan[Job | None]:
    """Make or change a job scheduler; everything is checked at once, before the plan is run.

    Args as :func:`echomq.aio.schedulers.upsert_job_scheduler` takes them.

    Raises:
        InvalidOption: A value or a combination is not possible; names it as the caller does.
        UnknownOption: No job option has that name.
        NotEncodable: The data is not strict JSON.
    """
    if (every is None) == (cron is None):
        raise InvalidOption("cron", "give exactly one of every and cron")
    if cron is None and tz is not None:
        raise InvalidOption("tz", "only goes with cron; an interval has no zone")
    if immediately and every is not None:
        raise InvalidOption("immediately", "only goes with cron; the first job of an interval is due at once anyway")
    build = partial(
        add_job_scheduler,
        keys,
        scheduler_id,
        name=scheduler_id if name is None else name,
        data={} if data is None else data,
        options=job_options(**{**defaults, **(options or {})}),
    )
    try:
        repeat = Repeat(
            every=every,
            pattern=cron,
            tz=tz or DEFAULT_ZONE if cron is not None else None,
            limit=limit,
            start_date=start,
            end_date=end,
            offset=offset,
            immediately=immediately,
        )
        first = build(repeat, now_ms=now_ms)
        return _made(first, lambda taken_ms: build(attrs.evolve(repeat, immediately=False), now_ms=taken_ms))
    except InvalidOption as error:
        if error.field not in _SPELLED:
            raise
        raise InvalidOption(_SPELLED[error.field], str(error).partition(": ")[2]) from None


def _made(call: ScriptCall[Job] | None, after: Callable[[int], ScriptCall[Job] | None]) -> Plan[Job | None]:
    job: Job | None = None
    for left in reversed(range(_TRIES)):
        if call is None:
            break
        try:
            job = yield call
        except SchedulerCollision:
            # The slot came while the call was on its way, and its job runs: what is left is the slot after it.
            following = after(int(call.args[0]))
            if following is None or following == call or not left:
                raise
            call = following
        else:
            break
    return job


_TRIES = 3
"""Slots that may come and be taken while calls are on their way."""


_SPELLED = {"pattern": "cron", "start_date": "start", "end_date": "end"}


def list_schedulers(keys: Keys, start: int, end: int, *, ascending: bool) -> Plan[list[JobScheduler]]:
    """Read job schedulers by their next slot; one that is removed meanwhile is left out."""
    ids = yield get_job_scheduler_ids(keys, start, end, ascending=ascending)
    if not ids:
        return []
    found = yield from ask_all([get_job_scheduler(keys, scheduler_id) for scheduler_id in ids])
    return [scheduler for scheduler in found if scheduler is not None]
