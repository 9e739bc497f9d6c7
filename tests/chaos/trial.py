"""A queue at work while something goes wrong, and the account of it.

A producer adds jobs one after the other, workers run them, a fault strikes once
or more often; afterwards every acknowledged job must be there, finished once.
How long it took to get over each strike is measured: until what was active when
it ended has finished, and a job that was added then, too.
"""

import asyncio
import contextlib
import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import attrs

import echomq.sync
from echomq import Queue, Worker, connect
from echomq.driver import AsyncConnection
from echomq.errors import ConnectionLost, EchoMQError, ServerRefused
from scripts.invariants import faults
from support.desk import Desk, until
from support.recorder import STRIKES, Row, record
from support.servers import Server
from vectors.keyspace import RawClient, dump

__all__ = ["DICE", "LOCK_S", "OPTIONS", "Strike", "Trial"]

JOBS = int(os.environ.get("ECHOMQ_FAULT_JOBS", "60"))
"""Jobs of each trial."""

OPTIONS: Any = {
    "concurrency": 5,
    "lock_duration": 1_000,
    "stalled_interval": 300,
    "max_stalled_count": 1_000,
    "drain_delay": 300,
}

LOCK_S = OPTIONS["lock_duration"] / 1000
DICE = random.Random(20_260_101)

Strike: TypeAlias = Callable[[], Awaitable[object]]
"""Lets the fault happen, and returns when it is over."""

_WITHIN_S = 90.0
_FINISHED = ("completed", "failed")


@attrs.define(eq=False, kw_only=True)
class Trial:
    """One queue, watched.

    Attributes:
        desk: The queue, by a connection that nothing goes wrong with on purpose.
        server: Where it is.
        driver: Of workers and producer.
        shell: Of the workers.
        url: Where workers and producer connect to.
        acknowledged: Number of each job whose add was answered, by id.
        runs: How often workers of this process saw each job.
        recoveries_ms: See the module.
    """

    desk: Desk
    server: Server
    driver: str
    shell: str
    url: str
    acknowledged: dict[str, int] = attrs.field(factory=dict)
    runs: "Counter[str]" = attrs.field(factory=Counter)
    recoveries_ms: list[float] = attrs.field(factory=list)
    _queue: Queue | None = None
    _moved: list[AsyncConnection] = attrs.field(factory=list)
    _enough: asyncio.Event = attrs.field(factory=asyncio.Event)

    # -- who works ------------------------------------------------------------------------------

    async def _work(self, job: Any) -> int:
        self._begin(job)
        await asyncio.sleep(0.01)
        return int(job.data) * 2

    def _work_blocking(self, job: Any) -> int:
        self._begin(job)
        time.sleep(0.01)
        return int(job.data) * 2

    def _begin(self, job: Any) -> None:
        self.runs[job.id] += 1
        if job.attempts_made + 1 < job.options.attempts:
            raise ValueError("as planned")

    @contextlib.asynccontextmanager
    async def working(self, **options: Any) -> AsyncIterator[None]:
        """A worker in this process for the length of a ``with`` block."""
        name, prefix = self.desk.keys.queue, self.desk.keys.prefix
        given = {**OPTIONS, **options}
        if self.shell == "blocking":
            blocking = echomq.sync.Worker(name, self._work_blocking, self.url, prefix=prefix, **given)
            thread = threading.Thread(target=blocking.run, daemon=True)
            thread.start()
            try:
                yield
            finally:
                await asyncio.to_thread(blocking.close, 2_000)
                await asyncio.to_thread(thread.join, _WITHIN_S)
            return
        worker = Worker(name, self._work, self.url, prefix=prefix, **given)
        running = asyncio.ensure_future(worker.run(handle_signals=False))
        try:
            yield
        finally:
            await worker.close(2_000)
            await running

    def watch(self, url: str) -> None:
        """Watch the server at another address from now on."""
        self._moved.append(connect(url))
        self.desk = attrs.evolve(self.desk, connection=self._moved[-1])

    async def close(self) -> None:
        """Let go of connections to other addresses."""
        for connection in self._moved:
            await connection.close()

    # -- what happens ---------------------------------------------------------------------------

    async def go(self, strike: Strike, *, times: int = 1) -> None:
        """Let the fault strike so often, or more, while jobs are added and run; return when all of them are done."""
        times = max(times, STRIKES)
        async with Queue("work", self.url, prefix=self.desk.keys.prefix, max_events=10_000_000) as self._queue:
            producing = asyncio.ensure_future(self._produce())
            share = JOBS // (times + 1)
            for turn in range(times):
                await self._until_acknowledged(share * (turn + 1))
                await strike()
                await self._recover()
            self._enough.set()
            await asyncio.wait_for(producing, _WITHIN_S)
        await until(self._is_done, _WITHIN_S)

    async def _produce(self) -> None:
        number = 0
        while number < JOBS or not self._enough.is_set():
            await self.add(number)
            number += 1
            await asyncio.sleep(0.005)

    async def add(self, number: int) -> str:
        """Add a job while :meth:`go` goes on; its number decides how often it fails, and must be new."""
        assert self._queue is not None
        attempts = 2 if number % 5 == 0 else 1
        priority = 3 if number % 7 == 0 else 0
        while True:
            with contextlib.suppress(ConnectionLost, ServerRefused):
                job = await self._queue.add("work", number, job_id=f"n{number}", attempts=attempts, priority=priority)
                self.acknowledged[job.id] = number
                return job.id
            await asyncio.sleep(0.01)

    async def _until_acknowledged(self, count: int) -> None:
        async def reached() -> bool:
            return len(self.acknowledged) >= count

        await until(reached, _WITHIN_S)

    async def _recover(self) -> None:
        """Measure how long it takes until what was active has finished, and a new job too."""
        begun = time.monotonic()
        active = await self._insist("LRANGE", self.desk.keys.active, 0, -1)
        probe = await self.add(1_000_000 + len(self.recoveries_ms))
        ids = [*active, probe.encode()]

        async def have_finished() -> bool:
            scores = [await self._insist("ZMSCORE", self._key(state), *ids) for state in _FINISHED]
            return all(any(scored) for scored in zip(*scores, strict=True))

        await until(have_finished, _WITHIN_S)
        self.recoveries_ms.append((time.monotonic() - begun) * 1000)

    def _key(self, name: str) -> str:
        return f"{self.desk.keys.base}{name}"

    async def _insist(self, *parts: Any) -> Any:
        while True:
            with contextlib.suppress(EchoMQError):
                return await self.desk.do(*parts)
            await asyncio.sleep(0.01)

    async def _is_done(self) -> bool:
        with contextlib.suppress(EchoMQError):
            return await self.desk.counts() == {"completed": len(self.acknowledged)}
        return False

    # -- the account ----------------------------------------------------------------------------

    async def account(self, fault: str, topology: str = "single, AOF always") -> None:
        """Check that nothing was lost, nothing finished twice and nothing was left behind, and keep a row of it."""
        keyspace = await asyncio.to_thread(self._dump)
        name = self._key("").removesuffix(":")
        ends: Counter[str] = Counter()
        for fields in keyspace[f"{name}:events"]["value"]:
            event = dict(zip(fields[::2], fields[1::2], strict=True))
            if event["event"] in _FINISHED:
                ends[event["jobId"]] += 1
        completed = {item[0] for item in keyspace[f"{name}:completed"]["value"]}
        lost = self.acknowledged.keys() - completed
        twice = [job_id for job_id, count in ends.items() if count > 1]
        record(
            Row(
                fault=fault,
                topology=topology,
                driver=self.driver,
                workers=self.shell,
                jobs=len(self.acknowledged),
                lost=len(lost),
                twice=len(twice),
                recoveries_ms=self.recoveries_ms,
            )
        )
        assert not lost
        assert not twice
        assert ends.keys() == completed
        assert faults(keyspace, [name]) == {}
        for job_id, number in self.acknowledged.items():
            job = keyspace[f"{name}:{job_id}"]["value"]
            assert json.loads(job["returnvalue"]) == number * 2
            assert int(job["atm"]) == (2 if number % 5 == 0 else 1), job

    def _dump(self) -> Any:
        with contextlib.closing(RawClient(self.server.url)) as client:
            return dump(client)
