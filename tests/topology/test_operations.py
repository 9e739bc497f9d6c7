"""``echomq doctor`` and ``echomq check`` where the servers are several."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from echomq import Queue, Worker
from echomq import sync as echomq_sync
from echomq.diagnosis import Finding
from support.clusters import Cluster, ask
from support.command_line import Ended, echomq
from support.desk import until
from support.faults import rights_of_its_age
from support.sentinels import Watched
from support.servers import ServerProcess
from support.shells import Shell

from .test_rights import PASSWORD, documented, limited


async def command(*arguments: str) -> Ended:
    """Run the command line without holding up the loop."""
    return await asyncio.to_thread(echomq, *arguments)


def one_on_each(cluster: Cluster, prefix: str) -> dict[int, str]:
    """A name of a queue for each master, by its port."""
    names = [f"{{{prefix}{number}}}" for number in range(60)]
    return {cluster.master(name).port: name for name in names}


@contextlib.contextmanager
def setting(node: ServerProcess, name: str, value: str) -> Iterator[None]:
    """Change a setting of one node."""
    before = ask(node, "CONFIG", "GET", name)[1]
    ask(node, "CONFIG", "SET", name, value)
    try:
        yield
    finally:
        ask(node, "CONFIG", "SET", name, before)


def of(findings: tuple[Finding, ...], code: str) -> list[str | None]:
    """The masters that have a finding."""
    return [finding.node for finding in findings if finding.code == code]


async def test_each_master_is_looked_at(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """What differs from master to master is told of the one it concerns, whichever holds the queue (pain 22)."""
    first, second, third = cluster.masters()
    with setting(second, "maxmemory-policy", "allkeys-lru"), setting(third, "appendonly", "yes"):
        async with shell.queue("mail", cluster.url(f"{driver}+cluster"), prefix=tagged) as queue:
            found = await queue.diagnose()

    assert of(found.findings, "eviction") == [f"127.0.0.1:{second.port}"]
    assert set(of(found.findings, "no-append-log")) == {f"127.0.0.1:{node.port}" for node in (first, second)}
    assert len(of(found.findings, "server")) == 3
    assert not of(found.findings, "rights-missing")
    assert "looked at 3 masters of a cluster" in found.looked_at
    assert [ask(node, "KEYS", "*echomq-doctor*") for node in cluster.masters()] == [[], [], []]


async def test_right_that_one_master_denies(cluster: Cluster, prefix: str) -> None:
    """A user who lacks a right on one master only is told which, and misses none with the documented ones."""
    queues = one_on_each(cluster, prefix)
    with limited(cluster.nodes, "jobs", *documented(prefix, "+cluster|slots", *rights_of_its_age(cluster.nodes[0]))):
        url = cluster.url(user=f"jobs:{PASSWORD}")
        async with Queue(next(iter(queues.values())), url, prefix=prefix) as queue:
            assert not of((await queue.diagnose()).findings, "rights-missing")
            poor = cluster.masters()[1]
            ask(poor, "ACL", "SETUSER", "jobs", "-hset")
            found = (await queue.diagnose()).findings

    assert of(found, "rights-missing") == [f"127.0.0.1:{poor.port}"]
    assert next(one for one in found if one.code == "rights-missing").evidence[0] == "refused: HSET"


async def test_queues_of_all_masters(cluster: Cluster, prefix: str) -> None:
    """The command finds the queues of a prefix on all masters, with their workers and what is wrong with them."""
    url, queues = cluster.url(), one_on_each(cluster, prefix)
    for name in queues.values():
        async with Queue(name, url, prefix=prefix) as queue:
            await queue.add("work", delay=60_000)
    *others, busy = queues.values()
    ask(cluster.master(busy), "SET", f"{prefix}:{busy}:de:x", "gone")

    async def nothing(_: object) -> None:
        return None

    async with Queue(busy, url, prefix=prefix) as queue, Worker(busy, nothing, url, prefix=prefix) as worker:
        running = asyncio.ensure_future(worker.run())

        async def is_listed() -> bool:
            return len(await queue.get_workers()) == 1

        await until(is_listed)
        said = await command("doctor", "--url", url, "--prefix", prefix)
        await worker.close()
        await running

    for name in others:
        assert f"queue {name}\n" in said.out
    told = said.out[said.out.index(f"queue {busy}\n") :]
    assert "1 job, 1 worker connected" in told
    assert "x (job gone)" in told
    for node in cluster.masters():
        assert f"server 127.0.0.1:{node.port}\n" in said.out


@pytest.mark.parametrize("key", ["3560", "{0}"])
async def test_check_of_a_cluster(cluster: Cluster, key: str) -> None:
    """A cluster is well if all its masters answer; else the one that does not is named, the first too (pain 16)."""
    url = cluster.url()
    assert (await command("check", "--url", url)).out == "well: 3 masters of the cluster answer\n"

    frozen = cluster.master(key)  # the master of slot 0, which is asked where any will do; and the one asked for others
    heir = next(node for node in cluster.nodes if ask(node, "INFO", "replication").get("master_port") == frozen.port)
    for node in (heir, frozen):
        node.pause()
        cluster.down.append(node)
    said = await command("check", "--url", url, "--timeout", "6s")

    assert said.code == 1
    assert said.error.startswith(f"unwell: master 127.0.0.1:{frozen.port}: ")


async def test_check_through_sentinels(watched: Watched, prefix: str) -> None:
    """Behind sentinels the master of the moment is asked, also after a failover (pain 16)."""
    url = watched.url()
    async with Queue("mail", url, prefix=prefix) as queue:
        await queue.add("one")
    assert (await command("check", "mail", "--url", url, "--prefix", prefix)).out == "well: queue mail can be read\n"

    await asyncio.to_thread(watched.kill, watched.master())

    async def is_well() -> bool:
        return (await command("check", "mail", "--url", url, "--prefix", prefix)).code == 0

    await until(is_well)
    said: Any = await command("doctor", "mail", "--url", url, "--prefix", prefix)
    assert "role master" in said.out


@pytest.mark.parametrize("kind", [Worker, echomq_sync.Worker], ids=["asyncio", "blocking"])
async def test_worker_warns_of_eviction(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, kind: Any, tagged: str
) -> None:
    """A worker warns of the eviction policy of the master that holds its queue, not of another one's (pain 22)."""
    own = cluster.master(tagged)

    def work(_: object) -> None:
        return None

    async def warned() -> bool:
        return bool(caplog.records)

    worker = kind("mail", work, cluster.url(), prefix=tagged)
    with contextlib.ExitStack() as policies:
        for node in cluster.masters():
            policies.enter_context(setting(node, "maxmemory-policy", "volatile-lru" if node is own else "allkeys-lru"))
        running = asyncio.ensure_future(worker.run() if kind is Worker else asyncio.to_thread(worker.run))
        await until(warned)
        await (worker.close() if kind is Worker else asyncio.to_thread(worker.close))
        await running

    (told,) = [record.getMessage() for record in caplog.records]
    assert "maxmemory-policy is volatile-lru" in told
