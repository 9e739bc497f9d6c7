"""How many connections queues and workers hold where the servers are several, and that none is left behind."""

import asyncio
import os
from collections.abc import Sequence

import pytest

from echomq import Queue, Worker
from echomq.probe import Probe
from support.clusters import Cluster, Listening, ask
from support.desk import at_work, gathered, happens, until
from support.sentinels import Watched
from support.shells import Shell


def connections(nodes: Sequence[Listening]) -> int:
    """Connections of clients, without those of other nodes and of the one that asks.

    Sentinels call themselves by that name, and connect to each other and to the servers whenever they like. Left out
    too is the one more by which a worker hears of cancellations, once a job has run for a fifth of a second: on a
    busy machine any job may.
    """
    lists = [ask(node, "CLIENT", "LIST", "TYPE", "NORMAL").splitlines() for node in nodes]
    left_out = (" name=sentinel-", " cmd=xread ")
    return sum(not any(sign in line for sign in left_out) for lines in lists for line in lines) - len(lists)


async def holds(nodes: Sequence[Listening], before: int, most: int) -> None:
    """Wait until there are no more than so many connections besides those of before."""

    async def reached() -> bool:
        return connections(nodes) - before <= most

    await until(reached)


async def nothing(_: object) -> None:
    """Process a job."""


async def test_connections_to_a_cluster(cluster: Cluster, shell: Shell, tagged: str) -> None:
    """A queue holds one connection, an idle worker two; none to other nodes, and none after the close (pain 20)."""
    await few_connections(cluster.url(), cluster.nodes, shell, tagged)


async def test_connections_behind_sentinels(watched: Watched, shell: Shell, prefix: str) -> None:
    """As many behind sentinels, who are asked in passing (pain 20)."""
    await few_connections(watched.url(), [*watched.servers, *watched.sentinels], shell, prefix)


async def few_connections(url: str, nodes: Sequence[Listening], shell: Shell, prefix: str) -> None:
    """Count them before, during and after."""
    before = connections(nodes)
    async with shell.queue("mail", url, prefix=prefix) as queue:
        await queue.add_bulk([("work", number) for number in range(50)])
        await queue.get_job_counts()
        await holds(nodes, before, 1)
        worker = Worker("mail", nothing, url, prefix=prefix)
        drained = gathered(worker, "drained", 1)
        async with at_work(worker):
            await happens(drained)
            await holds(nodes, before, 3)
    await holds(nodes, before, 0)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="reads /proc")  # noqa: PTH112  # as the tests of bounds
async def test_descriptors_are_steady(cluster: Cluster, watched: Watched, shell: Shell, tagged: str) -> None:
    """However often queues are opened and closed, as many file descriptors are open as before."""

    async def use() -> int:
        for url in (cluster.url(), watched.url()):
            async with shell.queue("mail", url, prefix=tagged) as queue:
                await queue.count()
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a Path would open one itself

    before = await use()
    found = [await use() for _ in range(20)]

    assert max(found) <= before + 1


async def test_probe_follows_a_failover(watched: Watched, prefix: str) -> None:
    """A worker is not ready while its master is dead, and ready again under the next one, alive all the time."""

    async def turns(probe: Probe, wanted: int) -> None:
        async def reached() -> bool:
            reader, writer = await asyncio.open_connection("127.0.0.1", probe.port)
            writer.write(b"GET /ready HTTP/1.0\r\n\r\n")
            status = await reader.readline()
            writer.close()
            return f" {wanted} ".encode() in status

        await until(reached)

    async with Queue("mail", watched.url(), prefix=prefix) as queue:
        worker = Worker("mail", nothing, watched.url(), prefix=prefix, drain_delay=200)
        with Probe(worker, "127.0.0.1:0", silence=1_000) as probe:
            async with at_work(worker):
                await turns(probe, 200)
                await asyncio.to_thread(watched.kill, watched.master())
                await turns(probe, 503)
                await turns(probe, 200)
                done = gathered(worker, "completed", 1)
                await queue.add("work")
                await happens(done)
