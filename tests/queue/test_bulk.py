"""Adding many jobs at once: all or none, or one by one with an outcome for each."""

import asyncio
import contextlib
from typing import Any

import pytest

from echomq import BulkAddFailed, ConnectionLost, DriverError, InvalidOption, Job, Parent, ParentNotFound, Queue
from echomq.errors import NotEncodable, UnknownOption
from support.faults import set_config
from support.servers import Server, Servers
from support.shells import Shell
from support.stored import Stored, until


async def test_bulk_keeps_the_order(queue: Queue, stored: Stored) -> None:
    """A bulk of jobs of all kinds is added in the order given, and each answers with its id."""
    jobs = await queue.add_bulk(
        [("a", 1), ("b", 2, {"delay": 60_000}), ("c", 3, {"priority": 1}), ("d", 4, {"job_id": "mine"}), ("e", 5)]
    )

    assert [job.id for job in jobs] == ["1", "2", "3", "mine", "5"]
    assert [job.data for job in jobs] == [1, 2, 3, 4, 5]
    assert stored.ids("wait") == ["5", "mine", "1"]
    assert stored.ids("delayed") == ["2"]
    assert stored.ids("prioritized") == ["3"]


async def test_empty_bulk(queue: Queue) -> None:
    """No jobs to add is no error."""
    assert await queue.add_bulk([]) == []
    assert await queue.add_bulk([], atomic=False) == []


@pytest.mark.parametrize("atomic", [True, False])
async def test_second_bulk_of_the_same_ids(queue: Queue, stored: Stored, atomic: bool) -> None:
    """A bulk may be sent again without adding its jobs twice, if they have ids of their own."""
    bulk = [("send", number, {"job_id": f"invoice-{number}"}) for number in range(50)]

    first = await queue.add_bulk(bulk, atomic=atomic)
    second = await queue.add_bulk(bulk, atomic=atomic)

    assert [job.id for job in first] == [job.id for job in second]
    assert len(stored.ids("wait")) == 50


@pytest.mark.parametrize(
    ("item", "error", "says"),
    [
        (("send", object()), NotEncodable, "data of job 'send' is not JSON"),
        (("send", 1, {"priority": -1}), InvalidOption, "priority"),
        (("send", 1, {"job_id": "7"}), InvalidOption, "job_id"),
        (("send", 1, {"dealy": 5}), UnknownOption, "did you mean 'delay'"),
        (("", 1), InvalidOption, "name"),
        ("send", InvalidOption, r"jobs\[2\]: expected \(name, data\)"),
        (("send",), InvalidOption, r"jobs\[2\]"),
        (("send", 1, {}, 2), InvalidOption, r"jobs\[2\]"),
        (("send", 1, "late"), InvalidOption, r"jobs\[2\]"),
        (["send", 1], InvalidOption, r"jobs\[2\]"),
    ],
)
@pytest.mark.parametrize("atomic", [True, False])
async def test_one_bad_item_refuses_all(
    queue: Queue, stored: Stored, atomic: bool, item: Any, error: type[Exception], says: str
) -> None:
    """One item that cannot be added refuses the whole bulk before anything is sent."""
    with pytest.raises(error, match=says):
        await queue.add_bulk([("send", 1), ("send", 2), item, ("send", 4)], atomic=atomic)

    assert stored.left() == set()


async def test_lost_parent_in_a_bulk(queue: Queue, stored: Stored, prefix: str) -> None:
    """Where the server declines some jobs of a bulk, the error tells what became of each."""
    lost = {"parent": Parent("ghost", f"{prefix}:mail")}

    with pytest.raises(BulkAddFailed, match="1 of 3 jobs were not added") as caught:
        await queue.add_bulk([("send", 1), ("send", 2, lost), ("send", 3)])

    first, second, third = caught.value.outcomes
    assert isinstance(first, Job)
    assert isinstance(second, ParentNotFound)
    assert isinstance(third, Job)
    assert stored.ids("wait") == [third.id, first.id]
    assert str(second).startswith("the parent of the job does not exist")


async def test_bulk_of_thousands_in_pieces(queue: Queue, stored: Stored) -> None:
    """A bulk that is not one transaction adds 5,000 jobs in order."""
    jobs = await queue.add_bulk([("send", number) for number in range(5_000)], atomic=False)

    assert [job.id for job in jobs] == [str(number) for number in range(1, 5_001)]
    assert stored.client.llen(stored.key("wait")) == 5_000


async def test_bulk_of_thousands_in_one_transaction(queue: Queue, stored: Stored) -> None:
    """A bulk of 5,000 jobs fits into one transaction, and other clients see none or all of them."""
    seen = set()
    adding = asyncio.ensure_future(queue.add_bulk([("send", number) for number in range(5_000)]))
    while not adding.done():
        seen.add(await asyncio.to_thread(stored.client.llen, stored.key("wait")))
    await adding

    assert seen <= {0, 5_000}
    assert stored.client.llen(stored.key("wait")) == 5_000


async def test_full_server_takes_all_or_none(shell: Shell, redis_server: Server, prefix: str) -> None:
    """A server that runs out of memory adds no job of an atomic bulk, and the error is its own."""
    with contextlib.closing(redis_server.client(decode_responses=True)) as client:
        stored = Stored(client, f"{prefix}:mail")
        async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
            await queue.add("first")
            full = set_config(redis_server, maxmemory="1mb", **{"maxmemory-policy": "noeviction"})
            with full, pytest.raises((BulkAddFailed, DriverError), match="memory"):
                await queue.add_bulk([("send", "x" * 100) for _ in range(100)])
            assert stored.ids("wait") == ["1"]
            assert stored.left() <= {"1", "wait", "meta", "id", "events", "marker"}
            await queue.add("last")


@pytest.mark.parametrize("name", ["redis", "valkey"])
async def test_killed_server_keeps_all_or_none(shell: Shell, servers: Servers, prefix: str, name: str) -> None:
    """A server that is killed in the middle of atomic bulks comes back with whole bulks only."""
    server = servers.start(name, aof=True)
    async with shell.queue("mail", server.url, prefix=prefix) as queue:

        async def add_for_ever() -> None:
            for number in range(10_000):
                await queue.add_bulk([("send", number)] * 100)

        adding = asyncio.ensure_future(add_for_ever())
        with contextlib.closing(server.client(decode_responses=True)) as client:
            await until(lambda: client.llen(f"{prefix}:mail:wait") >= 500)
        await asyncio.to_thread(server.kill)
        with pytest.raises(ConnectionLost):
            await adding
        await asyncio.to_thread(server.restart)
        with contextlib.closing(server.client(decode_responses=True)) as client:
            count = client.llen(f"{prefix}:mail:wait")

    assert count >= 500
    assert count % 100 == 0


async def test_stateless_bulk(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """A bulk needs no queue object either, and takes any iterable."""
    jobs = await shell.add_bulk(
        "mail", (("send", number) for number in range(3)), connection=server.url, prefix=prefix, atomic=False
    )

    assert [job.id for job in jobs] == stored.ids("wait")[::-1]
