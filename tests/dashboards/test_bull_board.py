"""The dashboard that most users of BullMQ have, as it is, on queues that EchoMQ fills and works on."""

import asyncio
import contextlib
import urllib.error
from collections.abc import AsyncIterator
from typing import Any

import pytest

from echomq import FlowNode, FlowProducer, Job, Queue, Worker
from support.board import Board
from support.desk import happens, until
from support.servers import Server


async def _process(job: Job, ctx: Any) -> str:
    await ctx.log(f"to {job.data}")
    await ctx.progress({"percent": 100})
    if job.name == "fails" and job.attempts_started == 1:
        raise ValueError("no")
    return "sent"


@contextlib.asynccontextmanager
async def _working(server: Server, prefix: str) -> AsyncIterator[Worker]:
    async with Worker("mail", _process, server.url, prefix=prefix, name="bob") as worker:
        running = asyncio.ensure_future(worker.run())
        yield worker
        await worker.close()
        await happens(running)


async def _has(board: Board, **expected: int) -> bool:
    counts = (await board.queue("mail"))["counts"]
    return {state: counts[state] for state in expected} == expected


async def test_jobs_are_shown(board: Board, queue: Queue, redis_server: Server, prefix: str) -> None:
    """It shows how many jobs are where, and of each job data, options, result, reason, stack trace and log."""
    done = await queue.add("sent", "ada", priority=3)
    failed = await queue.add("fails", "bob")
    await happens(Worker("mail", _process, redis_server.url, prefix=prefix, drain_delay=100).run("drained"))
    await queue.add("later", delay=60_000)
    await queue.add("urgent", priority=1)
    await queue.add("next", attempts=2)

    shown = await board.queue("mail", "failed")
    [bad] = shown["jobs"]
    good = (await board.get(f"/api/queues/mail/{done.id}"))["job"]
    log = await board.get(f"/api/queues/mail/{failed.id}/logs")

    counts = {state: count for state, count in shown["counts"].items() if count}
    assert counts == {"completed": 1, "delayed": 1, "failed": 1, "prioritized": 1, "waiting": 1}
    assert (bad["id"], bad["name"], bad["data"], bad["failedReason"]) == (failed.id, "fails", "bob", "no")
    assert bad["stacktrace"][0].endswith("ValueError: no\n")
    assert (good["data"], good["returnValue"], good["progress"], good["opts"]["priority"]) == (
        *("ada", "sent", {"percent": 100}, 3),
    )
    assert log == ["to bob"]


async def test_jobs_are_changed(board: Board, queue: Queue, redis_server: Server, prefix: str) -> None:
    """A failed job retried there and a delayed one promoted there run in our worker; cleaning removes what ended."""
    failed = await queue.add("fails")
    later = await queue.add("later", delay=600_000)
    async with _working(redis_server, prefix):
        await until(lambda: _has(board, failed=1, delayed=1))
        await board.put(f"/api/queues/mail/{failed.id}/retry")
        await until(lambda: _has(board, failed=0, completed=1))
        await board.put(f"/api/queues/mail/{later.id}/promote")
        await until(lambda: _has(board, delayed=0, completed=2))
    retried = await queue.get_job(failed.id)
    assert retried is not None
    assert (retried.return_value, retried.processed_by) == ("sent", "bob")

    async def cleaned() -> bool:
        await board.put("/api/queues/mail/clean/completed")  # it spares what ended in the last seconds
        return await _has(board, completed=0)

    await until(cleaned)
    assert await queue.get_job(failed.id) is None


async def test_queue_is_paused(board: Board, queue: Queue, redis_server: Server, prefix: str) -> None:
    """Pausing and resuming there stops and starts our worker."""
    await board.put("/api/queues/mail/pause")
    assert await queue.is_paused()
    async with _working(redis_server, prefix):
        await queue.add("sent")
        assert (await board.queue("mail"))["isPaused"]
        await board.put("/api/queues/mail/resume")
        await until(lambda: _has(board, completed=1))


async def test_workers_are_shown(board: Board, redis_server: Server, prefix: str) -> None:
    """Our workers are listed by their names, and a queue without them says so."""
    assert not (await board.queue("mail"))["hasWorkers"]
    async with _working(redis_server, prefix):

        async def listed() -> bool:
            return "bob" in str(await board.get("/api/queues/mail/workers"))

        await until(listed)
        assert (await board.queue("mail"))["hasWorkers"]


async def test_schedulers(board: Board, queue: Queue) -> None:
    """Our schedulers are listed; one that is removed there is gone here."""
    await queue.upsert_job_scheduler("often", every=60_000, name="tick")

    shown = await board.get("/api/job-schedulers")
    assert "often" in str(shown)
    assert (await board.queue("mail"))["jobSchedulerCount"] == 1

    await board.put("/api/queues/mail/job-schedulers/often/remove")
    assert await queue.get_job_scheduler("often") is None


async def test_flows(board: Board, redis_server: Server, prefix: str) -> None:
    """A flow of ours is shown as a tree, over its queues."""
    tree = FlowNode(queue="mail", name="root", children=[FlowNode(queue="other", name="leaf")])
    async with FlowProducer(redis_server.url, prefix=prefix) as flows:
        added = await flows.add(tree)

    shown = str(await board.get(f"/api/queues/mail/{added.job.id}/flow"))
    assert "root" in shown
    assert "leaf" in shown
    assert (await board.queue("mail"))["counts"]["waiting-children"] == 1


@pytest.mark.parametrize("login", [None, "ada:wrong"])
async def test_login_stands_in_front(board: Board, queue: Queue, login: str | None) -> None:
    """As our page shows to set it up, nothing is shown or changed without the login (pain 58)."""
    job = await queue.add("later", delay=60_000)
    for method, path in [("GET", "/"), ("GET", "/api/queues"), ("PUT", f"/api/queues/mail/{job.id}/promote")]:
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(board.ask, method, path, login)
        refused.value.close()
        assert refused.value.code == 401

    found = await queue.get_job(job.id)
    assert found is not None
    assert found.is_delayed
