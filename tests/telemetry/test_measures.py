"""What is counted and timed, and what is observed of queues."""

import asyncio
import logging
from typing import Any

import pytest

import echomq
from echomq import Backoff, Job, Wait, WaitForChildren
from echomq_opentelemetry import QueueGauges
from support.desk import happens
from support.servers import Server
from support.shells import Shell
from support.telemetry import Exported


async def _worked(url: str, prefix: str, process: Any, **options: Any) -> None:
    await happens(echomq.Worker("mail", process, url, prefix=prefix, drain_delay=100, **options).run("drained"))


async def test_counters(exported: Exported, redis_server: Server, prefix: str) -> None:
    """What becomes of attempts is counted and timed by queue, name and state, and adds are counted."""

    async def process(job: Job, ctx: Any) -> None:
        first = job.attempts_started == 1
        if job.name == "fails":
            raise ValueError("no")
        if job.name == "waits" and first:
            raise Wait
        if job.name == "parent" and first:
            await ctx.add_child("child", queue="other")
            raise WaitForChildren

    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add_bulk([("waits", 1), ("parent", 1)])
        await queue.add("fails", attempts=3, backoff=Backoff("fixed", 1))
    await _worked(redis_server.url, prefix, process)

    def counted(fate: str) -> dict[str, int]:
        return {labels[0]: value for labels, value in exported.measured(f"bullmq.jobs.{fate}").items()}

    assert counted("completed") == {"waits": 1}
    assert counted("waiting") == {"waits": 1}
    assert counted("waiting_children") == {"parent": 1}
    assert (counted("delayed"), counted("failed")) == ({"fails": 2}, {"fails": 1})
    assert exported.measured("bullmq.job.duration") == {
        ("waits", "waiting", "mail"): 1,
        ("waits", "completed", "mail"): 1,
        ("parent", "waiting_children", "mail"): 1,
        ("fails", "delayed", "mail"): 2,
        ("fails", "failed", "mail"): 1,
    }
    sent = exported.measured("messaging.client.sent.messages")
    assert {labels[0]: value for labels, value in sent.items()} == {"mail": 3, "other": 1}


async def test_names_are_bounded(exported: Exported, redis_server: Server, prefix: str) -> None:
    """However many names jobs have, measurements tell only so many apart."""
    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add_bulk([(f"job-{number}", None) for number in range(20)])
    await _worked(redis_server.url, prefix, lambda _: None, concurrency=1)

    counted = {labels[0]: value for labels, value in exported.measured("bullmq.jobs.completed").items()}
    assert counted == {"job-0": 1, "job-1": 1, "job-2": 1, "other": 17}


async def test_gauges(exported: Exported, shell: Shell, server: Server, prefix: str) -> None:
    """Jobs by state and the age of the oldest waiting one are read from the server when measurements are exported."""
    async with shell.queue("mail", server.url, prefix=prefix) as queue:
        await queue.add("sent", timestamp=1_700_000_000_000)
        await queue.add("later", delay=60_000)
        with QueueGauges(["mail", "idle"], server.url, prefix=prefix, meter_provider=exported.meter_provider):
            jobs = await asyncio.to_thread(exported.measured, "bullmq.queue.jobs")
            waits = await asyncio.to_thread(exported.measured, "echomq.queue.oldest_waiting")
        closed = await asyncio.to_thread(exported.measured, "bullmq.queue.jobs")

    assert {labels: count for labels, count in jobs.items() if count} == {
        ("waiting", "mail"): 1,
        ("delayed", "mail"): 1,
    }
    assert len(jobs) == 14
    assert waits[("idle",)] == 0
    assert waits[("mail",)] > 1_000
    assert closed == {}


async def test_gauges_in_an_outage(
    exported: Exported, redis_server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """While the server is away nothing is told of queues, which is logged once, and then all is told again."""
    url = f"{redis_server.url}?deadline_ms=1500"
    with QueueGauges(["mail"], url, prefix=prefix, meter_provider=exported.meter_provider) as gauges:
        redis_server.stop()
        with caplog.at_level(logging.WARNING, "echomq.opentelemetry"):
            away = [await asyncio.to_thread(exported.measured, "bullmq.queue.jobs") for _ in range(2)]
        redis_server.restart()
        again = await asyncio.to_thread(exported.measured, "bullmq.queue.jobs")
    gauges.close()

    assert away == [{}, {}]
    assert [record.message.partition(":")[0] for record in caplog.records] == ["queues cannot be observed now"]
    assert len(again) == 7
