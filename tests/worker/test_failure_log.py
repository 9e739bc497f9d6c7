"""What a worker logs of attempts that fail."""

from typing import Any

import pytest

from echomq import Job
from support.desk import Desk


async def test_failed_attempts_are_logged_without_payload(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Each failed attempt is logged with its job, number and kind of error, but not with what the error says."""

    def fail(job: Job) -> Any:
        raise ValueError(f"cannot charge {job.data}")

    job_id = await desk.add("card 4111", attempts=2)
    await desk.worker(fail).run(until="drained")

    said = [record.getMessage() for record in caplog.records if record.name == "echomq.worker"]
    job = await desk.job(job_id)
    where = f"job {job_id!r} ({job.name!r}) of queue {job.keys.queue} failed at attempt"
    assert said == [f"{where} {number} of 2: ValueError" for number in (1, 2)]
