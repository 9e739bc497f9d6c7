"""One soak: jobs are added and run while one fault follows the other; then all of them are accounted for."""

import asyncio
import contextlib
import logging
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import attrs
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from echomq import Queue

from .account import Account, account_of
from .adding import QUEUES, Producer
from .crew import Crew
from .places import Evil, Place

__all__ = ["Soak"]

LOG = logging.getLogger("soak")
NEXT_WITHIN_S = 120
LOOK_EVERY_S = 0.2
NEVER_AGAIN = Retry(NoBackoff(), 0)
UNASKED = "master replaced that nobody meant to replace"
_UNFINISHED = ("waiting", "active", "delayed", "prioritized", "waiting-children")


@attrs.define(eq=False, kw_only=True)
class Soak:
    """One storm.

    Attributes:
        place: Where the queues are.
        dice: Decides everything.
        producer: Adds the jobs.
        crew: Runs them.
        notes: Client of the server where each run is noted.
        seconds: How long the storm lasts.
        only: Names of the faults that may strike; all if there are none.
        struck: Faults so far.
        longest_stall_s: Longest time in which nothing of a prefix finished though something waited.
        stalled_by: What struck in that time.
    """

    place: Place
    dice: random.Random
    producer: Producer
    crew: Crew
    notes: redis.Redis
    seconds: float
    only: Sequence[str] = ()
    struck: "Counter[str]" = attrs.field(factory=Counter)
    longest_stall_s: float = 0
    stalled_by: Sequence[str] = ()
    _begun: list[str] = attrs.field(factory=list)
    _ended_at_s: list[float] = attrs.field(factory=list)
    _over: bool = False

    async def run(self) -> Account:
        """Do all of it."""
        async with self.crew.working():
            watching = [asyncio.ensure_future(self._watch(prefix)) for prefix in self.place.prefixes]
            await asyncio.gather(self.producer.run(), self._storm())
            await self._until_all_done()
            await asyncio.gather(*watching)
        with contextlib.ExitStack() as clients:
            sources = [
                (clients.enter_context(contextlib.closing(self.place.client(prefix, socket_timeout=60))), prefix)
                for prefix in self.place.prefixes
            ]
            return account_of(sources, QUEUES, self.producer.expected, self.notes)

    # -- faults ---------------------------------------------------------------------------------

    async def _storm(self) -> None:
        """Let one fault follow the other until time is up."""
        own = self.place.evils(self.dice)
        evils = {**self.crew.evils(), **self._evils(), **own}
        names = self.only or tuple(evils)
        over_s = time.monotonic() + self.seconds
        masters = self.place.masters()
        while time.monotonic() < over_s:
            await asyncio.sleep(self.dice.uniform(0.5, 3))
            name = self.dice.choice(names)
            self._begun.append(name)
            LOG.info("begins: %s", name)
            await evils[name]()
            self._ended_at_s.append(time.monotonic())
            LOG.info("is over: %s", name)
            self.struck[name] += 1
            before, masters = masters, await asyncio.to_thread(self.place.masters)
            if masters != before and name not in own:
                self.struck[UNASKED] += 1

    def _evils(self) -> Mapping[str, Evil]:
        """What may happen everywhere."""
        return {
            "links cut": self._cut_links,
            "connections killed": self._kill_connections,
            "out of memory": self._starve,
            "busy with a script": self._keep_busy,
        }

    def _some_master(self) -> "contextlib.closing[redis.Redis]":
        return contextlib.closing(self.place.client(self.dice.choice(self.place.prefixes)))

    async def _cut_links(self) -> None:
        for _ in range(10):
            proxy = self.dice.choice(self.place.proxies)
            proxy.cut_after("up" if self.dice.random() < 0.5 else "down", self.dice.randrange(5_000))
            await asyncio.sleep(0.05)

    async def _kill_connections(self) -> None:
        with self._some_master() as client:
            for _ in range(10):
                client.client_kill_filter(_type="normal", skipme=True)
                await asyncio.sleep(0.1)

    async def _starve(self) -> None:
        with self._some_master() as client:
            client.config_set("maxmemory", "1")
            await asyncio.sleep(self.dice.uniform(0, 1))
            client.config_set("maxmemory", "0")

    async def _keep_busy(self) -> None:
        with self._some_master() as client:

            def loop_for_ever() -> None:
                with contextlib.suppress(redis.RedisError):
                    client.eval("while true do end", 0)

            thread = threading.Thread(target=loop_for_ever)
            client.config_set("lua-time-limit", "20")
            thread.start()
            await asyncio.sleep(self.dice.uniform(0.1, 1))
            while thread.is_alive():
                # It may not have begun yet, or a script runs that has written and cannot be killed.
                with contextlib.suppress(redis.ResponseError):
                    client.script_kill()
                await asyncio.sleep(0.05)

    # -- watching -------------------------------------------------------------------------------

    async def _watch(self, prefix: str) -> None:
        """Measure stalls of the queues of a prefix, until nothing is left to do."""
        finished, since_s = 0, time.monotonic()
        while not self._over:
            await asyncio.sleep(LOOK_EVERY_S)
            progress = await asyncio.to_thread(self._progress, prefix)
            LOG.debug("%s has finished, waiting: %s", prefix, progress)
            now_s = time.monotonic()
            idle = progress == (finished, 0)
            if now_s - since_s > self.longest_stall_s and not idle:
                self.longest_stall_s = now_s - since_s
                ended = zip_longest(self._begun, self._ended_at_s, fillvalue=math.inf)
                self.stalled_by = [str(name) for name, at_s in ended if float(at_s) > since_s - LOOK_EVERY_S]
            if progress is not None and (idle or progress[0] != finished):
                finished, since_s = progress[0], now_s

    def _progress(self, prefix: str) -> tuple[int, int] | None:
        """How many have finished, and how many could; None while no server can say."""
        try:
            with contextlib.closing(self.place.client(prefix, socket_timeout=1, retry=NEVER_AGAIN)) as client:
                pipe = client.pipeline(transaction=False)
                for queue in QUEUES:
                    pipe.zcard(f"{prefix}:{queue}:completed")
                for queue in QUEUES:
                    pipe.llen(f"{prefix}:{queue}:wait")
                    pipe.llen(f"{prefix}:{queue}:active")
                    pipe.zcard(f"{prefix}:{queue}:prioritized")
                sizes = pipe.execute()
        except (redis.RedisError, LookupError):
            return None
        return sum(sizes[: len(QUEUES)]), sum(sizes[len(QUEUES) :])

    async def _until_all_done(self) -> None:
        """Wait until nothing waits, runs or is delayed any more; a busy machine may have left much."""
        before, give_up = None, 0.0
        async with contextlib.AsyncExitStack() as stack:
            queues = [
                await stack.enter_async_context(Queue(queue, self.place.urls[1], prefix=prefix))
                for prefix in self.place.prefixes
                for queue in QUEUES
            ]
            while any(left := [sum((await queue.get_job_counts(*_UNFINISHED)).values()) for queue in queues]):
                if left != before:
                    before, give_up = left, time.monotonic() + NEXT_WITHIN_S
                assert time.monotonic() < give_up, f"these did not end: {left}"
                await asyncio.sleep(0.2)
        self._over = True
