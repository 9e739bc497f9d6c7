"""Workers in processes of their own, and queues on servers that may be killed."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from support.desk import Desk, at_desk, happens
from support.servers import Server, Servers

from .trial import Trial

StartWorker: TypeAlias = Callable[..., Awaitable[asyncio.subprocess.Process]]


@pytest.fixture(params=["redis", pytest.param("valkey", marks=pytest.mark.heavy)])
def server(request: pytest.FixtureRequest, fresh_server: Callable[[str], Server]) -> Server:
    """A running, empty server of each kind in turn; by default one kind is enough, these tests are slow."""
    return fresh_server(request.param)


@pytest_asyncio.fixture
async def desk(server: Server, prefix: str) -> AsyncIterator[Desk]:
    """An empty queue, on each server in turn."""
    async with at_desk(server.url, prefix) as opened:
        yield opened


@pytest.fixture(params=["valkey", pytest.param("redis", marks=pytest.mark.heavy)])
def durable(request: pytest.FixtureRequest, servers: Servers) -> Server:
    """A server of the test's own that writes each change to disk before it is acknowledged."""
    return servers.start(request.param, aof=True)


COMBINATIONS = [
    pytest.param(("redis", "asyncio"), id="redis-asyncio"),
    *(
        pytest.param(combination, id="-".join(combination), marks=pytest.mark.heavy)
        for combination in [("redis", "blocking"), ("valkey", "asyncio"), ("valkey", "blocking")]
    ),
]
"""Driver (and its server), and shell of the workers."""


@pytest_asyncio.fixture(params=COMBINATIONS)
async def trial(request: pytest.FixtureRequest, servers: Servers, prefix: str) -> AsyncIterator[Trial]:
    """A queue on a server of its own that writes each change to disk before it is acknowledged."""
    driver, shell = request.param
    server = servers.start(driver, aof=True)
    async with at_desk(server.url, prefix) as desk:
        opened = Trial(desk=desk, server=server, driver=driver, shell=shell, url=server.url_as(driver))
        yield opened
        await opened.close()


async def says(process: asyncio.subprocess.Process, word: str) -> None:
    """Wait for the next word of a worker process, which it must say."""
    assert process.stdout is not None
    assert (await happens(process.stdout.readline())).decode().strip() == word


@pytest_asyncio.fixture
async def start_worker() -> AsyncIterator[StartWorker]:
    """Starts worker processes; those left at the end of the test are killed."""
    started: list[asyncio.subprocess.Process] = []

    async def start(desk: Desk, script: str = "process.py", **options: Any) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__).parent / script)),
            *(desk.url, desk.keys.prefix, json.dumps(options)),
            stdout=asyncio.subprocess.PIPE,
        )
        started.append(process)
        await says(process, "ready")
        return process

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
