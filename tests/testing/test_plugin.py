"""The plugin of pytest, as a project of its own would use it."""

from pathlib import Path

import pytest

from support.project import play

PROJECT = """
import asyncio
import os

import pytest

import echomq
from echomq_testing import assert_enqueued, drain, sync


async def test_queue(echomq_queue):
    queue = echomq_queue("emails")
    await queue.add("welcome", {"to": "ada"})
    await assert_enqueued(queue, "welcome", {"to": "ada"}, count=1)


@pytest.mark.parametrize("n", range(4))
async def test_clean_for_each(echomq_queue, n):
    queue = echomq_queue("emails")
    assert await queue.count() == 0
    await queue.add("welcome", n)
    assert (await drain(queue, lambda job: job.data)).results == (n,)


def test_code_that_names_no_server(echomq_prefix):
    with echomq.sync.Queue("emails", prefix=echomq_prefix) as queue:
        queue.add("welcome")
        sync.assert_enqueued(queue, "welcome")


async def test_worker(echomq_queue, echomq_worker):
    queue = echomq_queue()
    echomq_worker(queue, lambda job: job.data * 2)
    assert await queue.result((await queue.add("double", 4)).id, timeout=60_000) == 8


def test_worker_without_a_loop(echomq_queue_sync, echomq_worker_sync):
    queue = echomq_queue_sync()
    echomq_worker_sync(queue, lambda job: job.data * 2)
    assert queue.result(queue.add("double", 4).id, timeout=60_000) == 8


def test_clock(echomq_queue_sync, echomq_clock):
    queue = echomq_queue_sync()
    queue.add("later", delay=3_600_000)
    echomq_clock.advance(3_600_000)
    assert len(sync.drain(queue, lambda job: 1).completed) == 1
"""

FAILING = """
import asyncio


async def test_job_fails(echomq_queue, echomq_worker):
    queue = echomq_queue("emails")

    def work(job):
        raise ValueError("no such address")

    echomq_worker(queue, work)
    await queue.add("welcome")
    while not (await queue.get_job_counts("failed"))["failed"]:
        await asyncio.sleep(0.01)


async def test_job_may_fail(echomq_queue, echomq_worker):
    queue = echomq_queue("emails")

    def work(job):
        raise ValueError("no such address")

    echomq_worker(queue, work, raises=False)
    await queue.add("welcome")
    while not (await queue.get_job_counts("failed"))["failed"]:
        await asyncio.sleep(0.01)
"""


@pytest.mark.parametrize("server", ["memory", "embedded", "auto"])
def test_project(tmp_path: Path, server: str) -> None:
    """The fixtures serve a project on each kind of server, and leave no warning."""
    done = play(tmp_path, PROJECT, f"--echomq-server={server}")

    assert "9 passed" in done.stdout, done.stdout + done.stderr


def test_side_by_side(tmp_path: Path) -> None:
    """Tests in several processes do not see each other's jobs, on one server of their own or on a shared one."""
    from echomq_testing import start_server

    with start_server("embedded") as server:
        done = play(tmp_path, PROJECT, "-n", "2", f"--echomq-server={server.url}")

    assert "9 passed" in done.stdout, done.stdout + done.stderr


def test_failure_of_a_job_fails_the_test(tmp_path: Path) -> None:
    """A job that fails in a worker of a test fails that test, and names the job; unless it may fail."""
    done = play(tmp_path, FAILING, "--echomq-server=memory")

    assert "2 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert "job 1 'welcome' of queue 'emails': ValueError('no such address')" in done.stdout


def test_wrong_server(tmp_path: Path) -> None:
    """A server that there is not is refused with those that there are."""
    done = play(tmp_path, PROJECT, "--echomq-server=redis", "-k", "test_clock")

    assert "expected auto, memory, embedded, container or a URL, not 'redis'" in done.stdout
