"""Faults of worker processes: each with a queue at work, and an account of it afterwards."""

import asyncio
import itertools
import signal
from collections import Counter
from typing import Any

import pytest

from support.desk import Desk, happens, until

from .conftest import StartWorker
from .trial import DICE, LOCK_S, OPTIONS, Trial

HARMFUL = 2_000_000
"""Number of the first job that does harm, in the tests that have such."""


async def hire(trial: Trial, start_worker: StartWorker, **options: Any) -> asyncio.subprocess.Process:
    """Start a worker process of the trial."""
    desk = Desk(trial.url, trial.desk.keys, trial.desk.connection)
    return await start_worker(desk, **{"shell": trial.shell, "sleep_ms": 20, **OPTIONS, **options})


async def until_active(trial: Trial) -> None:
    """Wait until a job runs."""

    async def runs() -> bool:
        return bool(await trial.desk.do("LLEN", trial.desk.keys.active))

    await until(runs)


async def test_workers_killed(trial: Trial, start_worker: StartWorker) -> None:
    """SIGKILL of workers at random moments costs no job, and what they held runs elsewhere (pain 7)."""
    workers = [await hire(trial, start_worker) for _ in range(2)]

    async def kill() -> None:
        workers.append(await hire(trial, start_worker))
        await asyncio.sleep(DICE.uniform(0, 0.1))
        await until_active(trial)
        victim = workers.pop(0)
        victim.kill()
        await happens(victim.wait())

    await trial.go(kill, times=2)
    await trial.account("worker killed")


@pytest.mark.heavy  # its kind has a smaller test that always runs
async def test_worker_frozen(trial: Trial, start_worker: StartWorker) -> None:
    """A worker that is frozen for longer than its locks live writes over nobody's results when it goes on."""
    frozen = await hire(trial, start_worker)
    await hire(trial, start_worker)

    async def freeze() -> None:
        await until_active(trial)
        frozen.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LOCK_S * 1.5)
        frozen.send_signal(signal.SIGCONT)

    await trial.go(freeze)
    await trial.account("worker frozen for longer than its locks live")


async def test_job_kills_its_process(trial: Trial, start_worker: StartWorker) -> None:
    """A job that ends its process by force runs again in another one, and so do those beside it."""
    workers: list[asyncio.subprocess.Process] = []
    numbers = itertools.count(HARMFUL)

    async def dies() -> None:
        while len(workers) < 2:
            workers.append(await hire(trial, start_worker, deadly=HARMFUL))
        await trial.add(next(numbers))
        deaths = {asyncio.ensure_future(worker.wait()): worker for worker in workers}
        await happens(asyncio.wait(deaths, return_when="FIRST_COMPLETED"))
        for death, worker in deaths.items():
            if death.done():
                workers.remove(worker)
            death.cancel()

    await trial.go(dies)
    await trial.account("a job kills its process")


@pytest.mark.heavy  # its kind has a smaller test that always runs
async def test_twins_of_one_name(trial: Trial, start_worker: StartWorker) -> None:
    """Of two workers with one name the one that dies is made up for by the other (pain 6)."""
    twins = [await hire(trial, start_worker, name="twin")]

    async def kill() -> None:
        twins.append(await hire(trial, start_worker, name="twin"))
        await until_active(trial)
        victim = twins.pop(0)
        victim.kill()
        await happens(victim.wait())

    await trial.go(kill)
    await trial.account("one of two workers of one name killed")


async def test_clocks_disagree(trial: Trial, start_worker: StartWorker) -> None:
    """Workers whose clocks are minutes apart share a queue, and one of them may die."""
    skews_ms = itertools.cycle([180_000, -180_000])
    workers = [await hire(trial, start_worker, skew_ms=next(skews_ms))]

    async def kill() -> None:
        workers.append(await hire(trial, start_worker, skew_ms=next(skews_ms)))
        await until_active(trial)
        victim = workers.pop(0)
        victim.kill()
        await happens(victim.wait())

    await trial.go(kill)
    await trial.account("clocks three minutes ahead and behind, and a death")


@pytest.mark.heavy  # its kind has a smaller test that always runs
async def test_loop_blocked(trial: Trial, start_worker: StartWorker) -> None:
    """A job that holds up its process for four lives of a lock loses no lock, and no job runs twice for it (pain 2)."""
    blocked_ms = int(LOCK_S * 4_000)
    for _ in range(2):
        await hire(trial, start_worker, slow=HARMFUL, slow_ms=blocked_ms)
    numbers = itertools.count(HARMFUL)

    async def is_blocked() -> None:
        number = next(numbers)
        await trial.add(number)

        async def has_begun() -> bool:
            return bool(await trial.desk.do("EXISTS", f"{trial.desk.keys.prefix}:slow:{number}"))

        await until(has_begun)

    await trial.go(is_blocked)
    ran = Counter(row.decode() for row in await trial.desk.do("LRANGE", f"{trial.desk.keys.prefix}:runs", 0, -1))
    assert ran == {job_id: 2 if number % 5 == 0 else 1 for job_id, number in trial.acknowledged.items()}
    # What was on its way to the blocked process may be recovered; what ran there is kept.
    harmful = [job_id for job_id, number in trial.acknowledged.items() if number >= HARMFUL]
    assert {(await trial.desk.job(job_id)).stalled_count for job_id in harmful} == {0}
    await trial.account("event loop blocked for four lives of a lock")
