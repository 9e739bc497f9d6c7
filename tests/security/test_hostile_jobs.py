"""Hostile jobs in a real queue, beside good ones: a bad job fails alone, and the worker goes on."""

from collections.abc import Mapping
from typing import Any

import pytest

from echomq import Job
from echomq.states import JobState
from support.desk import Desk, gathered, happens

DEEP = "[" * 100_000

HOSTILE: Mapping[str, Mapping[str, Any]] = {
    "deep-data": {"data": DEEP + "]" * 100_000},
    "deep-options": {"opts": '{"backoff":' + DEEP},
    "no-json": {"data": "{'to': 1}"},
    "not-text": {"data": b'"\xff\xfe"', "name": b"\xff\xfe"},
    "parent-no-json": {"parent": "{", "parentKey": "x"},
    "parent-a-list": {"parent": "[1]"},
    "parent-deep": {"parent": DEEP},
    "parent-odd": {"parent": '{"id":{},"queueKey":[],"fpof":true}'},
    "parent-numbers": {"parent": '{"id":1,"queueKey":2,"fpof":true}', "parentKey": "2:1"},
    "parent-elsewhere": {"parent": '{"id":"meta","queueKey":"nowhere","fpof":true}', "parentKey": "nowhere:meta"},
    "counts-no-numbers": {"atm": "x", "ats": "y", "stc": "z", "delay": "w", "priority": "v", "timestamp": "u"},
    "counts-nan": {"atm": "nan", "ats": "nan", "stc": "nan", "delay": "nan", "priority": "nan", "timestamp": "nan"},
    "counts-huge": {"atm": "1e999", "ats": "9" * 400, "delay": "-1e999", "priority": "1e300", "timestamp": "9" * 400},
    "options-a-list": {"opts": "[]"},
    "options-odd": {"opts": '{"attempts":"x","backoff":[],"removeOnComplete":{"age":{}},"stackTraceLimit":-1,"kl":{}}'},
    "options-huge": {"opts": '{"attempts":1e999,"delay":-1e999,"backoff":{"type":{},"delay":1e999}}'},
    "stacktrace-odd": {"stacktrace": '{"a":1}'},
    "deduplication-odd": {"deid": b"\xff"},
    "scheduler-odd": {"rjk": "s", "opts": '{"repeat":{"pattern":"x x x","every":[]}}'},
    "scheduler-huge": {"rjk": "s", "opts": '{"repeat":{"every":1e300,"offset":-5,"count":{}},"prevMillis":"x"}'},
    "empty": {"": ""},
}
"""Id -> what another client stored as the job."""


async def plant(desk: Desk, job_id: str, fields: Mapping[str, Any]) -> None:
    """Put a hash into the queue as if it were a waiting job."""
    await desk.do("HSET", desk.keys.job(job_id), *(part for pair in fields.items() for part in pair))
    await desk.do("LPUSH", desk.keys.wait, job_id)


async def use(job: Job) -> Any:
    """Look at all that a job tells, and fail if it is a bad one."""
    shown = repr(job), job.options, job.progress, job.stacktrace, job.timestamp
    assert job.data == "good", shown
    return job.data


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_bad_jobs_fail_alone(desk: Desk, concurrency: int) -> None:
    """Each hostile job ends as failed, with a reason, and the good ones between them are done (pain 57)."""
    good = []
    for job_id, fields in HOSTILE.items():
        good.append(await desk.add("good"))
        await plant(desk, job_id, fields)
    good.append(await desk.add("good"))

    await happens(desk.worker(use, concurrency=concurrency).run(until="drained"))

    for job_id in good:
        assert (await desk.job(job_id)).is_completed
    for job_id in HOSTILE:
        job = await desk.job(job_id)
        assert job.presumed_state is JobState.FAILED, (job_id, job)
        assert job.failed_reason
    assert await desk.counts() == {"completed": len(good), "failed": len(HOSTILE)}


async def test_deep_data_is_named(desk: Desk) -> None:
    """A job nested deeper than any reader's stack fails with a reason that says so and names the job."""
    await plant(desk, "deep", {"name": "n", "data": DEEP + "]" * 100_000})

    await desk.worker(use).run(until="drained")

    reason = (await desk.job("deep")).failed_reason or ""
    assert "data of job deep in queue work is not JSON" in reason
    assert "recursion" in reason


@pytest.mark.parametrize("kind", ["string", "list", "set", "zset", "stream"])
async def test_key_of_another_kind_is_no_job(desk: Desk, kind: str) -> None:
    """An id whose key is no hash is dropped wherever it stands, and holds up neither takes nor other jobs."""
    make = {
        "string": ("SET", "x"),
        "list": ("RPUSH", "x"),
        "set": ("SADD", "x"),
        "zset": ("ZADD", "1", "x"),
        "stream": ("XADD", "*", "a", "b"),
    }[kind]
    for place in ("w", "d", "f"):
        await desk.do(make[0], desk.keys.job(place), *make[1:])
    await desk.do("LPUSH", desk.keys.wait, "w")
    await desk.do("ZADD", desk.keys.delayed, "1", "d")
    await desk.do("ZADD", desk.keys.completed, "1", "f")
    delayed = await desk.add("good", delay=1)
    waiting = await desk.add("good")

    await happens(desk.worker(use, remove_on_complete={"age_s": 3600}).run(until="drained"))

    assert (await desk.job(waiting)).is_completed
    assert (await desk.job(delayed)).is_completed
    assert await desk.counts() == {"completed": 2}


async def test_bad_jobs_do_not_stop_recovery(desk: Desk) -> None:
    """Jobs of a worker that is gone come back though one beside them is broken in every way."""
    good = await desk.add_many(5)
    await plant(desk, "counts", {"name": "n", "stc": "x"})
    await desk.do("SET", desk.keys.job("text"), "x")
    for job_id in [*good, "counts", "text"]:
        await desk.do("LREM", desk.keys.wait, "1", job_id)
        await desk.do("LPUSH", desk.keys.active, job_id)
        await desk.do("SADD", desk.keys.stalled, job_id)

    async def work(_: Job) -> None:
        return None

    await happens(desk.worker(work).run(until="drained"))

    assert await desk.counts() == {"completed": len(good) + 1}


async def test_broken_successor_of_a_deduplicated_job(desk: Desk) -> None:
    """A job ends though what should follow it for its deduplication id cannot become a job."""
    for number, held in enumerate(({"opts": "{"}, {"name": "n", "data": "{}", "opts": "[1,2"}, {"x": "y"})):
        job_id = await desk.add("good", deduplication=f"d{number}")
        await desk.do(
            "HSET", desk.keys.deduplication_next(f"d{number}"), *(part for pair in held.items() for part in pair)
        )
        await happens(desk.worker(use, remove_on_fail=True).run(until="drained"))
        assert (await desk.job(job_id)).is_completed
        assert not await desk.do("EXISTS", desk.keys.deduplication_next(f"d{number}"))
    assert (await desk.counts())["completed"] == 3


async def test_broken_scheduler_record(desk: Desk) -> None:
    """A job of a scheduler is done though the scheduler's record cannot be read, and the worker complains."""
    options = '{"repeat":{"every":1000,"count":1},"repeatJobKey":"s"}'
    await plant(desk, "repeat:s:1000", {"name": "n", "data": '"good"', "rjk": "s", "opts": options})
    await desk.do("ZADD", desk.keys.repeat, "1000", "s")
    await desk.do("HSET", desk.keys.scheduler("s"), "every", "x", "offset", "y", "ic", "z")
    worker = desk.worker(use)
    complaints: list[BaseException] = []
    worker.on("error", complaints.append)

    await happens(worker.run(until="drained"))

    assert (await desk.job("repeat:s:1000")).is_completed
    assert complaints


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_id_that_is_no_text(desk: Desk, concurrency: int) -> None:
    """An id that is not UTF-8 cannot be told to any client; its job is not run, and those beside it are."""
    ran: list[str] = []

    async def note(job: Job) -> None:
        ran.append(job.id)

    await desk.do("HSET", desk.keys.base.encode() + b"\xff\xfe", "name", "n", "data", '"good"')
    await desk.do("RPUSH", desk.keys.wait, b"\xff\xfe")
    good = await desk.add_many(3)
    worker = desk.worker(note, drain_delay=200, concurrency=concurrency)
    done = gathered(worker, "completed", len(good), worker.stop)

    await happens(worker.run())
    await happens(done)

    assert sorted(ran) == sorted(good)
