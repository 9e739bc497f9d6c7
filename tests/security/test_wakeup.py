"""A worker that closes or pauses leaves no other worker asleep."""

import asyncio
import contextlib

import pytest

import echomq.sync
from echomq import Job
from support.desk import Desk, gathered, happens
from support.faults import blocked_client
from support.limits import AT_ONCE_S
from support.servers import Server


async def _nothing(_: Job) -> None:
    return None


@pytest.mark.parametrize("way", ["close", "pause"])
async def test_marker_of_a_cut_off_wait_is_not_lost(desk: Desk, server: Server, way: str) -> None:
    """A job whose marker went to a worker in the moment it closed or paused is run at once by another, idle one."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(desk.working(_nothing, name="first", drain_delay=30_000))
        await blocked_client(server, desk.keys.client_name("first"))
        second = await stack.enter_async_context(desk.working(_nothing, name="second", drain_delay=30_000))
        await blocked_client(server, desk.keys.client_name("second"))
        done = gathered(second, "completed", 1)

        # Blocks the loop on purpose: the marker reaches the first worker's socket, and is not read.
        with contextlib.closing(server.client()) as client:
            echomq.sync.add("work", "n", None, connection=desk.url, prefix=desk.keys.prefix)
            while client.exists(desk.keys.marker):
                pass
        ended = asyncio.ensure_future(first.close() if way == "close" else first.pause())

        await happens(done, AT_ONCE_S)
        await happens(ended)
