import pytest

from echomq.demo.stories import Story
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import job_options
from echomq.states import JobState

KEYS = Keys("demo")


def job(**fields: object) -> Job:
    """Return a job that was added at 1,000 ms."""
    delay, priority = fields.pop("delay", 0), fields.pop("priority", 0)
    options = job_options(attempts=3, delay=delay, priority=priority)
    values = {"timestamp_ms": 1_000, "priority": priority, **fields}
    return Job(keys=KEYS, id="1", name="x", given_options=options, **values)  # type: ignore[arg-type]  # any field


@pytest.mark.parametrize(
    ("told_of", "state", "text"),
    [
        (job(), JobState.WAITING, "waits"),
        (job(delay=2_500), JobState.DELAYED, "runs in 2.0 s"),
        (job(priority=1), JobState.PRIORITIZED, "waits with priority 1, behind jobs without one"),
        (job(), JobState.ACTIVE, "attempt 1 runs"),
        (job(attempts_made=1, failed_reason="no"), JobState.DELAYED, "attempt 1 of 3 failed: no"),
        (
            job(attempts_made=3, finished_on_ms=3_000),
            JobState.COMPLETED,
            "attempt 3 worked, 2,000 ms after it was added",
        ),
        (job(attempts_made=3, failed_reason="no"), JobState.FAILED, "failed: no"),
    ],
)
def test_story(told_of: Job, state: JobState, text: str) -> None:
    """Each turn of a job is told in a few words."""
    story = Story(title="any")

    story.go_on(told_of, state, 1_500)

    assert story.text == text
    assert story.is_over == state.is_finished
    assert story.is_good == (state is not JobState.FAILED)


def test_story_that_is_over() -> None:
    """What was seen too late changes nothing any more."""
    story = Story(title="any")
    story.go_on(job(attempts_made=1, finished_on_ms=1_100), JobState.COMPLETED, 1_200)
    before = story.text

    story.go_on(job(), JobState.ACTIVE, 1_300)

    assert story.text == before
