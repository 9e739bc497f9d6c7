"""Tasks run by the worker that has no event loop."""

from typing import Annotated

import pytest

from echomq import UsageError
from echomq.tasks import INJECTED, CurrentJob, Depends, Tasks
from support.servers import Server


def greeting() -> str:
    """A plain provider."""
    return "hello"


async def awaited() -> str:
    """A provider that needs an event loop."""
    return "never"


def test_plain_tasks_run_without_a_loop(redis_server: Server, prefix: str) -> None:
    """Plain tasks run in the blocking worker with what they need, and an async provider is refused by its job."""
    tasks = Tasks(redis_server.url, prefix=prefix)

    @tasks.task(queue="emails")
    def send(to: str, job: CurrentJob = INJECTED, word: Annotated[str, Depends(greeting)] = INJECTED) -> str:
        return f"{word} {to}, {job.name}"

    @tasks.task(queue="emails")
    def wait(word: Annotated[str, Depends(awaited)] = INJECTED) -> str:
        return word

    sent, waiting = send.enqueue_sync("ada"), wait.enqueue_sync()
    tasks.worker_sync("emails", concurrency=2).run("drained")
    found = tasks.queue_sync("emails").get_job(waiting.id)

    assert tasks.queue_sync("emails").result(sent.id) == "hello ada, send"
    assert found is not None
    assert "tasks.worker" in (found.failed_reason or "")
    tasks.close_sync()


def test_async_tasks_are_refused(redis_server: Server) -> None:
    """A queue with async tasks is refused by name when its blocking worker is made."""
    tasks = Tasks(redis_server.url)

    @tasks.task(queue="emails")
    async def send(to: str) -> None: ...

    with pytest.raises(UsageError, match="send"):
        tasks.worker_sync("emails")
    with pytest.raises(UsageError, match="no task"):
        tasks.worker_sync("others")
