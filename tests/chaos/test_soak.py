"""The soak, short, in each place, and its account, which must see what went wrong."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from echomq import Queue, Worker
from support.servers import Server

from .soak.account import Account, account_of
from .soak.places import TOPOLOGIES

TESTS = Path(__file__).parents[1]


@pytest.mark.heavy
@pytest.mark.parametrize("topology", TOPOLOGIES)
async def test_short_soak_is_clean(topology: str) -> None:
    """Half a minute of faults of each topology's own costs no job and repeats no result."""
    command = ["-m", "chaos.soak", "--minutes", "0.5", "--jobs", "1000", "--topology", topology]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=TESTS, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), 170)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    assert process.returncode == 0, said.decode()


async def done(server: Server, prefix: str, count: int) -> dict[tuple[str, str], int]:
    """Let so many jobs run, each noted; returns what an account is to expect."""

    async def work(job: Any) -> None:
        with contextlib.closing(server.client()) as client:
            client.rpush(f"{prefix}:runs", job.id)

    async with Queue("work", server.url, prefix=prefix) as queue:
        ids = [(await queue.add("work", number, job_id=f"n{number}")).id for number in range(count)]
    async with Worker("work", work, server.url, prefix=prefix) as worker:
        await worker.run(until="drained")
    return {(f"{prefix}:work", job_id): 1 for job_id in ids}


def account(server: Server, prefix: str, expected: dict[tuple[str, str], int]) -> Account:
    """The account of the queue."""
    with contextlib.closing(server.client()) as client, contextlib.closing(server.client()) as notes:
        return account_of([(client, prefix)], ["work"], expected, notes)


async def test_account_of_a_sound_queue(server: Server, prefix: str) -> None:
    """An account of jobs that all ran once finds nothing wrong, and counts them."""
    expected = await done(server, prefix, 5)
    found = account(server, prefix, expected)

    assert found.is_clean
    assert (found.added, found.completed, found.attempts, found.runs) == (5, 5, 5, 5)


@pytest.mark.parametrize(
    ("damage", "what", "found"),
    [
        (("ZREM", "work:completed", "n0"), "lost", ["work:n0"]),
        (("XADD", "work:events", "*", "event", "completed", "jobId", "n1"), "twice", ["work:n1"]),
        (("HSET", "work:n2", "atm", "2"), "miscounted", ["work:n2"]),
        (("LREM", "runs", 1, "n3"), "not_run", ["work:n3"]),
        (("SET", "work:n4:lock", "token"), "unsound", ["work:n4:lock"]),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
async def test_account_tells_what_is_wrong(
    server: Server, prefix: str, damage: tuple[Any, ...], what: str, found: list[str]
) -> None:
    """Whatever an outage could do to a job that was acknowledged makes the account unclean, by its id."""
    expected = await done(server, prefix, 5)
    with contextlib.closing(server.client()) as client:
        command, key, *arguments = damage
        client.execute_command(command, f"{prefix}:{key}", *arguments)  # type: ignore[no-untyped-call]  # redis-py leaves it so
    told = account(server, prefix, expected)

    assert not told.is_clean
    assert list(getattr(told, what)) == [f"{prefix}:{name}" for name in found]
    assert found[0] in json.dumps(list(told.lines()))
