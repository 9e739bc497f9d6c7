"""Queues on clusters of three masters and three replicas, of Redis and of Valkey, by each driver and shell."""

import asyncio
import contextlib
from typing import Any

import pytest
import redis
import redis.asyncio
import valkey
import valkey.asyncio

import echomq
import echomq.sync
from echomq import FlowNode, Worker, plugins
from echomq.call import Batch
from echomq.errors import ConnectionLost, ServerNotReady, ServerRefused, UsageError
from echomq.hash_slots import key_slot
from support.clusters import Cluster
from support.desk import happens, until
from support.limits import AT_ONCE_S
from support.proxy import proxy_to
from support.recorder import STRIKES
from support.requests import command
from support.server_files import CHOSEN
from support.servers import Server, free_port
from support.shells import Shell

from .load import under_load

SCHEMES = ["redis+cluster", "valkey+cluster"]


async def nothing(_: object) -> str:
    """Process a job."""
    return "done"


@pytest.mark.parametrize("protocol", [2, 3])
async def test_whole_session(cluster: Cluster, driver: str, shell: Shell, tagged: str, protocol: int) -> None:
    """A queue on a cluster adds, runs, waits for and counts jobs and flows like one on a single server (pain 25)."""
    url = cluster.url(f"{driver}+cluster", protocol=protocol)
    async with (
        shell.queue("mail", url, prefix=tagged) as queue,
        shell.flows(url, prefix=tagged) as flows,
        Worker("mail", nothing, url, prefix=tagged) as worker,
    ):
        job = await queue.add("one", {"to": "ada"})
        await queue.add_bulk([("many", number) for number in range(20)])
        tree = await flows.add(FlowNode(queue="mail", name="parent", children=[FlowNode(queue="mail", name="child")]))
        running = asyncio.ensure_future(worker.run(until="drained"))

        assert await queue.result(job.id, timeout=60_000) == "done"
        assert await queue.result(tree.job.id, timeout=60_000) == "done"
        await running
        assert (await queue.get_job_counts("completed")) == {echomq.JobState.COMPLETED: 23}
        assert len(await queue.get_jobs("completed")) == 23


async def test_blocking_worker(cluster: Cluster, driver: str, tagged: str) -> None:
    """A worker of the blocking shell works on a cluster too."""
    url = cluster.url(f"{driver}+cluster")
    with echomq.sync.Queue("mail", url, prefix=tagged) as queue:
        await asyncio.to_thread(queue.add, "one")
        with echomq.sync.Worker("mail", lambda _: "done", url, prefix=tagged) as worker:
            await asyncio.to_thread(worker.run, until="drained")
        assert (await asyncio.to_thread(queue.get_job_counts, "completed")) == {echomq.JobState.COMPLETED: 1}


async def test_queues_on_all_nodes(cluster: Cluster, driver: str, shell: Shell, prefix: str) -> None:
    """One connection serves queues of all nodes, each of which is taught the scripts it lacks."""
    for node in cluster.masters():
        cluster.ask(node, "SCRIPT", "FLUSH")
    connection = shell.connect(cluster.url(f"{driver}+cluster"))
    names = [f"{{{prefix}{number}}}" for number in range(12)]
    queues = [shell.queue(name, connection) for name in names]
    for queue in queues:
        await queue.add("one")
        await queue.add("two")

    assert [await queue.count() for queue in queues] == [2] * len(names)
    assert len({cluster.master(name).port for name in names}) == 3
    await shell.close(connection)


async def test_worker_is_listed(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """The workers of a queue are found on the node that owns it, each once."""
    url = cluster.url(f"{driver}+cluster")
    async with shell.queue("mail", url, prefix=tagged) as queue, Worker("mail", nothing, url, prefix=tagged) as worker:
        ready = asyncio.Event()
        worker.on("ready", ready.set)
        running = asyncio.ensure_future(worker.run())
        await happens(ready.wait())

        async def is_listed() -> bool:
            return len(await queue.get_workers()) == 1

        await until(is_listed)
        await worker.close()
        await running


async def test_batch_is_split(cluster: Cluster, driver: str, prefix: str) -> None:
    """A batch over many slots is split by node; its outcomes keep their places, errors included."""
    connection = echomq.connect(cluster.url(f"{driver}+cluster"))
    keys = [f"{prefix}:{number}" for number in range(30)]
    sets = tuple(command("SET", key, number) for number, key in enumerate(keys))
    gets = tuple(command("GET", key) for key in keys)
    await connection.send_batch(Batch(requests=sets))
    outcomes = await connection.send_batch(Batch(requests=(command("HGET", keys[0], "x"), *gets)))

    assert isinstance(outcomes[0], ServerRefused)
    assert [str(number).encode() for number in range(30)] == outcomes[1:]
    with pytest.raises(UsageError, match="different slots of the cluster"):
        await connection.send_batch(Batch(requests=sets, atomic=True))
    await connection.close()


async def test_slots_are_computed_as_the_servers_do(cluster: Cluster) -> None:
    """The slot of a key is the one that the servers compute."""
    for key in ["a", "{bull}:mail:wait", "bull:{mail}:7", "{}:x", "{a", "a}{b}", "{{c}}", "ü{é}", "x" * 1_000]:
        assert cluster.slot(key) == key_slot(key), key


def refused_queues(prefix: str) -> list[Any]:
    """Ways to use a queue without a hash tag, or two queues whose tags differ."""
    child, parent = f"{{{prefix}}}", f"{{{prefix}x}}"
    spread = FlowNode(queue=parent, name="parent", children=[FlowNode(queue=child, name="child")])
    untagged = FlowNode(queue="mail", name="parent", children=[FlowNode(queue="mail", name="child")])
    return [
        (lambda shell, url: shell.queue("mail", url), "'bull:mail' has no hash tag"),
        (lambda shell, url: shell.events("mail", url), "'bull:mail' has no hash tag"),
        (lambda shell, url: shell.add("mail", "one", connection=url), "'bull:mail' has no hash tag"),
        (lambda shell, url: shell.add_bulk("mail", [("one", 1)], connection=url), "'bull:mail' has no hash tag"),
        (lambda shell, url: shell.flows(url).add(untagged), "'bull:mail' has no hash tag"),
        (lambda shell, url: shell.flows(url).add(spread), f"'bull:{parent}' and 'bull:{child}'"),
        (
            lambda shell, url: shell.queue(child, url).add("one", parent={"id": "1", "queue": f"bull:{parent}"}),
            f"'bull:{parent}' (of the parent) and 'bull:{child}' (of the child)",
        ),
    ]


@pytest.mark.parametrize("way", range(7))
async def test_unfit_queues_are_refused(shell: Shell, driver: str, prefix: str, way: int) -> None:
    """A queue that a cluster cannot hold is refused before anything is sent, with the fix (pains 23 and 25)."""
    use, says = refused_queues(prefix)[way]
    with pytest.raises(UsageError) as caught:
        await use(shell, f"{driver}+cluster://127.0.0.1:1")

    assert says in str(caught.value)
    assert "'{bull}'" in str(caught.value)


@pytest.mark.parametrize("kind", [Worker, echomq.sync.Worker])
def test_worker_of_an_unfit_queue_is_refused(kind: Any, driver: str) -> None:
    """A worker says when it is made that a cluster cannot hold its queue (pain 25)."""
    with pytest.raises(UsageError, match="'bull:mail' has no hash tag"):
        kind("mail", print, f"{driver}+cluster://127.0.0.1:1")


async def test_one_seed_is_enough(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """Of several seeds one must answer; the others may be gone."""
    alive = cluster.nodes[4]
    url = f"{driver}+cluster://127.0.0.1:{free_port()},127.0.0.1:{free_port()},{alive.host}:{alive.port}"
    async with shell.queue("mail", url, prefix=tagged) as queue:
        await queue.add("one")


async def test_no_seed_answers(driver: str, shell: Shell, tagged: str) -> None:
    """If no seed answers until the deadline, the error names the seeds and why."""
    port = free_port()
    url = f"{driver}+cluster://127.0.0.1:{port}?deadline_ms=300"
    async with shell.queue("mail", url, prefix=tagged) as queue:
        with pytest.raises(ConnectionLost, match=rf"the cluster of 127.0.0.1:{port}.*connection refused"):
            await queue.add("one")


async def test_seed_that_is_no_cluster(server: Server, driver: str, shell: Shell, tagged: str) -> None:
    """A server that is no cluster is told apart at once."""
    url = f"{driver}+cluster://{server.host}:{server.port}"
    async with shell.queue("mail", url, prefix=tagged) as queue:
        with pytest.raises(ServerRefused, match="is it a cluster at all"):
            await queue.add("one")


async def test_node_as_a_server(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """Who connects to one node as if it were a server is told how to connect to a cluster."""
    node = cluster.another_master(cluster.master(tagged))
    async with shell.queue("mail", f"{driver}://{node.host}:{node.port}", prefix=tagged) as queue:
        with pytest.raises(ServerRefused, match="connect by redis\\+cluster://"):
            await queue.add("one")


@pytest.mark.parametrize(
    "client_class",
    [redis.RedisCluster, redis.asyncio.RedisCluster, valkey.ValkeyCluster, valkey.asyncio.ValkeyCluster],
    ids=lambda kind: f"{kind.__module__}-{kind.__name__}",
)
async def test_ready_client(cluster: Cluster, client_class: Any, shell: Shell, tagged: str) -> None:
    """A ready cluster client of either flavour of either library serves both shells; it is only read."""
    node = cluster.nodes[0]
    client = client_class(host=node.host, port=node.port, decode_responses=True)
    async with shell.queue("mail", client, prefix=tagged) as queue:
        job = await queue.add("one", "ü")
        found = await queue.get_job(job.id)
        assert found is not None
        assert found.data == "ü"
    if hasattr(client, "aclose"):
        await client.aclose()
    else:
        client.disconnect_connection_pools()  # closing a blocking one leaves its links to the garbage collector


async def test_moved_slot_is_followed(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """A slot that has moved is followed to its new node; nobody has to connect again."""
    async with shell.queue("mail", cluster.url(f"{driver}+cluster"), prefix=tagged) as queue:
        await queue.add("one")
        source = cluster.master(tagged)
        cluster.move_slot(cluster.slot(tagged), source, cluster.another_master(source))
        await queue.add("two")
        assert await queue.count() == 2


async def test_moved_key_is_asked_for(cluster: Cluster, driver: str, prefix: str) -> None:
    """While a slot moves, a key that has moved is asked for where it is; the others where they were."""
    keys = [f"{{{prefix}}}:{number}" for number in range(10)]
    slot, source = cluster.slot(keys[0]), cluster.master(keys[0])
    target = cluster.another_master(source)
    for connection in (
        plugins.connect_async(cluster.url(f"{driver}+cluster", protocol=protocol)) for protocol in (2, 3)
    ):
        for key in keys:
            await connection.send(command("SET", key, key))
        cluster.start_moving(slot, source, target)
        cluster.move_keys(slot, source, target, 5)
        assert [key.encode() for key in keys] == [await connection.send(command("GET", key)) for key in keys]
        batch = await connection.send_batch(Batch(requests=(command("SET", "x", 1), command("GET", "x"))))
        assert batch[1] == b"1"
        while cluster.move_keys(slot, source, target, 5):
            pass
        cluster.end_moving(slot, source, target)
        source, target = target, source
        await connection.close()


async def test_scripts_rest_while_their_slot_moves(cluster: Cluster, shell: Shell, tagged: str) -> None:
    """While the slot of a queue moves key by key, no script runs on half of its keys: it waits, or is told to."""
    url = cluster.url()
    slot, source = cluster.slot(tagged), cluster.master(tagged)
    target = cluster.another_master(source)
    async with (
        shell.queue("mail", url, prefix=tagged) as queue,
        shell.queue("mail", f"{url}?deadline_ms=600", prefix=tagged) as hasty,
    ):
        for number in range(5):
            await queue.add("one", number)
        cluster.start_moving(slot, source, target)
        for _ in range(3):
            cluster.move_keys(slot, source, target, 3)
            with pytest.raises(ServerNotReady) as caught:
                await hasty.add("hasty")
            assert caught.value.prefix == "TRYAGAIN"
        adding = asyncio.ensure_future(queue.add("patient"))
        bulk = asyncio.ensure_future(queue.add_bulk([("patient", 1), ("patient", 2)]))
        while cluster.move_keys(slot, source, target, 10):
            pass
        cluster.end_moving(slot, source, target)
        await adding
        await bulk
        assert await queue.count() == 8


async def test_blocking_read_moves_along(cluster: Cluster, driver: str, tagged: str) -> None:
    """A blocking read goes on at the new node when the slot of its key moves."""
    key = f"{tagged}:list"
    connection = plugins.connect_async(cluster.url(f"{driver}+cluster"))
    reader = connection.dedicated(name=tagged)
    source = cluster.master(key)
    target = cluster.another_master(source)
    reading = asyncio.ensure_future(reader.send(command("BLPOP", key, 60, block_ms=60_000, repeatable=True)))

    async def is_reading() -> bool:
        return f" name={tagged} " in cluster.ask(source, "CLIENT", "LIST")

    await until(is_reading)
    await asyncio.to_thread(cluster.move_slot, cluster.slot(key), source, target)
    await connection.send(command("RPUSH", key, "item"))

    assert await happens(reading) == [key.encode(), b"item"]
    await connection.close()
    await reader.close()


async def test_nodes_that_are_far_away(cluster: Cluster, shell: Shell, tagged: str) -> None:
    """A cluster whose nodes take longer to answer than one is asked for at first is reached within the deadline."""
    node = cluster.nodes[0]
    with proxy_to(node.host, node.port) as proxy:
        proxy.delay_s = 0.2
        url = f"{cluster.name}+cluster://{proxy.host}:{proxy.port}?deadline_ms=3000"
        async with shell.queue("mail", url, prefix=tagged) as queue:
            await queue.add("one")


async def test_close_ends_waits(driver: str, shell: Shell, tagged: str) -> None:
    """Closing ends a request that waits for a cluster which does not answer."""
    connection = shell.connect(f"{driver}+cluster://127.0.0.1:{free_port()}")
    waiting = asyncio.ensure_future(shell.queue("mail", connection, prefix=tagged).count())
    await asyncio.sleep(0.05)
    await shell.close(connection)
    with pytest.raises(ConnectionLost):
        await happens(waiting, AT_ONCE_S)


async def test_failover_under_load(cluster: Cluster, tagged: str, record_property: Any) -> None:
    """The death of the master of a queue at work loses no acknowledged job; nothing is restarted by hand."""
    urls = [cluster.url(scheme) for scheme in SCHEMES]
    load = await under_load(urls, tagged, lambda: cluster.kill(cluster.master(tagged)), cluster.heal)
    record_property("longest_gap_s", load.longest_gap_s)
    load.account("master killed, replica takes over", "cluster of six")

    assert load.longest_gap_s < 30


async def test_resharding_under_load(cluster: Cluster, tagged: str, record_property: Any) -> None:
    """A slot that moves to and fro, key by key, under a queue at work loses no job and breaks none."""

    def move() -> None:
        slot, source = cluster.slot(tagged), cluster.master(tagged)
        target = cluster.another_master(source)
        cluster.move_slot(slot, source, target)
        cluster.move_slot(slot, target, source)

    load = await under_load([cluster.url(scheme) for scheme in SCHEMES], tagged, move, cluster.heal)
    record_property("longest_gap_s", load.longest_gap_s)
    load.account("slot of the queue moved key by key, to and fro", "cluster of six")

    assert set(load.runs.values()) == {1}


@pytest.mark.parametrize("name", [name for name in CHOSEN if name.startswith("valkey")])
async def test_whole_slot_under_load(clusters: dict[str, Cluster], name: str, tagged: str) -> None:
    """A slot that Valkey moves at once under a queue at work is followed, and breaks nothing."""
    cluster = clusters[name]
    if cluster.nodes[0].file.version < (9, 0):
        pytest.skip(f"{name} moves slots key by key only")
    cluster.heal()

    def move() -> None:
        slot, source = cluster.slot(tagged), cluster.master(tagged)
        cluster.move_at_once(slot, source, cluster.another_master(source))

    urls = [cluster.url(scheme) for scheme in SCHEMES]
    # Other rows of the table have as many of Redis besides.
    load = await under_load(urls, tagged, move, cluster.heal, times=2 * STRIKES)
    load.account("slot of the queue moved at once", "cluster of six, Valkey")

    assert set(load.runs.values()) == {1}


@pytest.mark.heavy
async def test_frozen_master(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """A master that hangs, its links open, is given up after the deadline; the next request finds its heir."""
    async with shell.queue("mail", cluster.url(f"{driver}+cluster", deadline_ms=1_000), prefix=tagged) as queue:
        await queue.add("one")
        await asyncio.to_thread(cluster.cut_off, cluster.master(tagged))
        for _ in range(20):
            with contextlib.suppress(ConnectionLost, ServerNotReady):
                await queue.add("two", job_id="two")
                break
        assert await queue.count() == 2
