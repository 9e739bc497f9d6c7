"""A long storm: ``nox -s soak``, or ``python soak.py [--minutes 20] [--jobs 100000] [--server valkey] [--seed N]``.

Jobs of all kinds go through two queues, one of them rate limited, while workers
of both shells are killed and frozen, their server crashes, freezes and refuses,
and links are cut. At the end every job is accounted for; the exit code is 1 if
one was lost, finished twice, or left anything behind.
"""

import argparse
import asyncio
import contextlib
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import redis

from echomq import FlowNode, FlowProducer, Queue
from echomq.errors import ConnectionLost, FlowFailed, ServerRefused
from support.proxy import Proxy, proxy_to
from support.servers import Server, started

from .account import Account, account_of

PREFIX = "soak"
OPTIONS: Any = {
    "concurrency": 10,
    "sleep_ms": 40,
    "lock_duration": 2_000,
    "stalled_interval": 500,
    "max_stalled_count": 1_000,
    "drain_delay": 500,
}
CREW: tuple[dict[str, Any], ...] = (
    {"shell": "asyncio"},
    {"shell": "blocking"},
    {"shell": "asyncio", "skew_ms": 120_000},
    {"queue": "limited", "limiter": {"max": 20, "duration": 500}},
)
"""Workers, by what they differ in. The first two come by way of the proxy."""

ADDERS = 8
ALL_WITHIN_S = 180


@attrs.define(eq=False, kw_only=True)
class Soak:
    """One storm.

    Attributes:
        server: Where the queues are; its data is written to disk always.
        proxy: In front of it, for producers and some workers.
        dice: Decides everything.
        jobs: How many to add, children and parents counted.
        seconds: How long the storm lasts.
        expected: Attempts of each acknowledged job, by queue and id.
        struck: Faults so far.
        longest_stall_s: Longest time in which nothing finished though something waited.
    """

    server: Server
    proxy: Proxy
    dice: random.Random
    jobs: int
    seconds: float
    expected: dict[tuple[str, str], int] = attrs.field(factory=dict)
    struck: "Counter[str]" = attrs.field(factory=Counter)
    longest_stall_s: float = 0
    _workers: list[asyncio.subprocess.Process] = attrs.field(factory=list)
    _planned: int = 0
    _begun_s: float = attrs.field(factory=time.monotonic)
    _over: bool = False

    # -- jobs -----------------------------------------------------------------------------------

    async def produce(self) -> None:
        """Add all jobs, spread over nine tenths of the time, and let schedulers run meanwhile."""
        async with (
            Queue("work", self.proxy.url, prefix=PREFIX, max_events=100_000_000) as work,
            Queue("limited", self.proxy.url, prefix=PREFIX, max_events=100_000_000) as limited,
            FlowProducer(self.proxy.url, prefix=PREFIX) as flows,
        ):
            for number in range(3):
                await _insist(lambda number=number: work.upsert_job_scheduler(f"s{number}", every=700, data=1))
            await asyncio.gather(*(self._add_some(work, limited, flows) for _ in range(ADDERS)))
            for number in range(3):
                await _insist(lambda number=number: work.remove_job_scheduler(f"s{number}"))

    async def _add_some(self, work: Queue, limited: Queue, flows: FlowProducer) -> None:
        while self._planned < self.jobs:
            due_s = self._begun_s + self._planned / self.jobs * self.seconds * 0.9
            await asyncio.sleep(max(0, due_s - time.monotonic()))
            number, kind = self._planned, self.dice.random()
            self._planned += 3 if kind < 0.05 else 1
            if kind < 0.05:
                await self._add_flow(flows, number)
            else:
                await self._add(limited if kind < 0.1 else work, number)

    async def _add(self, queue: Queue, number: int) -> None:
        options: dict[str, Any] = {"attempts": self.dice.choice([1, 1, 1, 1, 2, 3])}
        if self.dice.random() < 0.2:
            options["priority"] = self.dice.randint(1, 5)
        if self.dice.random() < 0.15:
            options["delay"] = self.dice.randrange(3_000)
        if self.dice.random() < 0.3:
            options["backoff"] = 100
        job_id = f"n{number}"
        await _insist(lambda: queue.add("work", number, job_id=job_id, **options))
        self.expected[queue.name, job_id] = options["attempts"]

    async def _add_flow(self, flows: FlowProducer, number: int) -> None:
        def node(name: str, children: tuple[FlowNode, ...] = ()) -> FlowNode:
            return FlowNode(queue="work", name="work", data=number, options={"job_id": name}, children=children)

        ids = [f"n{number}", f"n{number}a", f"n{number}b"]
        tree = node(ids[0], (node(ids[1]), node(ids[2])))
        await _insist(lambda: flows.add(tree))
        self.expected.update({("work", job_id): 1 for job_id in ids})

    # -- workers --------------------------------------------------------------------------------

    async def hire(self, place: int) -> asyncio.subprocess.Process:
        """Start a worker process."""
        url = self.proxy.url if place < 2 else self.server.url_as("valkey")
        return await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__).parent / "process.py")),
            *(url, PREFIX, json.dumps({**OPTIONS, **CREW[place]})),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )

    @contextlib.asynccontextmanager
    async def crew(self) -> AsyncIterator[None]:
        """Workers for the length of a ``with`` block; those that were not killed must end when told to."""
        self._workers = [await self.hire(place) for place in range(len(CREW))]
        try:
            yield
            for process in self._workers:
                process.terminate()
            for process in self._workers:
                assert await asyncio.wait_for(process.wait(), 30) == 0, "a worker did not end well"
        finally:
            for process in self._workers:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

    # -- faults ---------------------------------------------------------------------------------

    async def storm(self) -> None:
        """Let one fault follow the other until time is up."""
        evils = {
            "worker killed": self._kill_worker,
            "worker frozen": self._freeze_worker,
            "server killed": self._crash,
            "server frozen": self._freeze_server,
            "links cut": self._cut_links,
            "connections killed": self._kill_connections,
            "server read-only": self._demote,
            "out of memory": self._starve,
            "busy with a script": self._keep_busy,
        }
        while time.monotonic() < self._begun_s + self.seconds:
            await asyncio.sleep(self.dice.uniform(0.5, 3))
            name = self.dice.choice(tuple(evils))
            await evils[name]()
            self.struck[name] += 1

    async def _kill_worker(self) -> None:
        place = self.dice.randrange(len(CREW))
        self._workers[place].kill()
        await self._workers[place].wait()
        self._workers[place] = await self.hire(place)

    async def _freeze_worker(self) -> None:
        worker = self.dice.choice(self._workers)
        worker.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(0.5, 4))
        worker.send_signal(signal.SIGCONT)

    async def _crash(self) -> None:
        await asyncio.to_thread(self.server.kill)
        await asyncio.sleep(self.dice.uniform(0, 1))
        await asyncio.to_thread(self.server.restart)

    async def _freeze_server(self) -> None:
        self.server.pause()
        await asyncio.sleep(self.dice.uniform(0.2, 3))
        self.server.resume()

    async def _cut_links(self) -> None:
        for _ in range(10):
            self.proxy.cut_after("up" if self.dice.random() < 0.5 else "down", self.dice.randrange(5_000))
            await asyncio.sleep(0.05)

    async def _kill_connections(self) -> None:
        with contextlib.closing(self.server.client()) as client:
            for _ in range(10):
                client.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.1)

    async def _demote(self) -> None:
        with contextlib.closing(self.server.client()) as client:
            client.replicaof("127.0.0.1", str(self.server.port))
            await asyncio.sleep(self.dice.uniform(0, 1))
            client.replicaof("NO", "ONE")

    async def _starve(self) -> None:
        with contextlib.closing(self.server.client()) as client:
            client.config_set("maxmemory", "1")
            await asyncio.sleep(self.dice.uniform(0, 1))
            client.config_set("maxmemory", "0")

    async def _keep_busy(self) -> None:
        def loop_for_ever() -> None:
            with contextlib.closing(self.server.client()) as client, contextlib.suppress(redis.RedisError):
                client.eval("while true do end", 0)

        with contextlib.closing(self.server.client()) as client:
            client.config_set("lua-time-limit", "20")
            thread = threading.Thread(target=loop_for_ever)
            thread.start()
            await asyncio.sleep(self.dice.uniform(0.1, 1))
            client.script_kill()
            await asyncio.to_thread(thread.join)

    # -- watching -------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Measure stalls, until nothing is left to do."""
        finished, since_s = 0, time.monotonic()
        while not self._over:
            await asyncio.sleep(0.1)
            progress = await asyncio.to_thread(self._progress)
            if progress is not None and (progress[0] != finished or not progress[1]):
                finished, since_s = progress[0], time.monotonic()
            self.longest_stall_s = max(self.longest_stall_s, time.monotonic() - since_s)

    def _progress(self) -> tuple[int, int] | None:
        """How many have finished, and how many could; None while the server cannot say."""
        try:
            with contextlib.closing(self.server.client(socket_timeout=1)) as client:
                pipe = client.pipeline(transaction=False)
                for queue in ("work", "limited"):
                    pipe.zcard(f"{PREFIX}:{queue}:completed")
                    pipe.llen(f"{PREFIX}:{queue}:wait")
                    pipe.llen(f"{PREFIX}:{queue}:active")
                    pipe.zcard(f"{PREFIX}:{queue}:prioritized")
                sizes = pipe.execute()
        except redis.RedisError:
            return None
        return sizes[0] + sizes[4], sum(sizes) - sizes[0] - sizes[4]

    async def until_all_done(self) -> None:
        """Wait until nothing waits, runs or is delayed any more."""
        give_up = time.monotonic() + ALL_WITHIN_S
        while True:
            async with Queue("work", self.server.url, prefix=PREFIX) as work:
                counts = await work.get_job_counts("waiting", "active", "delayed", "prioritized", "waiting-children")
            async with Queue("limited", self.server.url, prefix=PREFIX) as limited:
                more = await limited.get_job_counts("waiting", "active", "delayed", "prioritized")
            if not any((*counts.values(), *more.values())):
                break
            assert time.monotonic() < give_up, f"these did not end: {counts} {more}"
            await asyncio.sleep(0.2)
        self._over = True

    async def run(self) -> Account:
        """Do all of it."""
        watching = asyncio.ensure_future(self.watch())
        async with self.crew():
            await asyncio.gather(self.produce(), self.storm())
            await self.until_all_done()
        await watching
        with contextlib.closing(self.server.client(socket_timeout=60)) as client:
            return account_of(client, PREFIX, ("work", "limited"), self.expected)


async def _insist(add: Any) -> None:
    """Do something until it is acknowledged; a flow that was refused in part is completed by the next try."""
    while True:
        try:
            await add()
        except (ConnectionLost, FlowFailed, ServerRefused):
            await asyncio.sleep(0.05)
        else:
            return


def main() -> None:
    """Run a storm and tell what came of it."""
    parser = argparse.ArgumentParser(description="Work through a storm of faults.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--server", choices=("redis", "valkey"), default="valkey")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    given = parser.parse_args()
    print(f"{given.jobs} jobs in {given.minutes} minutes on {given.server}, seed {given.seed}", flush=True)
    with started(given.server, aof=True) as server, proxy_to(server.host, server.port) as proxy:
        dice = random.Random(given.seed)
        soak = Soak(server=server, proxy=proxy, dice=dice, jobs=given.jobs, seconds=given.minutes * 60)
        account = asyncio.run(soak.run())
    for name, value in account.lines():
        print(f"{name:<28}{value}")
    print(f"{'longest stall':<28}{soak.longest_stall_s:.1f} s, outages included")
    print(f"{'faults':<28}{', '.join(f'{count} x {name}' for name, count in soak.struck.most_common())}")
    sys.exit(0 if account.is_clean else 1)


if __name__ == "__main__":
    main()
