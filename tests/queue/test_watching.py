"""What a queue tells of itself: its workers and readers, its numbers for Prometheus, how long jobs wait."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from echomq import InvalidOption, Queue, QueueEvents, ServerRefused
from support.desk import Desk, at_desk
from support.servers import Server
from support.shells import Shell
from support.stored import Stored


@contextlib.asynccontextmanager
async def _working(server: Server, queue: str, prefix: str, **options: Any) -> AsyncIterator[None]:
    async with at_desk(server.url, prefix) as desk:
        named = Desk(server.url, type(desk.keys)(queue, prefix), desk.connection)
        async with named.working(lambda _: None, **options):
            yield


async def test_workers_are_listed(queue: Queue, server: Server, prefix: str) -> None:
    """Workers of the queue are listed by name, and neither those of other queues nor readers of events (pain 39)."""
    async with (
        _working(server, "mail", prefix, name="bob & co"),
        _working(server, "mail", prefix),
        _working(server, "mailbox", prefix, name="eve"),
        QueueEvents("mail", server.url, prefix=prefix),
    ):
        workers = await queue.get_workers()
        readers = await queue.get_event_readers()

    assert sorted(worker.name or "" for worker in workers) == ["", "bob & co"]
    assert all(worker.address.startswith("127.0.0.1:") and worker.age_s >= 0 for worker in workers)
    assert {worker.fields["name"] for worker in workers} == {worker.connection_name for worker in workers}
    assert len(readers) == 1
    assert not await queue.get_workers()


async def test_prefix_that_no_client_can_be_named_after(shell: Shell, server: Server, prefix: str) -> None:
    """Workers and readers connect, and are listed, whatever the prefix holds; servers allow names of visible ASCII."""
    odd = f"my app: größe\n{prefix}"
    async with (
        shell.queue("mail", server.url, prefix=odd) as queue,
        _working(server, "mail", odd, name="bob"),
        shell.events("mail", server.url, prefix=odd),
    ):
        workers, readers = await queue.get_workers(), await queue.get_event_readers()

    assert [worker.name for worker in workers] == ["bob"]
    assert len(readers) == 1


async def test_workers_are_listed_by_the_newer_protocol(shell: Shell, redis_server: Server, prefix: str) -> None:
    """A connection that speaks RESP3 lists workers too."""
    async with (
        _working(redis_server, "mail", prefix, name="bob"),
        shell.queue("mail", f"{redis_server.url}?protocol=3", prefix=prefix) as queue,
    ):
        assert [worker.name for worker in await queue.get_workers()] == ["bob"]


async def test_server_that_lists_no_clients(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """Where listing clients is not allowed, the error says so and what to do, instead of an empty list."""
    stored.client.execute_command("ACL", "SETUSER", "few", "on", ">pass", "~*", "&*", "+@all", "-client")
    url = server.url.replace("://", "://few:pass@")

    async with shell.queue("mail", url, prefix=prefix) as queue:
        with pytest.raises(ServerRefused, match="CLIENT LIST") as caught:
            await queue.get_workers()

    stored.client.execute_command("ACL", "DELUSER", "few")
    assert caught.value.prefix == "NOPERM"


async def test_prometheus(queue: Queue, stored: Stored) -> None:
    """Prometheus reads counts and totals under BullMQ's names, with labels of a few known kinds, escaped (pain 39)."""
    await queue.add("send")
    stored.client.hset(stored.key("metrics:completed"), mapping={"count": 3, "prevTS": 1, "prevCount": 1})

    text = await queue.prometheus({"env": 'a"b\\c\nd', "zone": 1})

    labels = 'env="a\\"b\\\\c\\nd", zone="1"'
    lines = text.split("\n")
    assert f'bullmq_job_count{{queue="mail", state="waiting", {labels}}} 1' in lines
    assert f'bullmq_job_completed_total{{queue="mail", {labels}}} 3' in lines
    assert f'bullmq_job_failed_total{{queue="mail", {labels}}} 0' in lines
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == [
        *("bullmq_job_count", "bullmq_job_completed_total", "bullmq_job_failed_total"),
        "echomq_oldest_waiting_seconds",
    ]
    assert lines[-1]


@pytest.mark.parametrize("labels", [{"a b": 1}, {"queue": "x"}, {"1a": 1}, ["env"]])
async def test_label_that_is_none(queue: Queue, labels: Any) -> None:
    """A label that Prometheus would refuse, or that is taken, is refused before anything is read."""
    with pytest.raises(InvalidOption, match="labels"):
        await queue.prometheus(labels)


async def test_latency(queue: Queue) -> None:
    """How long the first job in line has waited is told since it was due, and is 0 where none waits."""
    assert await queue.get_latency_ms() == 0
    await queue.add("later", delay=60_000)
    assert await queue.get_latency_ms() == 0

    await queue.add("sent", timestamp=1_700_000_000_000)
    await queue.add("urgent", priority=1)

    assert await queue.get_latency_ms() > 1_000_000
    [told] = [line for line in (await queue.prometheus()).split("\n") if line.startswith("echomq_oldest")]
    assert float(told.removeprefix('echomq_oldest_waiting_seconds{queue="mail"} ')) > 1_000


async def test_settings_of_the_queue(queue: Queue) -> None:
    """Limits that were set can be read back, one by one and with all settings, and are None when lifted."""
    await queue.set_global_concurrency(7)
    await queue.set_global_rate_limit({"max": 5, "duration": 1_000})  # type: ignore[arg-type]  # as a mapping, too
    await queue.pause()

    meta = await queue.get_meta()
    limit = await queue.get_global_rate_limit()

    assert (meta.concurrency, meta.is_paused, (meta.version or "").partition(":")[0]) == (7, True, "echomq")
    assert await queue.get_global_concurrency() == 7
    assert limit is not None
    assert (limit.max, limit.duration) == (5, 1_000)
    await queue.set_global_concurrency(None)
    await queue.set_global_rate_limit(None)
    assert (await queue.get_global_concurrency(), await queue.get_global_rate_limit()) == (None, None)
