"""Checks on what is enqueued: what passes, and what a failure says."""

from collections.abc import Callable
from datetime import timedelta
from unittest.mock import ANY

import pytest

from echomq import Backoff
from echomq.errors import UsageError
from echomq_testing import assert_enqueued, assert_not_enqueued, drain, sync
from echomq_testing.plugin import NewQueue, NewQueueSync


async def said(check: Callable[..., object], *args: object, **options: object) -> str:
    """What a check that fails says."""
    with pytest.raises(AssertionError) as caught:
        await check(*args, **options)  # type: ignore[misc]  # both checks are awaited
    return str(caught.value)


async def test_enqueued(echomq_queue: NewQueue) -> None:
    """A job is found by its name, data and options, whichever of them are given."""
    queue = echomq_queue("emails")
    job = await queue.add("welcome", {"to": "ada", "at": 17}, delay=60_000, attempts=3, backoff=Backoff("fixed", 5))

    for found in (
        await assert_enqueued(queue, "welcome"),
        await assert_enqueued(queue, "welcome", {"to": "ada", "at": 17}),
        await assert_enqueued(queue, "welcome", {"to": "ada", "at": ANY}, delay=timedelta(minutes=1)),
        await assert_enqueued(queue, "welcome", attempts=3, backoff={"type": "fixed", "delay": 5}, job_id=job.id),
        await assert_enqueued(queue, "welcome", count=1),
    ):
        assert [one.id for one in found] == [job.id]
    await assert_not_enqueued(queue, "goodbye")
    await assert_not_enqueued(queue, "welcome", {"to": "bob"})
    await assert_not_enqueued(queue, "welcome", delay=0)


async def test_says_what_differs(echomq_queue: NewQueue) -> None:
    """Where no job fits, the message shows in what the nearest ones differ, and nothing that is as expected."""
    queue = echomq_queue("emails")
    await queue.add("welcome", {"to": "bob"})
    await queue.add("welcome", {"to": "ada"}, priority=7)

    text = await said(assert_enqueued, queue, "welcome", {"to": "ada"}, priority=3)

    assert text == (
        "no job is like 'welcome' in queue 'emails' with data={'to': 'ada'}, priority=3\n"
        "  job 2, prioritized\n"
        "    priority: expected 3, seen 7\n"
        "  job 1, waiting\n"
        "    data: expected {'to': 'ada'}\n"
        "          seen     {'to': 'bob'}\n"
        "    priority: expected 3, seen 0"
    )


async def test_long_data_as_a_diff(echomq_queue: NewQueue) -> None:
    """Long data is compared line by line, with the lines that are the same as they are."""
    queue = echomq_queue()
    data = {f"field {n}": "x" * 20 for n in range(6)}
    await queue.add("save", {**data, "field 3": "other"})

    lines = (await said(assert_enqueued, queue, "save", data)).splitlines()

    assert [line.strip() for line in lines if line.strip().startswith(("-", "+"))] == [
        "-  'field 3': 'xxxxxxxxxxxxxxxxxxxx',",
        "+  'field 3': 'other',",
    ]


async def test_says_what_is_there(echomq_queue: NewQueue) -> None:
    """Where the name does not exist, the message names those that do, and the likely one."""
    queue = echomq_queue("emails")
    assert (await said(assert_enqueued, queue, "welcom")).endswith("the queue has no jobs that have not ended")
    await queue.add("welcome")
    await queue.add("report")

    text = await said(assert_enqueued, queue, "welcom")

    assert "jobs there are called 'report', 'welcome'" in text
    assert "did you mean 'welcome'?" in text


async def test_counts(echomq_queue: NewQueue) -> None:
    """A number of jobs is met exactly."""
    queue = echomq_queue("emails")
    await queue.add_bulk([("welcome", {"n": n}) for n in range(3)])

    assert len(await assert_enqueued(queue, "welcome", count=3)) == 3
    assert (await said(assert_enqueued, queue, "welcome", count=2)).startswith("3 jobs are like 'welcome'")
    assert await assert_enqueued(queue, "report", count=0) == []
    assert (await said(assert_not_enqueued, queue, "welcome", {"n": 1})).endswith("job 2, waiting: {'n': 1}")


async def test_ended_jobs_do_not_count(echomq_queue: NewQueue) -> None:
    """A job that has completed or failed is enqueued no more."""
    queue = echomq_queue()
    await queue.add("welcome")
    await drain(queue, lambda _job: None)

    await assert_not_enqueued(queue, "welcome")


async def test_wrong_option(echomq_queue: NewQueue) -> None:
    """A misspelt option is refused, not passed over."""
    with pytest.raises(UsageError, match="delay"):
        await assert_enqueued(echomq_queue(), "welcome", dealy=5)  # type: ignore[call-arg]


def test_without_a_loop(echomq_queue_sync: NewQueueSync) -> None:
    """The twins do the same."""
    queue = echomq_queue_sync("emails")
    queue.add("welcome", {"to": "ada"}, priority=5)

    assert len(sync.assert_enqueued(queue, "welcome", {"to": "ada"}, priority=5)) == 1
    sync.assert_not_enqueued(queue, "goodbye")
    with pytest.raises(AssertionError, match="expected none"):
        sync.assert_not_enqueued(queue, "welcome")
