import json

import attrs
import pytest

from echomq.demo.tally import Tally, percentile
from echomq.job import Job
from echomq.keys import Keys
from echomq.states import JobState


def finished(number: int, *, took_ms: int = 5, attempts: int = 1, **changed: object) -> Job:
    """Return a job that read a file of so many words."""
    found = {"lines": 1, "words": number, "frequent": [["word", number]], "sha256": "00"}
    job = Job(
        keys=Keys("demo"),
        id=str(number),
        name="text",
        raw_data=json.dumps({"path": f"/folder/deep/{number}.txt"}),
        timestamp_ms=1_000,
        processed_on_ms=1_001,
        finished_on_ms=1_000 + took_ms,
        attempts_made=attempts,
        processed_by="process 1",
        raw_return_value=json.dumps(found),
        state=JobState.COMPLETED,
    )
    return attrs.evolve(job, **changed)  # type: ignore[arg-type]  # any field of a job


@pytest.mark.parametrize(
    ("counted", "share", "expected"),
    [({}, 0.5, 0), ({7: 1}, 0.99, 7), ({1: 50, 9: 50}, 0.5, 1), ({1: 50, 9: 51}, 0.5, 9), ({1: 99, 9: 1}, 0.99, 1)],
)
def test_percentile(counted: dict[int, int], share: float, expected: int) -> None:
    """A percentile is the smallest value that at least the share does not exceed."""
    assert percentile(counted, share) == expected


def test_largest() -> None:
    """Of any number of files only the ten with the most words are kept, largest first."""
    tally = Tally()
    for number in (*range(1, 500), *range(500, 1_000)):
        tally.take(finished(number), "/folder")

    assert [file.word_count for file in tally.largest] == list(range(999, 989, -1))
    assert tally.largest[0].path == "deep/999.txt"
    assert len(tally.recent) == 8


def test_counts() -> None:
    """Completed and failed jobs, attempts, retries and workers are counted, and latencies of files alone."""
    tally = Tally()
    tally.take(finished(1, took_ms=10, attempts=3), "/folder")
    tally.take(finished(2, took_ms=30, name="other"), "/folder")
    tally.take(finished(3, state=JobState.FAILED, raw_return_value=None), "/folder")

    assert (tally.completed_count, tally.failed_count, tally.finished_count) == (2, 1, 3)
    assert (tally.attempt_count, tally.retry_count) == (5, 2)
    assert tally.by_process == {"process 1": 3}
    assert tally.latencies_ms == {10: 1}


def test_rate() -> None:
    """The rate is that of the files, from the first added to the last finished."""
    tally = Tally()
    for number in range(10):
        tally.take(finished(number, took_ms=500), "/folder")

    assert tally.per_s == pytest.approx(20.0)
