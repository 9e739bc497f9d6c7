"""What goes on around an attempt."""

import pytest

from echomq.calls.fetch import Take
from echomq.job import Job
from echomq.keys import Keys
from echomq.scheduling.attempts import came_late

TAKE = Take(token="t", lock_ms=1_000)


@pytest.mark.parametrize(
    ("processed_on_ms", "is_late"),
    [(None, False), (10_000, False), (9_500, False), (9_499, True), (20_000, False)],
)
def test_half_the_life_of_a_lock_is_late(processed_on_ms: int | None, is_late: bool) -> None:
    """A job came late once half the life of its lock is over; a clock that was set back makes none late."""
    job = Job(keys=Keys("mail"), id="1", name="send", processed_on_ms=processed_on_ms)

    assert came_late(job, TAKE, 10_000) is is_late
