"""The jobs of a soak: plain, with attempts, priorities, delays, in flows, by schedulers, to limited queues."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs

from echomq import FlowNode, FlowProducer, Queue
from echomq.errors import ConnectionLost, FlowFailed, ServerRefused

from .places import Place

__all__ = ["QUEUES", "Producer"]

QUEUES = ("work", "limited")
ADDERS = 8
SCHEDULERS = 3
_OPEN: Any = {"max_events": 100_000_000}  # the account reads all of them


@attrs.frozen(kw_only=True)
class _Entrance:
    """One prefix by one way in."""

    work: Queue
    limited: Queue
    flows: FlowProducer


@attrs.define(eq=False, kw_only=True)
class Producer:
    """Adds jobs at an even pace, and each of them until it is acknowledged.

    Attributes:
        place: Where to.
        dice: Decides what to add next.
        jobs: How many to add, children and parents counted.
        seconds: How long it may take.
        expected: Attempts of each acknowledged job, by qualified name of the queue and id.
    """

    place: Place
    dice: random.Random
    jobs: int
    seconds: float
    expected: dict[tuple[str, str], int] = attrs.field(factory=dict)
    _planned: int = 0

    async def run(self) -> None:
        """Add all jobs, spread over nine tenths of the time, and let schedulers run meanwhile."""
        begun_s = time.monotonic()
        async with contextlib.AsyncExitStack() as stack:
            entrances = [
                await stack.enter_async_context(_entrance(prefix, url))
                for prefix in self.place.prefixes
                for url in self.place.urls
            ]
            for entrance in entrances[:: len(self.place.urls)]:
                for number in range(SCHEDULERS):
                    await _insist(
                        lambda at=entrance, n=number: at.work.upsert_job_scheduler(f"s{n}", every=700, data=1)
                    )
            await asyncio.gather(*(self._add_some(entrances, begun_s) for _ in range(ADDERS)))
            for entrance in entrances[:: len(self.place.urls)]:
                for number in range(SCHEDULERS):
                    await _insist(lambda at=entrance, n=number: at.work.remove_job_scheduler(f"s{n}"))

    async def _add_some(self, entrances: Sequence[_Entrance], begun_s: float) -> None:
        while self._planned < self.jobs:
            due_s = begun_s + self._planned / self.jobs * self.seconds * 0.9
            await asyncio.sleep(max(0, due_s - time.monotonic()))
            number, kind, entrance = self._planned, self.dice.random(), self.dice.choice(entrances)
            self._planned += 3 if kind < 0.05 else 1
            if kind < 0.05:
                await self._add_flow(entrance, number)
            else:
                await self._add(entrance.limited if kind < 0.1 else entrance.work, number)

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
        self.expected[queue.keys.qualified_name, job_id] = options["attempts"]

    async def _add_flow(self, entrance: _Entrance, number: int) -> None:
        def node(name: str, children: tuple[FlowNode, ...] = ()) -> FlowNode:
            return FlowNode(queue="work", name="work", data=number, options={"job_id": name}, children=children)

        ids = [f"n{number}", f"n{number}a", f"n{number}b"]
        tree = node(ids[0], (node(ids[1]), node(ids[2])))
        await _insist(lambda: entrance.flows.add(tree))
        self.expected.update({(entrance.work.keys.qualified_name, job_id): 1 for job_id in ids})


@contextlib.asynccontextmanager
async def _entrance(prefix: str, url: str) -> AsyncIterator[_Entrance]:
    async with (
        Queue(QUEUES[0], url, prefix=prefix, **_OPEN) as work,
        Queue(QUEUES[1], url, prefix=prefix, **_OPEN) as limited,
        FlowProducer(url, prefix=prefix) as flows,
    ):
        yield _Entrance(work=work, limited=limited, flows=flows)


async def _insist(add: Any) -> None:
    """Do something until it is acknowledged; a flow that was refused in part is completed by the next try."""
    while True:
        try:
            await add()
        except (ConnectionLost, FlowFailed, ServerRefused):
            await asyncio.sleep(0.05)
        else:
            return
