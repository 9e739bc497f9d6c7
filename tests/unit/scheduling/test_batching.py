"""Which outcomes are reported together, and what one reply means for each of them."""

import pytest

from echomq.calls.batches import MOST_JOBS, Found
from echomq.calls.fetch import Taken
from echomq.job import Job
from echomq.scheduling.batching import fetched, is_plain, most_together, reported_together
from echomq.scheduling.messages import ReportedTogether
from echomq.scheduling.outcome import Completed, HandedBack, Outcome
from support.shell import job, take

DONE = Completed(1, "1")
LATER = Taken(next_delayed_at_ms=7)


@pytest.mark.parametrize(
    ("outcome", "ended", "expected"),
    [
        (DONE, job(), True),
        (HandedBack(), job(), False),
        (DONE, job(parent_key="bull:mail:p"), False),
        (DONE, job(deduplication_id="once"), False),
        (Completed("x", '"' + "x" * 20_000 + '"'), job(), False),
    ],
)
def test_what_is_plain(outcome: Outcome, ended: Job, expected: bool) -> None:
    """Only small results of jobs that nobody else waits for are reported with others."""
    assert is_plain(outcome, ended) is expected


def test_batches_leave_work_for_the_meantime() -> None:
    """A batch takes a part of the slots, so that others run while the server works, and never more than is allowed."""
    assert most_together(2) >= 2
    assert most_together(30) <= 15
    assert most_together(10_000) == MOST_JOBS


def test_jobs_that_came_along_take_the_slots_in_order() -> None:
    """The first job that came along has the token of the first one stored, and the end of the queue is told with it."""
    told = reported_together(3, [take(0), take(1), take(2)], Found(jobs=(job(1), job(2)), rest=LATER), 5)

    assert told == ReportedTogether(3, ((job(1), take(0)), (job(2), take(1))), LATER, 5)


def test_take_of_many_tells_of_each_job() -> None:
    """Each job is found with the token it was locked with, and the end of the queue is told with them."""
    takes = [take(0), take(1), take(2)]

    all_found = fetched(takes[:2], Found(jobs=(job(1), job(2)), rest=None), 5)
    some_found = fetched(takes, Found(jobs=(job(1),), rest=LATER), 5)

    assert (all_found.before, all_found.take, all_found.taken.job) == (((job(1), take(0)),), take(1), job(2))
    assert (some_found.before, some_found.taken) == (((job(1), take(0)),), LATER)
