"""Upserts of job schedulers, as plans."""

from typing import Any

import pytest

from echomq import schedules
from echomq.errors import SchedulerCollision
from echomq.keys import Keys
from support.wire import spoken

T = 1_700_000_000_000
MINUTE_AFTER = "1700000040000"


def upsert(**given: Any) -> Any:
    """A plan of an upsert."""
    nothing = dict.fromkeys(("every", "cron", "tz", "start", "end", "limit", "offset", "name", "data", "options"))
    told = {**nothing, "immediately": False, **given}
    return schedules.upsert(Keys("q"), "s", {}, now_ms=T, **told)


def test_immediate_job_of_another_process() -> None:
    """Where another process has made the immediate job in the same millisecond, the regular next job is made."""
    plan = upsert(cron="* * * * *", immediately=True)
    assert spoken(next(plan))[2][0] == str(T)

    following = plan.throw(SchedulerCollision("addJobScheduler", "s"))
    assert spoken(following)[2][0] == MINUTE_AFTER


def test_collision_of_a_regular_job() -> None:
    """Where the job of a slot runs already when the call arrives, the slot after it is asked for, a few times."""
    plan = upsert(cron="* * * * *")
    collision = SchedulerCollision("addJobScheduler", "s")
    slots = [spoken(call)[2][0] for call in (next(plan), plan.throw(collision), plan.throw(collision))]
    with pytest.raises(SchedulerCollision):
        plan.throw(collision)

    assert slots == [MINUTE_AFTER, "1700000100000", "1700000160000"]


def test_nothing_to_make() -> None:
    """A plan whose limit is reached sends nothing."""
    with pytest.raises(StopIteration) as ended:
        next(upsert(every=1_000, limit=0))
    assert ended.value.value is None
