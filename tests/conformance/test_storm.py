"""Everything that can go wrong with a link, at once and at random."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from functools import partial

import attrs
import pytest

from echomq.address import parse_url
from echomq.call import Batch
from echomq.driver import AsyncConnection, ConnectionOptions
from echomq.errors import ConnectionLost
from support.proxy import Proxy
from support.requests import command, run
from support.servers import Server

Open = Callable[[ConnectionOptions], AsyncConnection]

TASKS = 60
TURNS = 25


@attrs.define
class Tally:
    """What callers know of their own counters.

    Attributes:
        done: Runs that were confirmed.
        unsure: Runs that may have happened.
    """

    done: int = 0
    unsure: int = 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shell", ["asyncio", "blocking"], indirect=True)
async def test_storm(
    open_connection: Open, proxy: Proxy, redis_server: Server, counting: str, prefix: str, seed: int, shell: str
) -> None:
    """Through cuts, refusals, flushes and cancellations each caller gets his own reply, and no run is miscounted."""
    dice = random.Random(seed)
    options = attrs.evolve(
        parse_url(proxy.url), reconnect_min_ms=1, reconnect_max_ms=10, deadline_ms=20_000, max_pending_bytes=20_000
    )
    connection = open_connection(options)
    tallies = [Tally() for _ in range(TASKS)]
    callers = [
        asyncio.ensure_future(_call(connection, dice, f"{prefix}:{n}", counting, tallies[n])) for n in range(TASKS)
    ]
    trouble = asyncio.ensure_future(_trouble(proxy, redis_server, dice))
    canceller = asyncio.ensure_future(_cancel(callers, dice)) if shell == "asyncio" else None
    await asyncio.wait(callers)
    for task in (trouble, canceller):
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
    proxy.release("down")
    proxy.accept()
    for caller in callers:
        assert caller.cancelled() or caller.exception() is None, caller.exception()

    with contextlib.closing(redis_server.client()) as client:
        for n, tally in enumerate(tallies):
            count = int(client.get(f"{prefix}:{n}") or 0)
            # A cancelled caller does not know of his last run.
            assert tally.done <= count <= tally.done + tally.unsure + 5 * callers[n].cancelled()
    assert await connection.send(command("ECHO", "calm", repeatable=True)) == b"calm"


async def _call(connection: AsyncConnection, dice: random.Random, key: str, script: str, tally: Tally) -> None:
    for turn in range(TURNS):
        text = f"{key}:{turn}" * dice.choice((1, 1, 200))
        kind = dice.random()
        try:
            if kind < 0.4:
                assert await connection.send(command("ECHO", text, repeatable=True)) == text.encode()
            elif kind < 0.7:
                await connection.send(run(script, key, args=(1,)))
                tally.done += 1
            else:
                calls = tuple(run(script, key, args=(1,)) for _ in range(5))
                batch = Batch(requests=(*calls, command("ECHO", text)), atomic=kind < 0.85)
                *counts, echo = await connection.send_batch(batch)
                assert echo == text.encode()
                assert counts == list(range(counts[0], counts[0] + 5))
                tally.done += 5
        except ConnectionLost as error:
            tally.unsure += 5 * error.may_have_run


async def _trouble(proxy: Proxy, server: Server, dice: random.Random) -> None:
    with contextlib.closing(server.client()) as client:
        while True:
            what = dice.choice(
                (
                    proxy.cut,
                    partial(proxy.cut, reset=True),
                    partial(proxy.cut_after, "up", dice.randrange(3_000)),
                    partial(proxy.cut_after, "down", dice.randrange(3_000), reset=True),
                    client.script_flush,
                    partial(proxy.hold, "down"),
                    partial(proxy.release, "down"),
                    proxy.refuse,
                    proxy.accept,
                )
            )
            await asyncio.to_thread(what)
            await asyncio.sleep(dice.random() * 0.02)
            if dice.random() < 0.5:
                await asyncio.to_thread(proxy.release, "down")
                await asyncio.to_thread(proxy.accept)


async def _cancel(callers: "list[asyncio.Task[None]]", dice: random.Random) -> None:
    for caller in dice.sample(callers, TASKS // 2):
        await asyncio.sleep(dice.random() * 0.02)
        caller.cancel()
