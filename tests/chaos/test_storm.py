"""Everything at once: workers killed and stopped, servers killed and frozen, links cut, at random."""

import asyncio
import random
import time
from collections import Counter
from typing import Any

import pytest

from support.clusters import kill_connections
from support.desk import Desk, at_desk, happens
from support.servers import Server

from .conftest import StartWorker

JOBS = 4_000
SECONDS = 25
OPTIONS: Any = {
    "concurrency": 10,
    "sleep_ms": 15,
    "lock_duration": 1_500,
    "stalled_interval": 400,
    "max_stalled_count": 50,
    "drain_delay": 300,
}


async def fill(desk: Desk, dice: random.Random) -> list[str]:
    """Add jobs of all kinds: plain, with attempts of which all but the last fail, with priorities, delayed."""
    ids: list[str] = []
    for start in range(0, JOBS, 500):
        kinds: list[dict[str, Any]] = [
            {
                **({"attempts": 3, "backoff": 50} if number % 7 == 0 else {}),
                **({"priority": 5} if number % 5 == 0 else {}),
                **({"delay": dice.randrange(5_000)} if number % 3 == 0 else {}),
            }
            for number in range(start, start + 500)
        ]
        ids += await asyncio.gather(*(desk.add(start + at, **kind) for at, kind in enumerate(kinds)))
    return ids


async def strike(server: Server, dice: random.Random) -> None:
    """Let one evil happen to the server."""
    evil = dice.choice(["links", "crash", "freeze"])
    if evil == "links":
        await asyncio.to_thread(kill_connections, server)
    elif evil == "crash":
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(dice.uniform(0, 0.5))
        await asyncio.to_thread(server.restart)
    else:
        await asyncio.to_thread(server.pause)
        await asyncio.sleep(dice.uniform(0.1, 1))
        await asyncio.to_thread(server.resume)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2])
async def test_storm_loses_no_job(durable: Server, prefix: str, start_worker: StartWorker, seed: int) -> None:
    """Through a storm of crashes every job is completed once, its attempts counted, and no lock is left behind."""
    dice = random.Random(seed)
    async with at_desk(durable.url, prefix) as desk:
        ids = await fill(desk, dice)
        workers = [await start_worker(desk, **OPTIONS) for _ in range(3)]
        over = time.monotonic() + SECONDS
        while time.monotonic() < over:
            await asyncio.sleep(dice.uniform(0.2, 1.2))
            if dice.random() < 0.5:
                victim = workers.pop(dice.randrange(3))
                dice.choice([victim.kill, victim.terminate])()
                workers.append(await start_worker(desk, **OPTIONS))
            else:
                await strike(durable, dice)
        await happens(desk.until_counts(completed=JOBS), 60)

        jobs = [await desk.job(job_id) for job_id in ids]
        runs = Counter(row.decode() for row in await desk.do("LRANGE", f"{prefix}:runs", 0, -1))
        locks = [key for key in await desk.do("KEYS", f"{prefix}:work:*") if key.endswith(b":lock")]

    assert [job.return_value for job in jobs] == [number * 2 for number in range(JOBS)]
    assert [job.attempts_made for job in jobs] == [3 if number % 7 == 0 else 1 for number in range(JOBS)]
    assert set(runs) == set(ids)
    assert locks == []
