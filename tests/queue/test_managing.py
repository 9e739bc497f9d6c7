"""Steering a whole queue: pause, drain, clean, obliterate, retry and promote all, limits, settings."""

import time
from datetime import timedelta

import pytest

from echomq import InvalidOption, JobState, Queue, QueueHasActiveJobs, RateLimit
from support.servers import Server
from support.shells import Shell
from support.stored import Stored

YESTERDAY_MS = (time.time_ns() // 1_000_000) - 86_400_000


async def _finished(queue: Queue, stored: Stored, state: str, count: int, at_ms: int = YESTERDAY_MS) -> list[str]:
    """Add jobs and let them look finished, one millisecond after the other."""
    jobs = await queue.add_bulk([("send", None)] * count)
    for offset, job in enumerate(jobs):
        stored.finish(job.id, state, at_ms + offset)
    return [job.id for job in jobs]


async def test_pause_and_resume(queue: Queue, stored: Stored) -> None:
    """A paused queue says so to every runtime, keeps its jobs waiting, and goes on when resumed."""
    await queue.add("send")
    assert not await queue.is_paused()

    await queue.pause()
    await queue.add("send")

    assert await queue.is_paused()
    assert await queue.get_job_counts("waiting") == {JobState.WAITING: 2}
    await queue.resume()
    await queue.resume()
    assert not await queue.is_paused()
    assert [event["event"] for event in stored.events() if event["event"] in ("paused", "resumed")][:2] == [
        "paused",
        "resumed",
    ]


async def test_resume_brings_back_what_an_old_client_put_aside(queue: Queue, stored: Stored) -> None:
    """Resuming brings back all 20,005 jobs that an old client's pause put into a list of its own, in order."""
    ids = [f"old-{number}" for number in range(20_005)]
    stored.client.hset(stored.key("meta"), "paused", 1)
    stored.client.rpush(stored.key("paused"), *ids)

    await queue.resume()

    assert stored.ids("wait") == ids
    assert "paused" not in stored.left()
    assert len([event for event in stored.events() if event["event"] == "resumed"]) == 1


async def test_drain(queue: Queue, stored: Stored) -> None:
    """Draining removes what waits and nothing else; the delayed jobs go only if that is asked."""
    await queue.add_bulk([("send", None), ("send", None, {"priority": 3}), ("send", None, {"delay": 60_000})])
    active = await queue.add("send")
    stored.activate(active.id)

    await queue.drain()
    assert {state.value: count for state, count in (await queue.get_job_counts()).items() if count} == {
        "delayed": 1,
        "active": 1,
    }

    await queue.drain(delayed=True)
    assert {state.value: count for state, count in (await queue.get_job_counts()).items() if count} == {"active": 1}


async def test_clean_by_age(queue: Queue, stored: Stored) -> None:
    """Cleaning removes the jobs of one state that finished before the grace time, and tells which."""
    old = await _finished(queue, stored, "completed", 3)
    (young,) = await _finished(queue, stored, "completed", 1, YESTERDAY_MS + 86_000_000)
    failed = await _finished(queue, stored, "failed", 1)

    removed = await queue.clean(timedelta(hours=1))

    assert sorted(removed) == sorted(old)
    assert stored.ids("completed") == [young]
    assert stored.ids("failed") == failed
    assert await queue.get_job(old[0]) is None


async def test_clean_with_a_limit(queue: Queue, stored: Stored) -> None:
    """Cleaning removes no more jobs than the limit."""
    ids = await _finished(queue, stored, "failed", 5)

    removed = await queue.clean(state="failed", limit=2)

    assert len(removed) == 2
    assert len(stored.ids("failed")) == 3
    assert set(removed) < set(ids)


async def test_clean_of_more_than_one_step(queue: Queue, stored: Stored) -> None:
    """Cleaning all waiting jobs goes on until none is left, however many there are."""
    await queue.add_bulk([("send", None, {"timestamp": YESTERDAY_MS})] * 10_050, atomic=False)

    removed = await queue.clean(state="wait")

    assert len(set(removed)) == 10_050
    assert stored.ids("wait") == []


@pytest.mark.parametrize(("state", "steps"), [("completed", [1_000, 1_200]), ("wait", [1_000, 1_200])])
async def test_clean_tells_how_far_it_is(queue: Queue, stored: Stored, state: str, steps: list[int]) -> None:
    """Cleaning tells after each step how many jobs are gone so far."""
    if state == "completed":
        await _finished(queue, stored, state, steps[-1])
    else:
        await queue.add_bulk([("send", None, {"timestamp": YESTERDAY_MS})] * steps[-1], atomic=False)
    told: list[int] = []

    await queue.clean(state=state, on_progress=told.append)

    assert sorted(set(told) - {0}) == steps
    assert told == sorted(told)


async def test_orphans(queue: Queue, stored: Stored) -> None:
    """What is left of jobs that no list holds is removed, as many as wanted, and nothing else."""
    kept = await queue.add("send")
    await queue.upsert_job_scheduler("beat", every=60_000)
    stored.client.hset(stored.key("ghost1"), "name", "send")
    stored.client.rpush(stored.key("ghost2:logs"), "row")
    before = stored.left() - {"ghost1", "ghost2:logs"}

    assert await queue.remove_orphaned_jobs(limit=1) == 1
    assert await queue.remove_orphaned_jobs(count=10) == 1
    assert await queue.remove_orphaned_jobs() == 0

    assert stored.left() == before
    assert await queue.get_job(kept.id) is not None


async def test_obliterate(queue: Queue, stored: Stored) -> None:
    """Obliterating removes every key of a queue of 2,500 jobs in all states."""
    await _finished(queue, stored, "completed", 500)
    await queue.add_bulk(
        [("send", None)] * 1_000
        + [("send", None, {"delay": 60_000})] * 500
        + [("send", None, {"priority": 1})] * 499
        + [("send", None, {"deduplication": "ada"})],
        atomic=False,
    )
    await queue.add_log("1", "row")

    await queue.obliterate(count=700)

    assert stored.left() == set()


async def test_obliterate_spares_active_jobs(queue: Queue, stored: Stored) -> None:
    """A queue with active jobs is obliterated by force only."""
    job = await queue.add("send")
    stored.activate(job.id, "token")

    with pytest.raises(QueueHasActiveJobs, match="use force"):
        await queue.obliterate()
    assert await queue.get_job(job.id) is not None

    await queue.obliterate(force=True)
    assert stored.left() == set()


@pytest.mark.parametrize("state", ["failed", "completed"])
async def test_retry_all(queue: Queue, stored: Stored, state: str) -> None:
    """All failed (or completed) jobs are run again, step by step, without what they left the last time."""
    ids = await _finished(queue, stored, state, 25)

    await queue.retry_jobs(state=state, count=10)

    assert sorted(stored.ids("wait")) == sorted(ids)
    assert stored.ids(state) == []
    assert not stored.job(ids[0]).keys() & {"finishedOn", "failedReason", "returnvalue"}


async def test_retry_of_those_until_a_moment(queue: Queue, stored: Stored) -> None:
    """Only jobs that ended until the given moment are run again."""
    ids = await _finished(queue, stored, "failed", 3)

    await queue.retry_jobs(until_ms=YESTERDAY_MS + 1)

    assert sorted(stored.ids("wait")) == ids[:2]
    assert stored.ids("failed") == ids[2:]


async def test_promote_all(queue: Queue) -> None:
    """All delayed jobs become ready at once."""
    await queue.add_bulk([("send", None, {"delay": 60_000})] * 25)

    await queue.promote_jobs(count=10)

    assert await queue.get_job_counts("waiting", "delayed") == {JobState.WAITING: 25, JobState.DELAYED: 0}


async def test_states_that_cannot_be_retried(queue: Queue) -> None:
    """Retrying jobs of a state they cannot be retried from is refused."""
    with pytest.raises(InvalidOption, match="active"):
        await queue.retry_jobs(state="active")


async def test_rate_limit(queue: Queue) -> None:
    """A rate limit set by hand lasts as long as it says, and can be lifted."""
    assert await queue.get_rate_limit_ttl() <= 0

    await queue.rate_limit(timedelta(seconds=30))
    assert 29_000 < await queue.get_rate_limit_ttl() <= 30_000

    await queue.remove_rate_limit()
    assert await queue.get_rate_limit_ttl() <= 0


async def test_global_concurrency(queue: Queue, stored: Stored) -> None:
    """The limit of active jobs is stored where workers of every runtime look, and can be lifted."""
    await queue.set_global_concurrency(1)
    assert stored.meta()["concurrency"] == "1"
    assert not await queue.is_maxed()
    job = await queue.add("send")
    stored.activate(job.id)
    assert await queue.is_maxed()

    await queue.set_global_concurrency(None)

    assert "concurrency" not in stored.meta()
    assert not await queue.is_maxed()


async def test_global_rate_limit(queue: Queue, stored: Stored) -> None:
    """The rate limit is stored where workers of every runtime look, and can be lifted."""
    await queue.set_global_rate_limit(RateLimit(10, timedelta(seconds=1)))
    assert stored.meta() | {"version": ""} == {
        "opts.maxLenEvents": "10000",
        "version": "",
        "max": "10",
        "duration": "1000",
    }

    await queue.set_global_rate_limit(None)

    assert not stored.meta().keys() & {"max", "duration"}


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, "2", True])
async def test_impossible_global_concurrency(queue: Queue, stored: Stored, concurrency: int) -> None:
    """A limit that would stop the queue for ever, or is no number, is refused."""
    with pytest.raises(InvalidOption, match="concurrency"):
        await queue.set_global_concurrency(concurrency)

    assert "concurrency" not in stored.meta()


async def test_settings_written_by_the_first_use(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """A queue writes who uses it and how long its event log may grow, once, at its first use (pain 19)."""
    async with shell.queue("mail", server.url, prefix=prefix, max_events=50) as queue:
        assert stored.meta() == {}
        await queue.add("send")
        assert stored.meta()["opts.maxLenEvents"] == "50"
        assert stored.meta()["version"].startswith("echomq:")
        stored.client.delete(stored.key("meta"))
        await queue.add("send")
        assert stored.meta().get("opts.maxLenEvents") != "50"


async def test_settings_left_alone(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """A queue that must not write settings does not, and neither does an add without a queue object."""
    async with shell.queue("mail", server.url, prefix=prefix, write_meta=False) as queue:
        await queue.count()
    await shell.add("mail", "send", connection=server.url, prefix=prefix)

    assert "version" not in stored.meta()


async def test_event_log_stays_short(shell: Shell, server: Server, prefix: str, stored: Stored) -> None:
    """The event log is trimmed near the length the queue allows, and can be shortened by hand (pain 19)."""
    async with shell.queue("mail", server.url, prefix=prefix, max_events=100) as queue:
        await queue.add_bulk([("send", None)] * 2_000, atomic=False)
        assert stored.client.xlen(stored.key("events")) <= 100 + 100  # the server trims whole nodes of 100

        gone = await queue.trim_events(0)

    assert gone > 0
    assert stored.client.xlen(stored.key("events")) == 0
