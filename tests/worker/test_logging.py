"""What logging and structlog tell of jobs, and what of it is written to the logs of jobs."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

import echomq
import echomq.sync
from echomq import Job, job_logger
from echomq.aio.log_rows import LogRows
from echomq.errors import ConnectionLost
from echomq.logs import JobFields, JobLogHandler, add_job_fields
from support.desk import Desk, gathered, happens
from support.limits import DEADLINE_S
from support.servers import Server

shop = logging.getLogger("shop")
"""A logger of a library that knows nothing of jobs."""


@contextlib.contextmanager
def handling(handler: logging.Handler) -> Iterator[None]:
    """Let all records of this process reach a handler."""
    root = logging.getLogger()
    root.addHandler(handler)
    before = root.level
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def sells(job: Job) -> str:
    """A job's code that logs."""
    for number in range(3):
        shop.info("%s sold %d", job.name, number)
    job_logger.warning("done")
    return "sold"


ROWS = ["work sold 0", "work sold 1", "work sold 2", "done"]


def in_child(job: Job) -> str:
    """As ``sells``, in a process that sets up logging itself."""
    with handling(JobLogHandler()):
        return sells(job)


async def _sells(job: Job) -> str:
    return sells(job)


async def _sells_in_a_thread(job: Job) -> str:
    return await asyncio.to_thread(sells, job)


@pytest.mark.parametrize(
    ("processor", "options"),
    [(_sells, {}), (sells, {}), (_sells_in_a_thread, {}), (in_child, {"run_in": "process"})],
    ids=["loop", "thread", "thread of a coroutine", "process"],
)
async def test_records_become_rows(desk: Desk, processor: Any, options: dict[str, Any]) -> None:
    """What a job's code logs stands in the log of the job, in order, wherever the code runs."""
    job_id = await desk.add()
    with handling(JobLogHandler()):
        await happens(desk.worker(processor, **options).run(until="drained"))
        logging.getLogger().warning("outside of jobs")

    assert await desk.logs(job_id) == ROWS


def test_records_become_rows_without_a_loop(redis_server: Server, prefix: str) -> None:
    """What a job of a blocking worker logs stands in the log of the job."""
    with echomq.sync.Queue("mail", redis_server.url, prefix=prefix) as queue, handling(JobLogHandler()):
        job = queue.add("work")
        echomq.sync.Worker("mail", sells, redis_server.url, prefix=prefix, drain_delay=100).run("drained")
        assert queue.get_job_logs(job.id) == ROWS


async def test_rows_are_stored_before_the_end(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Rows are stored before their job ends, also where it fails, and is removed at once."""

    async def fails(_: Job, ctx: Any) -> None:
        for number in range(100):
            ctx.log_soon(str(number))
        raise ValueError("no")

    job_id = await desk.add()
    await desk.add(remove_on_fail=True)
    await happens(desk.worker(fails).run(until="drained"))

    assert await desk.logs(job_id) == [str(number) for number in range(100)]
    assert "cannot be stored" not in caplog.text


async def test_thread_that_was_left_behind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code whose attempt is over writes no rows any more, which is told as logging tells it."""
    told, leave = threading.Event(), threading.Event()

    def late(_: Job) -> None:
        leave.wait(DEADLINE_S)
        shop.info("too late")

    handler = JobLogHandler()
    monkeypatch.setattr(handler, "handleError", lambda _: told.set())
    job_id = await desk.add(timeout=50)
    with handling(handler):
        async with desk.working(late) as worker:
            await happens(gathered(worker, "failed", 1))
            leave.set()
            assert await asyncio.to_thread(told.wait, DEADLINE_S)

    assert await desk.logs(job_id) == []


async def test_rows_that_cannot_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    """A row that cannot be stored is warned about, and fails nothing."""

    async def store(_: str) -> None:
        raise ConnectionLost("gone", may_have_run=False)

    rows = LogRows("7", store)
    rows.add("one")
    rows.add("two")
    await happens(rows.settle())

    assert [record.message for record in caplog.records] == ["job 7: what it logs cannot be stored: gone"]


async def test_flood_of_rows() -> None:
    """What a job logs beyond 10,000 rows while none gets through is counted, and the count is told."""
    stored: list[str] = []
    gate = asyncio.Event()

    async def store(row: str) -> None:
        await gate.wait()
        stored.append(row)

    rows = LogRows("7", store)
    for number in range(10_010):
        rows.add(str(number))
    gate.set()
    await happens(rows.settle())

    assert len(stored) == 10_001
    assert stored[-1] == "(10 rows were lost)"


async def test_every_record_names_its_job(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """With the filter on a handler, records of any logger carry queue, job and attempt; none outside of jobs."""
    caplog.handler.addFilter(fields := JobFields())
    try:
        with caplog.at_level(logging.INFO):
            job_id = await desk.add()
            await happens(desk.worker(_sells).run(until="drained"))
            shop.info("outside")
    finally:
        caplog.handler.removeFilter(fields)

    found = [vars(record) for record in caplog.records if record.name == "shop"]
    told = [(one["queue"], one["job_id"], one["job_name"], one["attempt"]) for one in found]
    assert told == [("work", job_id, "work", 1)] * 3 + [(None, None, None, None)]


async def test_structlog(desk: Desk) -> None:
    """With the processor, events of structlog carry queue, job and attempt, and keep what they have."""
    capture = structlog.testing.LogCapture()
    logger = structlog.wrap_logger(None, processors=[add_job_fields, capture])

    async def process(_: Job) -> None:
        logger.info("sold", attempt="mine")

    job_id = await desk.add()
    await happens(desk.worker(process).run(until="drained"))
    logger.info("outside")

    inside = {"queue": "work", "job_id": job_id, "job_name": "work", "attempt": "mine"}
    assert capture.entries == [
        {"event": "sold", "log_level": "info", **inside},
        {"event": "outside", "log_level": "info"},
    ]
