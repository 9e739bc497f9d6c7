"""Workers of BullMQ and ours serve one queue, under one rate limit, while both are restarted again and again."""

import asyncio
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from echomq import Queue
from scripts.invariants import faults
from support.desk import happens, until
from support.peer import Peer, PeerObject, node_peer
from support.servers import Server
from vectors.keyspace import RawClient, dump

PROGRAM = Path(__file__).parent / "worker_process.py"
LIMIT_MS = 200
PARTS = 50
"""The limit lets so small a part of the jobs through at once, so that they take ten seconds at least."""
CONCURRENCY = 8
WITHIN_S = 400.0


@attrs.define(kw_only=True)
class Crew:
    """One Node worker and one of ours, each in a process, and whoever replaces them."""

    server: Server
    prefix: str
    stack: contextlib.AsyncExitStack
    limit: Any
    restarts: "Counter[str]" = attrs.field(factory=Counter)
    _node: tuple[Peer, PeerObject] | None = None
    _ours: asyncio.subprocess.Process | None = None

    async def hire_node(self) -> None:
        """Start a worker of BullMQ."""
        peer = await self.stack.enter_async_context(node_peer(self.server, self.prefix))
        options = {"concurrency": CONCURRENCY, "limiter": self.limit, "lockDuration": 1_500, "stalledInterval": 400}
        self._node = peer, await peer.open("Worker", "mail", {**options, "maxStalledCount": 1_000})

    async def hire_ours(self) -> None:
        """Start a worker of ours."""
        options = {"concurrency": CONCURRENCY, "limiter": self.limit, "lock_duration": 1_500, "stalled_interval": 400}
        self._ours = process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROGRAM), self.server.url, self.prefix),
            json.dumps({**options, "max_stalled_count": 1_000}),
            stdout=asyncio.subprocess.PIPE,
        )
        self.stack.callback(_end, process)
        assert process.stdout is not None
        assert (await happens(process.stdout.readline())).strip() == b"ready"

    async def restart(self, dice: random.Random) -> None:
        """Let one of them go, in one of several ways, and hire another."""
        how = dice.choice(["ours by SIGTERM", "Node by SIGTERM", "Node by close()"])
        self.restarts[how] += 1
        assert self._node is not None
        assert self._ours is not None
        if how == "ours by SIGTERM":
            self._ours.terminate()
            assert await happens(self._ours.wait()) == 0
            await self.hire_ours()
            return
        peer, worker = self._node
        if how == "Node by SIGTERM":
            peer.terminate()
        else:
            await worker.call("close")
            peer.kill()
        await self.hire_node()

    async def dismiss(self) -> None:
        """Let both end as they should."""
        assert self._node is not None
        assert self._ours is not None
        await self._node[1].call("close")
        self._ours.terminate()
        assert await happens(self._ours.wait()) == 0


def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


@contextlib.asynccontextmanager
async def crew(server: Server, prefix: str, count: int) -> AsyncIterator[Crew]:
    """Both workers, for the length of a ``with`` block and so many jobs."""
    limit = {"max": count // PARTS, "duration": LIMIT_MS}
    async with contextlib.AsyncExitStack() as stack:
        hired = Crew(server=server, prefix=prefix, stack=stack, limit=limit)
        await asyncio.gather(hired.hire_node(), hired.hire_ours())
        yield hired


@pytest.mark.parametrize("count", [200, pytest.param(2_000, marks=pytest.mark.heavy)])
async def test_restarts_of_both(redis_server: Server, prefix: str, count: int) -> None:
    """Through restarts of Node's and our workers under a rate limit, each job finishes once (pains 7 and 32)."""
    dice = random.Random(count)
    async with (
        Queue("mail", redis_server.url, prefix=prefix, max_events=1_000_000) as queue,
        crew(redis_server, prefix, count) as hired,
    ):
        ids: list[str] = []

        async def add(more: int) -> None:
            numbers = range(len(ids), len(ids) + more)
            ids.extend(job.id for job in await queue.add_bulk([("n", {"n": n, "takesMs": 20}) for n in numbers]))

        async def both_work() -> bool:
            return {job.return_value["by"] for job in await queue.get_jobs("completed")} == {"node", "echomq"}

        await add(count)
        await until(both_work)  # where a start takes long, one might do all the rest
        done, give_up = 0, asyncio.get_running_loop().time() + WITHIN_S
        while done < len(ids):
            if done < len(ids) * 0.9:
                await hired.restart(dice)
            await asyncio.sleep(dice.uniform(0.5, 1.5))
            counts = {state.value: number for state, number in (await queue.get_job_counts()).items() if number}
            assert set(counts) <= {"waiting", "active", "completed"}
            assert asyncio.get_running_loop().time() < give_up, counts
            done = counts.get("completed", 0)
            if done == len(ids) and sum(hired.restarts.values()) < 2:  # a start takes as long as all of them
                await add(count)
        await hired.dismiss()
        keyspace = await asyncio.to_thread(_dump, redis_server.url)

    name = f"{prefix}:mail"
    ends = Counter(event["jobId"] for event in _events(keyspace, name) if event["event"] in ("completed", "failed"))
    jobs = [keyspace[f"{name}:{job_id}"]["value"] for job_id in ids]
    assert ends == dict.fromkeys(ids, 1)
    assert {job["atm"] for job in jobs} == {"1"}
    assert Counter(json.loads(job["data"])["n"] for job in jobs) == dict.fromkeys(range(len(ids)), 1)
    assert {json.loads(job["returnvalue"])["by"] for job in jobs} == {"node", "echomq"}
    assert faults(keyspace, [name]) == {}
    assert sum(hired.restarts.values()) >= 2


def _dump(url: str) -> Any:
    with contextlib.closing(RawClient(url)) as client:
        return dump(client)


def _events(keyspace: Any, name: str) -> list[dict[str, str]]:
    entries = keyspace[f"{name}:events"]["value"]
    return [dict(zip(fields[::2], fields[1::2], strict=True)) for fields in entries]
