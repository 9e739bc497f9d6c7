"""Going through all jobs while the queue changes, and looking for some of them."""

from datetime import datetime, timezone
from typing import Any

import pytest

from echomq import InvalidOption, Job, JobState, Queue
from support.stored import Stored

STATES = [state for state in JobState if state is not JobState.UNKNOWN]


async def _walked(queue: Queue, *states: str, **how: Any) -> list[Job]:
    return [job async for job in queue.iter_jobs(*states, **how)]


async def _fill(queue: Queue, stored: Stored, state: str, count: int) -> list[str]:
    """Put jobs into a state and return their ids, the oldest first."""
    how = {"delayed": {"delay": 60_000}, "prioritized": {"priority": 5}}.get(state, {})
    ids = [job.id for job in await queue.add_bulk([("send", number, how) for number in range(count)])]
    for number, job_id in enumerate(ids):
        if state in ("completed", "failed"):
            stored.finish(job_id, state, 1_700_000_000_000 + number // 7)  # some of them in the same millisecond
        elif state == "active":
            stored.activate(job_id)
    return ids


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("state", ["waiting", "active", "delayed", "prioritized", "completed"])
async def test_each_job_once(queue: Queue, stored: Stored, state: str, ascending: bool) -> None:
    """A walk gives each job of a state once, in order, with its state, whatever the size of a page."""
    ids = await _fill(queue, stored, state, 25)

    jobs = await _walked(queue, state, page_size=4, ascending=ascending)

    assert {job.state for job in jobs} == {JobState(state)}
    assert sorted(job.id for job in jobs) == sorted(ids)
    if state != "completed":
        assert [job.id for job in jobs] == (ids if ascending else ids[::-1])


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("state", ["waiting", "delayed", "completed"])
async def test_walk_while_jobs_come_and_go(queue: Queue, stored: Stored, state: str, ascending: bool) -> None:
    """Jobs that stay are given once, though others are added and removed between all pages."""
    ids = await _fill(queue, stored, state, 60)
    going = {job_id for number, job_id in enumerate(ids) if number % 3 or 20 <= number < 40}
    doomed = sorted(going, key=int, reverse=not ascending)
    seen = []

    async for job in queue.iter_jobs(state, page_size=5, ascending=ascending):
        seen.append(job.id)
        if len(seen) % 2 == 0:
            for job_id in doomed[:5]:
                await queue.remove(job_id)
            del doomed[:5]
            await _fill(queue, stored, state, 1)

    assert not doomed
    assert len(seen) == len(set(seen))
    assert set(ids) - going <= set(seen)


async def test_walk_over_all_states(queue: Queue, stored: Stored) -> None:
    """With no state named, a walk goes through all of them."""
    expected = {job_id for state in ("failed", "delayed", "waiting") for job_id in await _fill(queue, stored, state, 3)}

    assert {job.id for job in await _walked(queue)} == expected


async def test_walk_passes_over_what_is_no_job(queue: Queue, stored: Stored) -> None:
    """Ids without a job, as broken clients leave them, do not end a walk."""
    (job_id,) = await _fill(queue, stored, "waiting", 1)
    stored.client.rpush(stored.key("wait"), *(f"ghost{number}" for number in range(9)))

    assert [job.id for job in await _walked(queue, "waiting", page_size=2)] == [job_id]


async def test_search_by_name_and_data(queue: Queue) -> None:
    """A search finds jobs by name, by values deep in their data, and by both; newest first (pain 42)."""
    ada = await queue.add("welcome", {"to": {"name": "ada"}, "items": [{"price": 5}], "first": True})
    await queue.add("welcome", {"to": "nobody", "first": 1})
    late = await queue.add("bye", {"to": {"name": "ada"}}, delay=60_000)
    await queue.add("bye", None)

    async def found(**wanted: Any) -> list[str]:
        result = await queue.search(**wanted)
        assert result.is_complete
        assert result.looked_at == 4
        return sorted(job.id for job in result.jobs)

    assert await found(data={"to.name": "ada"}) == [ada.id, late.id]
    assert await found(name="bye", data={"to.name": "ada"}) == [late.id]
    assert await found(data={"items.0.price": 5}) == [ada.id]
    assert await found(data={"first": True}) == [ada.id]
    assert await found(data={"to.nickname": None}) == []
    newest, *_ = (await queue.search("waiting")).jobs
    assert newest.data is None


async def test_search_by_time_and_reason(queue: Queue, stored: Stored) -> None:
    """A search finds jobs made in a span of time, and failed ones by a part of the reason."""
    moment = datetime(2026, 3, 1, tzinfo=timezone.utc)
    old = await queue.add("send", timestamp=moment)
    await queue.add("send")
    stored.finish(old.id, "failed", 1_700_000_000_000)

    assert [job.id for job in (await queue.search(until=datetime(2026, 3, 2, tzinfo=timezone.utc))).jobs] == [old.id]
    assert old.id not in [job.id for job in (await queue.search(since=moment.replace(hour=1))).jobs]
    assert [job.id for job in (await queue.search("failed", reason="n")).jobs] == [old.id]
    assert not (await queue.search("failed", reason="timeout")).jobs


async def test_search_ends_with_its_budget(queue: Queue) -> None:
    """A search looks at no more jobs than it may, finds no more than asked for, and says what ended it (pain 42)."""
    await queue.add_bulk([("send", number) for number in range(250)])

    looked = await queue.search(data={"none": 1}, max_looks=120)
    enough = await queue.search(limit=3)
    late = await queue.search(data={"none": 1}, timeout=1)

    assert (looked.ended_by, looked.looked_at, looked.jobs) == ("max_looks", 120, ())
    assert (enough.ended_by, [job.data for job in enough.jobs]) == ("limit", [249, 248, 247])
    assert late.ended_by == "timeout"
    assert late.looked_at < 250
    assert not late.is_complete


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"data": "to=ada"}, "data"),
        ({"data": {"": 1}}, "data"),
        ({"name": 5}, "name"),
        ({"since": datetime(2026, 1, 1)}, "since"),  # noqa: DTZ001  # that it has no zone is the point
        ({"limit": 0}, "limit"),
        ({"max_looks": 0}, "max_looks"),
        ({"timeout": 0}, "timeout"),
    ],
)
async def test_search_for_the_impossible(queue: Queue, wanted: dict[str, Any], field: str) -> None:
    """What cannot be searched for is refused, by the name of the argument."""
    with pytest.raises(InvalidOption) as caught:
        await queue.search(**wanted)

    assert caught.value.field == field


async def test_job_with_odd_data_is_not_found(queue: Queue, stored: Stored) -> None:
    """A job whose data another client broke does not end a search."""
    odd, good = await queue.add("send", {"n": 1}), await queue.add("send", {"n": 1})
    stored.client.hset(stored.key(odd.id), "data", "{")

    assert [job.id for job in (await queue.search(data={"n": 1})).jobs] == [good.id]
