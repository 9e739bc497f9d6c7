"""Reading a queue: jobs, pages, counts, states, logs, metrics."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from echomq import ConnectionLost, ConnectionOptions, InvalidOption, JobNotFound, JobState, Queue
from support.servers import Server, free_port
from support.shells import Shell
from support.stored import Stored


async def _one_of_each(queue: Queue, stored: Stored) -> dict[str, str]:
    """Put one job into each state; returns state -> id."""
    ids = {}
    for state in ("waiting", "active", "completed", "failed"):
        ids[state] = (await queue.add(state)).id
    ids["delayed"] = (await queue.add("delayed", delay=60_000)).id
    ids["prioritized"] = (await queue.add("prioritized", priority=7)).id
    stored.activate(ids["active"])
    for state in ("completed", "failed"):
        stored.finish(ids[state], state, 1_700_000_000_000)
    ids["waiting-children"] = (await queue.add("waiting-children")).id
    stored.client.lrem(stored.key("wait"), 1, ids["waiting-children"])
    stored.client.zadd(stored.key("waiting-children"), {ids["waiting-children"]: 1})
    return ids


async def test_state_of_each_job(queue: Queue, stored: Stored) -> None:
    """Each job is found in its state, alone, in lists and in counts."""
    ids = await _one_of_each(queue, stored)

    assert {state: await queue.get_job_state(job_id) for state, job_id in ids.items()} == {
        state: JobState(state) for state in ids
    }
    assert {job.id: job.state for job in await queue.get_jobs()} == {ids[state]: JobState(state) for state in ids}
    assert await queue.get_job_counts() == {JobState(state): 1 for state in ids}
    assert await queue.count() == 4
    assert await queue.get_job_state("ghost") is JobState.UNKNOWN


async def test_counts_of_some_states(queue: Queue) -> None:
    """Counts come in the order asked for, each state once, also in the wire's spelling."""
    await queue.add("send")

    counts = await queue.get_job_counts("failed", "wait", JobState.WAITING)

    assert list(counts.items()) == [(JobState.FAILED, 0), (JobState.WAITING, 1)]


async def test_jobs_come_page_by_page(queue: Queue) -> None:
    """Pages of jobs follow one another without gap or overlap, newest first or oldest first."""
    await queue.add_bulk([("send", number) for number in range(25)])

    async def page(start: int, end: int, *, ascending: bool) -> list[Any]:
        return [job.data for job in await queue.get_jobs("waiting", start=start, end=end, ascending=ascending)]

    assert [*await page(0, 9, ascending=True), *await page(10, 19, ascending=True)] == list(range(20))
    assert await page(20, 29, ascending=True) == [20, 21, 22, 23, 24]
    assert await page(0, 9, ascending=False) == list(range(24, 14, -1))
    assert await page(30, 39, ascending=True) == []


async def test_jobs_of_several_states(queue: Queue) -> None:
    """Jobs of several states come state after state, in the order asked for."""
    waiting = [(await queue.add("send")).id for _ in range(2)]
    delayed = [(await queue.add("send", delay=delay)).id for delay in (90_000, 60_000)]

    found = [job.id for job in await queue.get_jobs("delayed", "waiting", ascending=True)]

    assert found == [*reversed(delayed), *waiting]


async def test_job_as_a_value(queue: Queue, stored: Stored) -> None:
    """A job that was read tells all that its hash holds, and tells its state by itself."""
    added = await queue.add("send", {"to": "ada"}, attempts=3)
    stored.client.hset(
        stored.key(added.id),
        mapping={"pb": "w1", "atm": 1, "ats": 2, "stc": 1, "processedOn": 1_700_000_000_000, "progress": "50"},
    )
    stored.finish(added.id, "failed", 1_700_000_000_500)
    stored.client.hset(stored.key(added.id), mapping={"stacktrace": '["first","second"]'})

    job = await queue.get_job(added.id)

    assert job is not None
    assert (job.name, job.data, job.options.attempts) == ("send", {"to": "ada"}, 3)
    assert (job.processed_by, job.attempts_made, job.attempts_started, job.stalled_count) == ("w1", 1, 2, 1)
    assert (job.progress, job.failed_reason, job.stacktrace) == (50, "no", ("first", "second"))
    assert job.finished_on is not None
    assert job.finished_on.isoformat() == "2023-11-14T22:13:20.500000+00:00"
    assert job.is_failed
    assert job.is_finished
    assert job.key == stored.key(job.id)
    assert job == await queue.get_job(added.id)


async def test_job_that_does_not_exist(queue: Queue) -> None:
    """A job that does not exist is None, not an error."""
    assert await queue.get_job("ghost") is None


async def test_job_of_another_client(queue: Queue, stored: Stored) -> None:
    """A job with fields, options and data this version does not know is read, and keeps them."""
    stored.client.hset(
        stored.key("odd"), mapping={"name": "x", "data": "{nope", "opts": '{"new":1}', "delay": "10.5", "later": "on"}
    )

    job = await queue.get_job("odd")

    assert job is not None
    assert job.delay_ms == 10
    assert job.options.extra == {"new": 1}
    assert dict(job.other_fields) == {"later": b"on"}


async def test_logs(queue: Queue) -> None:
    """Log rows come in pages from either end, and only the newest are kept if that is asked."""
    job = await queue.add("send")
    assert [await queue.add_log(job.id, f"row {number}") for number in range(5)] == [1, 2, 3, 4, 5]

    assert await queue.get_job_logs(job.id, 1, 2) == ["row 1", "row 2"]
    assert await queue.get_job_logs(job.id, 0, 1, ascending=False) == ["row 4", "row 3"]
    assert await queue.add_log(job.id, "Zoë 🎈", keep=2) == 2
    assert await queue.get_job_logs(job.id) == ["row 4", "Zoë 🎈"]
    assert await queue.get_job_logs("ghost") == []


async def test_log_of_a_job_that_does_not_exist(queue: Queue, stored: Stored) -> None:
    """A log row for a job that does not exist is an error and leaves nothing."""
    with pytest.raises(JobNotFound, match="ghost"):
        await queue.add_log("ghost", "row")

    assert "ghost:logs" not in stored.left()


async def test_counts_per_priority(queue: Queue) -> None:
    """Jobs are counted for each priority asked for; 0 counts those without one."""
    for priority in (0, 0, 5, 2_097_151):
        await queue.add("send", priority=priority)

    assert await queue.get_counts_per_priority(0, 5, 6, 2_097_151) == {0: 2, 5: 1, 6: 0, 2_097_151: 1}


async def test_metrics(queue: Queue, stored: Stored) -> None:
    """What workers of any runtime counted is read; a queue nobody counts has zeros."""
    assert (await queue.get_metrics("completed")).count == 0
    stored.client.hset(
        stored.key("metrics:failed"), mapping={"count": 12, "prevTS": 1_700_000_000_000, "prevCount": 10}
    )
    stored.client.rpush(stored.key("metrics:failed:data"), 2, 0, 5)

    metrics = await queue.get_metrics("failed", 0, 1)

    assert (metrics.count, metrics.previous_ms, metrics.previous_count) == (12, 1_700_000_000_000, 10)
    assert (metrics.points, metrics.point_count) == ((2, 0), 3)


async def test_words_that_name_no_state(queue: Queue) -> None:
    """A word that names no state is refused with the list of those that do."""
    with pytest.raises(InvalidOption, match="'done' is no state of a job; there are: waiting, active"):
        await queue.get_jobs("done")
    with pytest.raises(InvalidOption, match="unknown"):
        await queue.get_job_counts(JobState.UNKNOWN)
    with pytest.raises(InvalidOption, match="only completed and failed"):
        await queue.get_metrics("waiting")


async def test_ids_of_jobs(queue: Queue) -> None:
    """Ids come in the order and the window that jobs would come in, without reading the jobs."""
    await queue.add_bulk([("send", number) for number in range(4)])
    later = await queue.add("send", delay=60_000)

    assert await queue.get_job_ids("waiting", ascending=True) == ["1", "2", "3", "4"]
    assert await queue.get_job_ids("waiting", "delayed", start=0, end=1) == ["4", "3", later.id]
    assert await queue.get_job_ids("failed") == []


async def test_delayed_jobs_that_are_due(queue: Queue) -> None:
    """Delayed jobs are counted by when they may run."""
    moment = datetime(2030, 1, 1, tzinfo=timezone.utc)
    for hours in (1, 2, 3):
        await queue.add("send", timestamp=moment, delay=timedelta(hours=hours))

    assert await queue.count_due(moment) == 0
    assert await queue.count_due(moment + timedelta(hours=2, seconds=1)) == 2
    with pytest.raises(InvalidOption, match="before"):
        await queue.count_due("noon")  # type: ignore[arg-type]  # as an untyped caller


async def test_ready(shell: Shell, server: Server, prefix: str) -> None:
    """A queue connects when it is told to be ready, and says at once where no server is."""
    async with shell.queue("mail", server.url, prefix=prefix) as queue:
        await queue.ready()
    nowhere = shell.queue("mail", ConnectionOptions(port=free_port(), deadline_ms=200))

    with pytest.raises(ConnectionLost):
        await nowhere.ready()
    await nowhere.close()
