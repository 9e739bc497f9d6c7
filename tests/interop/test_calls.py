"""Calls and a connection are enough to share a queue with Node: no queue object, no worker object."""

import time
from collections.abc import AsyncIterator

import pytest

from echomq.aio.connecting import connect
from echomq.calls.add import add_job
from echomq.calls.change import add_log, update_progress
from echomq.calls.fetch import Take, move_to_active
from echomq.calls.finish import complete, fail, retry_job
from echomq.calls.query import get_job, get_logs
from echomq.driver import AsyncConnection
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import job_options
from support.peer import Peer, PeerObject
from support.servers import Server

TAKE = Take(token="one", lock_ms=30_000, worker_name="by-hand")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
async def connection(server: Server) -> AsyncIterator[AsyncConnection]:
    """A connection to the server of the test."""
    opened = connect(server.url)
    yield opened
    await opened.close()


@pytest.fixture
def keys(prefix: str) -> Keys:
    """Names of the keys of the queue ``mail``."""
    return Keys("mail", prefix)


async def _taken(connection: AsyncConnection, keys: Keys) -> Job:
    taken = await connection.send(move_to_active(keys, TAKE, _now_ms()))
    assert taken.job is not None
    return taken.job


async def test_job_of_node_is_done_by_hand(
    node: Peer, events: PeerObject, connection: AsyncConnection, keys: Keys
) -> None:
    """A job that Node added can be taken, told about and completed by single calls."""
    queue = await node.open("Queue", "mail")
    added = await queue.call("add", "welcome", {"to": "ada"}, {"attempts": 3})

    job = await _taken(connection, keys)
    await connection.send(update_progress(keys, job.id, {"half": True}))
    await connection.send(add_log(keys, job.id, "greeted"))
    await connection.send(complete(job, '{"sent":1}', take=TAKE, keep=None, fetch=False, now_ms=_now_ms()))

    assert (job.id, job.name, job.data, job.options.attempts) == (added["id"], "welcome", {"to": "ada"}, 3)
    [[heard, *_]] = await events.until_emitted("completed")
    assert heard == {"jobId": job.id, "returnvalue": {"sent": 1}, "prev": "active"}
    seen = await queue.call("getJob", job.id)
    assert (seen["returnvalue"], seen["progress"], seen["processedBy"]) == ({"sent": 1}, {"half": True}, "by-hand")
    assert (await queue.call("getJobLogs", job.id))["logs"] == ["greeted"]


async def test_node_retries_what_was_given_back(
    node: Peer, events: PeerObject, connection: AsyncConnection, keys: Keys
) -> None:
    """An attempt that failed by single calls leaves a job that Node takes up again and completes."""
    queue = await node.open("Queue", "mail")
    await queue.call("add", "welcome", {"returns": "second try"}, {"attempts": 2})

    job = await _taken(connection, keys)
    await connection.send(
        retry_job(job, token=TAKE.token, now_ms=_now_ms(), reason="no luck", stacktrace=["Error: no luck"])
    )
    await node.open("Worker", "mail")
    await events.until_emitted("completed")

    seen = await queue.call("getJob", job.id)
    assert (seen["returnvalue"], seen["attemptsMade"], seen["stacktrace"]) == ("second try", 2, ["Error: no luck"])


async def test_failed_job_is_retried_from_node(
    node: Peer, events: PeerObject, connection: AsyncConnection, keys: Keys
) -> None:
    """Node reads why a job failed, sends it back to wait, and completes it."""
    queue = await node.open("Queue", "mail")
    await queue.call("add", "welcome", {"returns": "mended"})
    job = await _taken(connection, keys)
    await connection.send(
        fail(job, "no luck", stacktrace=["Error: no luck"], take=TAKE, keep=None, fetch=False, now_ms=_now_ms())
    )

    [[heard, *_]] = await events.until_emitted("failed")
    await queue.of_job(job.id, "retry")
    await node.open("Worker", "mail")
    await events.until_emitted("completed")

    assert heard == {"jobId": job.id, "failedReason": "no luck", "prev": "active"}
    assert (await queue.call("getJob", job.id))["returnvalue"] == "mended"


async def test_node_does_a_job_added_by_a_call(
    node: Peer, events: PeerObject, connection: AsyncConnection, keys: Keys
) -> None:
    """Jobs added by single calls are done by Node in the order of their priorities, and read back by single calls."""
    added = []
    for name, priority in (("b", 5), ("a", 1), ("c", 9)):
        plan = {"returns": name, "logs": [name], "progress": [priority]}
        job = Job.from_options(keys, name, plan, job_options(priority=priority), _now_ms())
        added.append(await connection.send(add_job(job)))

    await node.open("Worker", "mail")
    done = await events.until_emitted("completed", 3)

    assert [args[0]["returnvalue"] for args in done] == ["a", "b", "c"]
    job_read = await connection.send(get_job(keys, added[0]))
    assert job_read is not None
    assert (job_read.return_value, job_read.progress, job_read.attempts_made) == ("b", 5, 1)
    assert await connection.send(get_logs(keys, added[0])) == ["b"]
