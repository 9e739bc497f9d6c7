"""Adding jobs, one by one."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from echomq import Backoff, Deduplication, JobNotFound, JobState, Keep, Parent, ParentConflict, ParentNotFound, Queue
from support.servers import Server
from support.shells import Shell
from support.stored import Stored


async def test_job_waits_with_its_data(queue: Queue, stored: Stored) -> None:
    """An added job waits under the server's number, with name and data as compact JSON."""
    job = await queue.add("send", {"to": "ada", "n": [1, None]})

    assert job.id == "1"
    assert stored.ids("wait") == ["1"]
    assert stored.job("1") | {"timestamp": ""} == {
        "name": "send",
        "data": '{"to":"ada","n":[1,null]}',
        "opts": '{"attempts":0}',
        "timestamp": "",
        "delay": "0",
        "priority": "0",
    }


async def test_job_without_data_carries_null(queue: Queue, stored: Stored) -> None:
    """No data is sent as null."""
    job = await queue.add("send")

    assert stored.job(job.id)["data"] == "null"


async def test_listeners_hear_of_an_added_job(queue: Queue, stored: Stored) -> None:
    """An add tells listeners of every runtime that a job was added and waits."""
    job = await queue.add("send")

    assert stored.events() == [
        {"event": "added", "jobId": job.id, "name": "send"},
        {"event": "waiting", "jobId": job.id},
    ]


async def test_delayed_job(queue: Queue, stored: Stored) -> None:
    """A delayed job is due its delay after its timestamp, whether the delay is milliseconds or a timedelta."""
    at = datetime(2030, 1, 1, tzinfo=timezone.utc)
    first = await queue.add("send", delay=5_000, timestamp=at)
    second = await queue.add("send", delay=timedelta(minutes=1), timestamp=at)

    assert (first.delay_ms, second.delay_ms) == (5_000, 60_000)
    assert first.timestamp == at
    due = dict(stored.client.zrange(stored.key("delayed"), 0, -1, withscores=True))
    start = int(at.timestamp() * 1000)
    assert {job_id: int(score) >> 12 for job_id, score in due.items()} == {
        first.id: start + 5_000,
        second.id: start + 60_000,
    }
    assert await queue.get_job_state(first.id) is JobState.DELAYED


async def test_prioritized_jobs_stand_in_order(queue: Queue, stored: Stored) -> None:
    """Urgent jobs come first, and those of one priority in the order of their arrival."""
    ids = [(await queue.add("send", priority=priority)).id for priority in (5, 1, 2_097_151, 1)]

    assert stored.ids("prioritized") == [ids[1], ids[3], ids[0], ids[2]]
    assert await queue.get_job_state(ids[0]) is JobState.PRIORITIZED


async def test_delay_wins_over_priority(queue: Queue) -> None:
    """A job with both is delayed first, and keeps its priority for later."""
    job = await queue.add("send", delay=60_000, priority=3)

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.priority == 3
    assert await queue.get_job_state(job.id) is JobState.DELAYED


async def test_lifo_job_is_next(queue: Queue, stored: Stored) -> None:
    """A job added with lifo is taken before all that wait."""
    for _ in range(2):
        await queue.add("send")
    urgent = await queue.add("send", lifo=True)

    assert stored.ids("wait")[-1] == urgent.id  # workers take from the right


async def test_second_job_of_an_id_adds_nothing(queue: Queue, stored: Stored) -> None:
    """A second add with the same id answers with that id, leaves the first job alone, and says so to listeners."""
    await queue.add("send", {"first": True}, job_id="invoice-7")
    again = await queue.add("send", {"first": False}, job_id="invoice-7")

    assert again.id == "invoice-7"
    assert stored.ids("wait") == ["invoice-7"]
    assert stored.job("invoice-7")["data"] == '{"first":true}'
    assert stored.events()[-1] == {"event": "duplicated", "jobId": "invoice-7"}


async def test_id_with_two_colons(queue: Queue) -> None:
    """An id of three parts, as repeatable jobs have it, is accepted and found again."""
    job = await queue.add("send", job_id="a:b:c")

    assert await queue.get_job_state(job.id) is JobState.WAITING


async def test_deduplication_answers_with_the_owner(queue: Queue, stored: Stored) -> None:
    """While a job holds a deduplication id, another add answers with that job and adds nothing."""
    owner = await queue.add("send", deduplication="ada")
    refused = await queue.add("send", deduplication="ada")
    other = await queue.add("send", deduplication="bob")

    assert refused.id == owner.id
    assert other.id != owner.id
    assert stored.ids("wait") == [other.id, owner.id]
    assert await queue.get_deduplication_job_id("ada") == owner.id
    assert await queue.remove_deduplication("ada")
    assert not await queue.remove_deduplication("ada")
    assert await queue.get_deduplication_job_id("ada") is None


async def test_deduplication_for_a_time(queue: Queue, stored: Stored) -> None:
    """A deduplication id with a ttl is free again after it, counted from the first job unless extend is set."""
    key = stored.key("de:ada")
    await queue.add("send", deduplication=Deduplication(id="ada", ttl=timedelta(minutes=1)))
    assert 0 < stored.client.pttl(key) <= 60_000
    stored.client.pexpire(key, 1_000)
    await queue.add("send", deduplication=Deduplication(id="ada", ttl=60_000))
    assert stored.client.pttl(key) <= 1_000

    await queue.add("send", deduplication=Deduplication(id="ada", ttl=60_000, extend=True))

    assert stored.client.pttl(key) > 1_000


async def test_deduplication_replaces_a_delayed_job(queue: Queue, stored: Stored) -> None:
    """With replace, the last of several delayed jobs remains, with its own data (a debounce)."""
    mode = Deduplication(id="ada", ttl=60_000, extend=True, replace=True)
    first = await queue.add("send", 1, delay=60_000, deduplication=mode)
    second = await queue.add("send", 2, delay=60_000, deduplication=mode)

    assert second.id != first.id
    assert stored.ids("delayed") == [second.id]
    assert await queue.get_job(first.id) is None


async def test_deduplication_reschedules_a_delayed_job(queue: Queue, stored: Stored) -> None:
    """With reschedule, the delayed job stays and takes over the delay of the refused one."""
    first = await queue.add("send", 1, delay=1_000_000, deduplication="ada")
    mode = Deduplication(id="ada", reschedule=True)
    second = await queue.add("send", 2, delay=9_000_000, deduplication=mode)

    assert second.id == first.id
    assert stored.job(first.id)["delay"] == "9000000"
    assert stored.job(first.id)["data"] == "1"


async def test_deduplication_keeps_the_last_while_active(queue: Queue, stored: Stored) -> None:
    """With keep_last_if_active, what is refused while the owner runs is kept for the time after it."""
    mode = Deduplication(id="ada", keep_last_if_active=True)
    owner = await queue.add("send", 1, deduplication=mode)
    stored.activate(owner.id)
    await queue.add("send", 2, deduplication=mode)
    await queue.add("send", 3, deduplication=mode)

    assert stored.client.hget(stored.key("dn:ada"), "data") == "3"
    assert stored.ids("wait") == []


@pytest.mark.parametrize(
    ("option", "wire"),
    [
        (True, True),
        (False, False),
        (100, 100),
        (Keep(age_s=3_600), {"age": 3_600}),
        (Keep(age_s=3_600, count=50, limit=10), {"age": 3_600, "count": 50, "limit": 10}),
        ({"count": 7}, 7),
    ],
    ids=repr,
)
async def test_retention_is_stored_as_other_clients_store_it(
    queue: Queue, stored: Stored, option: Any, wire: Any
) -> None:
    """What to keep of finished jobs is stored in the form that workers of every runtime read."""
    job = await queue.add("send", remove_on_complete=option, remove_on_fail=option)

    assert stored.options(job.id) == {"attempts": 0, "removeOnComplete": wire, "removeOnFail": wire}


async def test_options_are_stored_in_the_spelling_of_the_wire(queue: Queue, stored: Stored) -> None:
    """Options are stored under the names that workers of every runtime read, defaults left out."""
    job = await queue.add(
        "send",
        attempts=3,
        backoff=Backoff("exponential", 1_000, jitter=0.5),
        keep_logs=10,
        stack_trace_limit=2,
        fail_parent_on_failure=True,
        telemetry_metadata="trace",
        omit_context=True,
        extra={"mine": 1},
    )

    assert stored.options(job.id) == {
        "attempts": 3,
        "backoff": {"type": "exponential", "delay": 1_000, "jitter": 0.5},
        "kl": 10,
        "stackTraceLimit": 2,
        "fpof": True,
        "tm": "trace",
        "omc": True,
        "mine": 1,
    }


async def test_number_is_a_fixed_backoff(queue: Queue, stored: Stored) -> None:
    """A backoff given as a number of milliseconds is a fixed wait."""
    job = await queue.add("send", backoff=500)

    assert stored.options(job.id)["backoff"] == {"type": "fixed", "delay": 500}


async def test_default_options_of_a_queue(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """Options of the queue hold for each of its jobs, and what an add says wins."""
    async with shell.queue(
        "mail", server.url, prefix=prefix, default_job_options={"attempts": 5, "lifo": True}
    ) as queue:
        first = await queue.add("send")
        (second,) = await queue.add_bulk([("send", None, {"attempts": 2})])

    assert stored.options(first.id) == {"attempts": 5, "lifo": True}
    assert stored.options(second.id) == {"attempts": 2, "lifo": True}


async def test_child_of_a_parent(queue: Queue, stored: Stored, prefix: str) -> None:
    """A job with a parent is entered at the parent, with the policy for its failure."""
    parent = await queue.add("report")
    child = await queue.add(
        "part", parent=Parent(parent.id, f"{prefix}:mail"), ignore_dependency_on_failure=True, job_id="part-1"
    )

    assert stored.client.smembers(stored.key(f"{parent.id}:dependencies")) == {stored.key("part-1")}
    assert child.parent_key == stored.key(parent.id)
    found = await queue.get_job("part-1")
    assert found is not None
    assert found.parent == {"id": parent.id, "queueKey": f"{prefix}:mail", "idof": True}


async def test_parent_that_does_not_exist(queue: Queue, stored: Stored, prefix: str) -> None:
    """A parent that does not exist is an error of its own, and no job is added."""
    with pytest.raises(ParentNotFound):
        await queue.add("part", parent=Parent("ghost", f"{prefix}:mail"))

    assert stored.ids("wait") == []
    assert not issubclass(ParentNotFound, JobNotFound)


async def test_job_of_another_parent(queue: Queue, prefix: str) -> None:
    """A job that has a parent already is not given to another, and the error names the job."""
    first, second = (await queue.add("report")).id, (await queue.add("report")).id
    await queue.add("part", parent=Parent(first, f"{prefix}:mail"), job_id="part-1")

    with pytest.raises(ParentConflict, match="part-1"):
        await queue.add("part", parent=Parent(second, f"{prefix}:mail"), job_id="part-1")


@pytest.mark.parametrize("data", ["text", "Zoë 🎈 \u2028", 0, 2**53 - 1, -1.5, True, [], {"a": {"b": [{}]}}], ids=repr)
async def test_data_comes_back_as_it_went(queue: Queue, data: Any) -> None:
    """Any JSON value is read back equal (pain 56)."""
    job = await queue.add("send", data)

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.data == data == job.data
