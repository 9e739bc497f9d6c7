"""Job schedulers: what they are told is what they do, also when many processes tell them at once."""

import asyncio
import json
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from echomq import (
    InvalidOption,
    Job,
    JobBelongsToScheduler,
    JobState,
    Keys,
    NotEncodable,
    Queue,
    SchedulerCollision,
    UnknownOption,
    Worker,
    connect,
)
from echomq.calls.schedulers import add_job_scheduler
from echomq.options import job_options
from echomq.repeat import Repeat
from support.desk import happens, until
from support.servers import Server
from support.shells import Shell

HOUR_MS = 3_600_000


def now_ms() -> int:
    """The present."""
    return time.time_ns() // 1_000_000


async def test_interval(queue: Queue) -> None:
    """An interval makes its first job at once, and can be read, listed, counted and removed."""
    job = await queue.upsert_job_scheduler(
        "hourly", every=timedelta(hours=1), name="report", data={"to": "ada"}, options={"priority": 3, "attempts": 2}
    )
    assert job is not None
    assert await queue.get_job_state(job.id) is JobState.PRIORITIZED

    found = await queue.get_job_scheduler("hourly")
    assert found is not None
    assert (found.id, found.name, found.every, found.iteration_count) == ("hourly", "report", HOUR_MS, 1)
    assert (found.data, found.options.priority, found.options.attempts) == ({"to": "ada"}, 3, 2)
    assert job.id == f"repeat:hourly:{found.next_ms}"
    assert [one.id for one in await queue.get_job_schedulers()] == ["hourly"]
    assert await queue.count_job_schedulers() == 1

    assert await queue.remove_job_scheduler("hourly")
    assert not await queue.remove_job_scheduler("hourly")
    assert await queue.get_job_scheduler("hourly") is None
    assert await queue.get_job_schedulers() == []


async def test_pattern(queue: Queue) -> None:
    """A pattern makes a job for its next time, in the zone that it names."""
    job = await queue.upsert_job_scheduler("daily", cron="30 4 * * *", tz="Asia/Kolkata")
    found = await queue.get_job_scheduler("daily")

    assert job is not None
    assert found is not None
    due = datetime.fromtimestamp(found.next_ms / 1000, timezone.utc)
    assert (due.hour, due.minute, due.second) == (23, 0, 0)
    assert 0 < found.next_ms - now_ms() <= 24 * HOUR_MS
    assert (found.pattern, found.tz, found.name) == ("30 4 * * *", "Asia/Kolkata", "daily")
    assert (await queue.get_job_state(job.id), job.data) == (JobState.DELAYED, {})


async def test_pattern_without_a_zone(queue: Queue) -> None:
    """A pattern that names no zone means UTC, and says so to all who continue it."""
    await queue.upsert_job_scheduler("daily", cron="0 12 * * *")
    found = await queue.get_job_scheduler("daily")

    assert found is not None
    assert (found.tz, found.next_ms % (24 * HOUR_MS)) == ("UTC", 12 * HOUR_MS)


async def test_start_limit_end(queue: Queue) -> None:
    """The first job is not before the start, and there is none beyond the limit or the end."""
    start = now_ms() + 90_000
    job = await queue.upsert_job_scheduler("a", every=60_000, start=start, end=start + HOUR_MS, limit=5)
    assert job is not None
    found = await queue.get_job_scheduler("a")
    assert found is not None
    assert (found.next_ms, found.start_date, found.end_date, found.limit) == (start, start, start + HOUR_MS, 5)

    assert await queue.upsert_job_scheduler("b", every=60_000, limit=0) is None
    assert await queue.upsert_job_scheduler("c", cron="0 0 1 1 *", end=now_ms() + 1_000) is None
    assert await queue.count_job_schedulers() == 1


async def test_offset(queue: Queue) -> None:
    """An offset fixes the phase of an interval."""
    await queue.upsert_job_scheduler("a", every=HOUR_MS, offset=timedelta(minutes=5))
    found = await queue.get_job_scheduler("a")

    assert found is not None
    assert found.next_ms % HOUR_MS == 300_000


async def test_immediately(queue: Queue, server: Server, prefix: str) -> None:
    """With immediately, the first job of a pattern runs at once, and the next one at its time."""
    job = await queue.upsert_job_scheduler("daily", cron="0 0 * * *", immediately=True)
    assert job is not None
    assert await queue.get_job_state(job.id) is JobState.WAITING

    async def work(job: Job) -> str:
        return job.name

    async with Worker("mail", work, server.url, prefix=prefix) as worker:
        running = asyncio.create_task(worker.run())
        assert await happens(queue.result(job.id)) == "daily"
        await worker.close()
        await running
    found = await queue.get_job_scheduler("daily")
    assert found is not None
    assert (found.next_ms % (24 * HOUR_MS), found.iteration_count) == (0, 2)


async def test_upsert_replaces(queue: Queue) -> None:
    """A second upsert changes the scheduler and its pending job, and adds none."""
    await queue.upsert_job_scheduler("a", every=HOUR_MS, start=now_ms() + HOUR_MS, data={"v": 1})
    job = await queue.upsert_job_scheduler("a", cron="0 0 * * *", data={"v": 2})

    assert job is not None
    (only,) = await queue.get_jobs()
    assert (only.id, only.data, only.state) == (job.id, {"v": 2}, JobState.DELAYED)
    with pytest.raises(JobBelongsToScheduler):
        await queue.remove(job.id)


async def test_defaults_of_the_queue(shell: Shell, server: Server, prefix: str) -> None:
    """Options of the queue count for jobs of schedulers that do not say otherwise."""
    async with shell.queue(
        "mail", server.url, prefix=prefix, default_job_options={"attempts": 4, "lifo": True}
    ) as queue:
        job = await queue.upsert_job_scheduler("a", every=HOUR_MS, options={"attempts": 2})
        assert job is not None
        stored = await queue.get_job(job.id)

    assert stored is not None
    assert (stored.options.attempts, stored.options.lifo) == (2, True)


async def test_listing_by_time(queue: Queue) -> None:
    """Schedulers are listed by the time of their next job, either way, and by pages."""
    for minutes in (3, 1, 2):
        start = now_ms() + minutes * 60_000
        await queue.upsert_job_scheduler(f"s{minutes}", every=HOUR_MS, start=start)

    assert [one.id for one in await queue.get_job_schedulers()] == ["s1", "s2", "s3"]
    assert [one.id for one in await queue.get_job_schedulers(ascending=False)] == ["s3", "s2", "s1"]
    assert [one.id for one in await queue.get_job_schedulers(1, 1)] == ["s2"]


@pytest.mark.parametrize(
    "how",
    [
        {"every": 200},
        {"every": 200, "offset": 50},
        {"cron": "* * * * * *"},
        {"cron": "0 0 * * *", "immediately": True},
    ],
)
async def test_many_clients_upsert(server: Server, prefix: str, how: dict[str, Any]) -> None:
    """While 20 clients upsert at once, and a worker runs the jobs, there is one scheduler with one next job."""
    runs: list[str] = []

    async def work(job: Job) -> None:
        runs.append(job.id)

    async with Worker("mail", work, server.url, prefix=prefix, concurrency=5) as worker:
        running = asyncio.create_task(worker.run())
        queues = [Queue("mail", server.url, prefix=prefix) for _ in range(20)]
        for _ in range(5):
            await asyncio.gather(*(queue.upsert_job_scheduler("s", **how) for queue in queues))

        async def has_run() -> bool:
            return bool(runs)

        await until(has_run)
        await worker.close()
        await running

        assert await queues[0].count_job_schedulers() == 1
        counts = await queues[0].get_job_counts("delayed", "waiting", "active", "prioritized")
        assert sum(counts.values()) == 1
        assert len(set(runs)) == len(runs)
        for queue in queues:
            await queue.close()


_UPSERT = """
import sys, time, json, echomq.sync
url, prefix, how = sys.argv[1:]
with echomq.sync.Queue("mail", url, prefix=prefix) as queue:
    queue.ready()
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(25):
        queue.upsert_job_scheduler("s", **json.loads(how))
"""


@pytest.mark.parametrize("how", [{"every": 50}, {"cron": "* * * * * *"}], ids=["every", "cron"])
async def test_many_processes_upsert(redis_server: Server, prefix: str, how: dict[str, Any]) -> None:
    """While four processes upsert one scheduler again and again, and its jobs run, there is one with one next job."""
    runs: list[str] = []
    command = [sys.executable, "-c", _UPSERT, redis_server.url, prefix, json.dumps(how)]
    pipe = asyncio.subprocess.PIPE
    programs = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(4)]
    try:
        for program in programs:
            assert program.stdout is not None
            assert await happens(program.stdout.readline()) == b"ready\n"
        async with (
            Queue("mail", redis_server.url, prefix=prefix) as queue,
            Worker("mail", lambda job: runs.append(job.id), redis_server.url, prefix=prefix, concurrency=5) as worker,
        ):
            running = asyncio.create_task(worker.run())
            await happens(asyncio.gather(*(program.communicate(b"go\n") for program in programs)))

            async def has_run() -> bool:
                return bool(runs)

            await until(has_run)
            await worker.close()
            await running

            assert [program.returncode for program in programs] == [0] * 4
            assert [one.id for one in await queue.get_job_schedulers()] == ["s"]
            counts = await queue.get_job_counts("delayed", "waiting", "active", "prioritized")
            assert sum(counts.values()) == 1
            assert len(set(runs)) == len(runs)
    finally:
        for program in programs:
            if program.returncode is None:
                program.kill()
                await program.wait()


@pytest.mark.parametrize(
    ("how", "field"),
    [
        ({}, "cron"),
        ({"every": 1_000, "cron": "* * * * *"}, "cron"),
        ({"every": 0}, "every"),
        ({"every": "1s"}, "every"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "tz"),
        ({"every": 1_000, "tz": "UTC"}, "tz"),
        ({"every": 1_000, "end": 5}, "end"),
        ({"every": 1_000, "start": datetime(2030, 1, 1)}, "start"),  # noqa: DTZ001
        ({"cron": "* * * * *", "offset": 5}, "offset"),
        ({"cron": "* * * * *", "immediately": True, "start": 5}, "immediately"),
        ({"every": 1_000, "immediately": True}, "immediately"),
        ({"every": 1_000, "limit": -1}, "limit"),
        ({"every": 1_000, "options": {"job_id": "x"}}, "job_id"),
    ],
)
async def test_mistakes_are_named(queue: Queue, how: dict[str, Any], field: str) -> None:
    """What cannot be meant is refused before anything is sent, by the name that the caller used."""
    with pytest.raises(InvalidOption) as caught:
        await queue.upsert_job_scheduler("s", **how)

    assert caught.value.field == field
    assert await queue.count_job_schedulers() == 0


async def test_other_mistakes(queue: Queue) -> None:
    """An empty id, data that is not JSON and an unknown option are refused."""
    with pytest.raises(InvalidOption):
        await queue.upsert_job_scheduler("", every=1_000)
    with pytest.raises(NotEncodable):
        await queue.upsert_job_scheduler("s", every=1_000, data=object())
    unknown: Any = {"atempts": 1}
    with pytest.raises(UnknownOption):
        await queue.upsert_job_scheduler("s", every=1_000, options=unknown)


async def test_late_upsert_leaves_the_running_job_alone(redis_server: Server, prefix: str) -> None:
    """An upsert that was computed before a slot and arrives when its job runs is refused, and the job ends in order."""
    due_ms = now_ms() // 1_000 * 1_000
    keys = Keys("mail", prefix)
    every_second = Repeat(pattern="* * * * * *", tz="UTC")
    late = add_job_scheduler(keys, "s", every_second, name="s", data={}, options=job_options(), now_ms=due_ms - 1)
    assert late is not None
    refused = []

    async with Queue("mail", redis_server.url, prefix=prefix) as queue:
        connection = connect(redis_server.url)

        async def process(job: Job) -> None:
            if job.id == f"repeat:s:{due_ms}":
                for _ in range(2):
                    with pytest.raises(SchedulerCollision):
                        await connection.send(late)
                refused.append(job.id)
                worker.stop()

        worker = Worker("mail", process, redis_server.url, prefix=prefix)
        await connection.send(late)
        await happens(worker.run())
        await connection.close()

        assert refused == [f"repeat:s:{due_ms}"]
        assert [job.id for job in await queue.get_jobs("completed")] == refused
        assert (await queue.get_job_counts("active", "waiting", "delayed"))[JobState.ACTIVE] == 0
