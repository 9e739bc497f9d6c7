"""Changing one job that is in the queue."""

from typing import Any

import pytest

from echomq import (
    InvalidOption,
    JobBelongsToScheduler,
    JobLocked,
    JobNotFound,
    JobNotInState,
    JobState,
    NotEncodable,
    Parent,
    Queue,
)
from support.stored import Stored


async def test_remove(queue: Queue, stored: Stored) -> None:
    """A removed job leaves nothing behind, and removing it again is no error."""
    job = await queue.add("send", deduplication="ada")
    await queue.add_log(job.id, "row")

    await queue.remove(job.id)
    await queue.remove(job.id)

    assert stored.left() <= {"meta", "id", "events", "marker"}
    assert await queue.get_job_state(job.id) is JobState.UNKNOWN


async def test_remove_of_a_locked_job(queue: Queue, stored: Stored) -> None:
    """A job that a worker holds cannot be removed, and the error says why."""
    job = await queue.add("send")
    stored.activate(job.id, "token")

    with pytest.raises(JobLocked, match=rf"job {job.id}, or a child of it, is locked by a worker"):
        await queue.remove(job.id)

    assert await queue.get_job(job.id) is not None


async def test_remove_with_children(queue: Queue, prefix: str) -> None:
    """Removing a parent removes its children, unless they shall stay."""
    for parent_id, children in (("p1", True), ("p2", False)):
        await queue.add("parent", job_id=parent_id)
        await queue.add("part", parent=Parent(parent_id, f"{prefix}:mail"), job_id=f"{parent_id}-part")
        await queue.remove(parent_id, children=children)

    assert await queue.get_job("p1-part") is None
    assert await queue.get_job("p2-part") is not None


async def test_remove_of_a_schedulers_job(queue: Queue, stored: Stored) -> None:
    """The job a scheduler has planned next is the scheduler's to remove, and the error says so."""
    job_id = "repeat:daily:1900000000000"
    stored.client.hset(stored.key(job_id), mapping={"name": "send", "data": "{}", "opts": "{}", "rjk": "daily"})
    stored.client.zadd(stored.key("delayed"), {job_id: 1_900_000_000_000 << 12})
    stored.client.zadd(stored.key("repeat"), {"daily": 1_900_000_000_000})
    stored.client.hset(stored.key("repeat:daily"), mapping={"name": "send", "ic": 1, "every": 1_000})

    with pytest.raises(JobBelongsToScheduler, match="Remove the scheduler instead"):
        await queue.remove(job_id)

    assert stored.ids("delayed") == [job_id]


async def test_retry(queue: Queue, stored: Stored) -> None:
    """A failed job runs again, at the end or as the next one, with or without its attempts so far."""
    first, second = [(await queue.add("send")).id for _ in range(2)]
    await queue.add("other")
    stored.finish(first, "failed", 1_700_000_000_000)
    stored.finish(second, "failed", 1_700_000_000_000)

    await queue.retry(first)
    await queue.retry(second, lifo=True, reset_attempts=True)

    assert stored.ids("wait") == [first, "3", second]
    assert stored.job(first)["atm"] == "1"
    assert stored.job(second).get("atm", "0") == "0"
    assert "failedReason" not in stored.job(first)


async def test_retry_of_a_completed_job(queue: Queue, stored: Stored) -> None:
    """A completed job can run again too, and loses its result."""
    job = await queue.add("send")
    stored.finish(job.id, "completed", 1_700_000_000_000)

    await queue.retry(job.id, "completed")

    assert stored.ids("wait") == [job.id]
    assert "returnvalue" not in stored.job(job.id)


async def test_retry_of_what_has_not_ended(queue: Queue) -> None:
    """Only a finished job can run again; anything else is an error that changes nothing."""
    job = await queue.add("send")

    with pytest.raises(JobNotInState, match=job.id):
        await queue.retry(job.id)
    with pytest.raises(JobNotFound, match="ghost"):
        await queue.retry("ghost")
    with pytest.raises(InvalidOption, match="only completed and failed jobs can run again"):
        await queue.retry(job.id, "waiting")


async def test_promote(queue: Queue, stored: Stored) -> None:
    """A delayed job can run now; a job that is not delayed cannot be promoted."""
    job = await queue.add("send", delay=60_000)

    await queue.promote(job.id)

    assert stored.ids("wait") == [job.id]
    with pytest.raises(JobNotInState):
        await queue.promote(job.id)


async def test_change_delay(queue: Queue, stored: Stored) -> None:
    """A delayed job gets another delay, counted from now."""
    job = await queue.add("send", delay=60_000, timestamp=1_900_000_000_000)
    waiting = await queue.add("send")

    await queue.change_delay(job.id, 5_000)

    ((_, score),) = stored.client.zrange(stored.key("delayed"), 0, -1, withscores=True)
    assert int(score) >> 12 < 1_900_000_000_000
    assert stored.job(job.id)["delay"] == "5000"
    with pytest.raises(JobNotInState, match=waiting.id):
        await queue.change_delay(waiting.id, 5_000)
    with pytest.raises(JobNotFound, match="ghost"):
        await queue.change_delay("ghost", 5_000)
    with pytest.raises(InvalidOption, match="delay: must"):
        await queue.change_delay(job.id, -1)


async def test_change_priority(queue: Queue, stored: Stored) -> None:
    """A waiting job gets a priority, another one, and none again."""
    job = await queue.add("send")

    await queue.change_priority(job.id, 5)
    assert await queue.get_job_state(job.id) is JobState.PRIORITIZED
    assert await queue.get_counts_per_priority(5) == {5: 1}
    await queue.change_priority(job.id, 2)
    assert await queue.get_counts_per_priority(5, 2) == {5: 0, 2: 1}
    await queue.change_priority(job.id, 0)
    assert stored.ids("wait") == [job.id]


@pytest.mark.parametrize(
    "job_id", ["meta", "wait", "events", "de:ada", "repeat:daily", "metrics:completed", "", 7, None], ids=repr
)
async def test_id_that_is_no_jobs(queue: Queue, stored: Stored, job_id: Any) -> None:
    """Keys of the queue itself, and what is no text, are refused as ids: removing ``meta`` would lose the settings."""
    await queue.pause()
    before = stored.meta()
    operations = (
        lambda: queue.remove(job_id),
        lambda: queue.get_job(job_id),
        lambda: queue.update_data(job_id, 1),
        lambda: queue.update_progress(job_id, 1),
        lambda: queue.add_log(job_id, "row"),
        lambda: queue.change_priority(job_id, 1),
        lambda: queue.change_delay(job_id, 1),
        lambda: queue.retry(job_id),
    )

    for operation in operations:
        with pytest.raises(InvalidOption, match="job_id: "):
            await operation()

    assert stored.meta() == before


async def test_ids_of_other_clients(queue: Queue, stored: Stored) -> None:
    """Ids that other clients allow, or that schedulers make, are found and can be changed."""
    for job_id in ("12", "a:b", "repeat:daily:1700000000000", "delay", "x" * 1_000, "Zoë 🎈"):
        stored.client.hset(stored.key(job_id), mapping={"name": "send", "data": "{}", "opts": "{}"})

        await queue.update_data(job_id, 1)

        found = await queue.get_job(job_id)
        assert found is not None
        assert found.data == 1


@pytest.mark.parametrize("priority", [-1, 2_097_152, 1.5, "3", True])
async def test_priority_out_of_range(queue: Queue, stored: Stored, priority: Any) -> None:
    """A priority outside 0 to 2,097,151 is refused with the range, when added and when changed."""
    job = await queue.add("send")

    with pytest.raises(InvalidOption, match=r"priority: .*(2097151|whole number)"):
        await queue.change_priority(job.id, priority)
    with pytest.raises(InvalidOption, match=r"priority: .*(2097151|whole number)"):
        await queue.add("send", priority=priority)

    assert stored.ids("wait") == [job.id]


async def test_update_data(queue: Queue) -> None:
    """Data of a job can be replaced; what is not JSON is refused with the place of the culprit."""
    job = await queue.add("send", {"to": "ada"})

    await queue.update_data(job.id, {"to": ["bob"]})
    with pytest.raises(NotEncodable, match=r"\$\.to\[0\]"):
        await queue.update_data(job.id, {"to": [object()]})
    with pytest.raises(JobNotFound, match="ghost"):
        await queue.update_data("ghost", 1)

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.data == {"to": ["bob"]}


@pytest.mark.parametrize("progress", [50, 12.5, "half", {"step": [1, 2]}, None], ids=repr)
async def test_update_progress(queue: Queue, stored: Stored, progress: Any) -> None:
    """Progress is any JSON value; it is stored with the job and told to listeners."""
    job = await queue.add("send")

    await queue.update_progress(job.id, progress)

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.progress == progress
    assert stored.events()[-1]["event"] == "progress"
    with pytest.raises(JobNotFound, match="ghost"):
        await queue.update_progress("ghost", 1)


async def test_retry_with_other_data(queue: Queue, stored: Stored) -> None:
    """A failed job runs again with edited data and all its attempts, also with None, which is a value."""
    job = await queue.add("send", {"to": "nobody"}, attempts=3)
    stored.finish(job.id, "failed", 1_700_000_000_000)

    await queue.retry(job.id, data={"to": "ada"}, reset_attempts=True)

    found = await queue.get_job(job.id)
    assert found is not None
    assert (found.data, found.attempts_made, found.failed_reason) == ({"to": "ada"}, 0, None)
    assert await queue.get_job_state(job.id) is JobState.WAITING
    stored.finish(job.id, "completed", 1_700_000_000_000)
    await queue.retry(job.id, "completed", data=None)
    assert stored.job(job.id)["data"] == "null"


async def test_retry_with_other_data_changes_nothing_elsewhere(queue: Queue) -> None:
    """The data of a job that has not failed stay as they are when it is retried with others."""
    job = await queue.add("send", 1)

    with pytest.raises(JobNotInState):
        await queue.retry(job.id, data=2)
    with pytest.raises(JobNotFound):
        await queue.retry("ghost", data=2)
    with pytest.raises(NotEncodable, match=r"data of job 1 is not JSON at \$\.n"):
        await queue.retry(job.id, data={"n": object()})

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.data == 1


async def test_logs_are_counted_and_cleared(queue: Queue) -> None:
    """Rows of a log are counted, read in pages from either end, and dropped but for the newest."""
    job = await queue.add("send")
    for number in range(5):
        await queue.add_log(job.id, f"row {number}")

    assert await queue.count_job_logs(job.id) == 5
    assert await queue.get_job_logs(job.id, 1, 2) == ["row 1", "row 2"]
    assert await queue.get_job_logs(job.id, 0, 1, ascending=False) == ["row 4", "row 3"]
    await queue.clear_logs(job.id, keep=2)
    assert await queue.get_job_logs(job.id) == ["row 3", "row 4"]
    await queue.clear_logs(job.id)
    assert await queue.count_job_logs(job.id) == 0


async def test_deduplication_freed_by_its_owner_only(queue: Queue) -> None:
    """A deduplication id can be freed on the condition that a certain job holds it."""
    job = await queue.add("send", deduplication="ada")

    assert not await queue.remove_deduplication("ada", job_id="another")
    assert await queue.get_deduplication_job_id("ada") == job.id
    assert await queue.remove_deduplication("ada", job_id=job.id)
    assert await queue.get_deduplication_job_id("ada") is None
