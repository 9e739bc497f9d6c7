"""Worker processes that die in the middle of their work."""

import asyncio
import signal
from collections import Counter

from support.desk import Desk, happens, until

from .conftest import StartWorker, says

QUICK = {"lock_duration": 1_000, "stalled_interval": 300, "drain_delay": 200}


async def runs(desk: Desk) -> "Counter[str]":
    """How often each job ran."""
    return Counter(row.decode() for row in await desk.do("LRANGE", f"{desk.keys.prefix}:runs", 0, -1))


async def until_runs(desk: Desk, count: int) -> None:
    """Wait until so many runs have begun."""

    async def begun() -> bool:
        return bool(await desk.do("LLEN", f"{desk.keys.prefix}:runs") >= count)

    await until(begun)


async def test_killed_worker_loses_no_job(desk: Desk, start_worker: StartWorker) -> None:
    """SIGKILL in the middle of 500 jobs loses none, and only those that were running run again (pain 7)."""
    ids = await desk.add_many(500)
    victim = await start_worker(desk, concurrency=20, sleep_ms=10, **QUICK)
    await until_runs(desk, 150)
    victim.kill()
    await happens(victim.wait())
    ran_before = await runs(desk)

    await start_worker(desk, concurrency=20, max_stalled_count=3, **QUICK)
    await desk.until_counts(completed=500)

    ran = await runs(desk)
    assert set(ran) == set(ids)
    assert sum(ran.values()) - 500 <= 20
    assert all(count == 1 for job_id, count in ran.items() if job_id not in ran_before)
    results = [(await desk.job(job_id)).return_value for job_id in ids]
    assert results == [number * 2 for number in range(500)]


async def test_second_crash_fails_the_job(desk: Desk, start_worker: StartWorker) -> None:
    """A job whose worker dies runs again, and after a second death fails with a reason naming the limit (pain 7)."""
    job_id = await desk.add(1)
    for count in (1, 2):
        victim = await start_worker(desk, sleep_ms=60_000, **QUICK)
        await until_runs(desk, count)
        victim.kill()
        await happens(victim.wait())
    await start_worker(desk, sleep_ms=0, **QUICK)
    await desk.until_counts(failed=1)
    job = await desk.job(job_id)

    assert job.failed_reason == "job stalled more than allowable limit"
    assert job.stalled_count == 2
    assert (await runs(desk))[job_id] == 2


async def test_recovery_does_not_depend_on_names(desk: Desk, start_worker: StartWorker) -> None:
    """Of two workers of one name one is killed: its job runs again, the other's is left alone (pain 6)."""
    workers = [await start_worker(desk, name="twin", sleep_ms=1_500, **QUICK) for _ in range(2)]
    first, second = await desk.add_many(2)  # now, since a process may take long to start
    await until_runs(desk, 2)

    workers[0].kill()
    await until_runs(desk, 3)
    await desk.until_counts(completed=2)

    assert sorted((await runs(desk)).values()) == [1, 2]
    stalled = [(await desk.job(job_id)).stalled_count for job_id in (first, second)]
    assert sorted(stalled) == [0, 1]


async def test_frozen_worker_writes_no_second_result(desk: Desk, start_worker: StartWorker) -> None:
    """A worker that was frozen longer than its lock lives finds the job taken, and writes nothing over its result."""
    job_id = await desk.add(1)
    frozen = await start_worker(desk, sleep_ms=3_000, **QUICK)
    await until_runs(desk, 1)
    frozen.send_signal(signal.SIGSTOP)
    await start_worker(desk, sleep_ms=0, **QUICK)
    await desk.until_counts(completed=1)
    finished_at = (await desk.job(job_id)).finished_on_ms

    frozen.send_signal(signal.SIGCONT)
    await asyncio.sleep(2)

    assert await desk.counts() == {"completed": 1}
    assert (await desk.job(job_id)).finished_on_ms == finished_at
    assert (await desk.job(job_id)).attempts_made == 1


async def test_sigterm_ends_a_process_gracefully(desk: Desk, start_worker: StartWorker) -> None:
    """SIGTERM lets running jobs end and their results be stored, and the process ends by itself (pain 31 and 32)."""
    await desk.add_many(60)
    worker = await start_worker(desk, concurrency=20, sleep_ms=300)
    await until_runs(desk, 20)

    worker.send_signal(signal.SIGTERM)

    assert await happens(worker.wait()) == 0
    counts = await desk.counts()
    ran = await runs(desk)
    assert counts["completed"] == sum(ran.values()) == len(ran)
    assert counts["completed"] + counts["waiting"] == 60


async def test_second_sigterm_forces_a_process(desk: Desk, start_worker: StartWorker) -> None:
    """A second SIGTERM ends the process at once, and its job waits again without having used an attempt (pain 31)."""
    job_id = await desk.add(1)
    worker = await start_worker(desk, sleep_ms=60_000)
    await until_runs(desk, 1)

    worker.send_signal(signal.SIGTERM)
    await says(worker, "closing")
    worker.send_signal(signal.SIGTERM)

    assert await happens(worker.wait()) == 0
    assert await desk.counts() == {"waiting": 1}
    assert (await desk.job(job_id)).attempts_made == 0
