"""Layers of plugins around bulks, flows and upserts of schedulers, on a real server."""

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from echomq import FlowNode, Job, UsageError, plugins
from echomq.errors import BulkAddFailed
from echomq.hookspecs import hookimpl
from echomq.middleware import Middleware, Operation
from support.desk import at_desk, happens
from support.servers import Server
from support.shells import SHELLS, Shell


class Watching:
    """A plugin that only watches operations."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int, object]] = []

    @hookimpl
    def echomq_register_middleware(self) -> Middleware:
        """Bring a layer."""
        return Middleware(around_operation=self._watch)

    def _watch(self, operation: Operation) -> Generator[None, Any, None]:
        queue = operation.keys.queue
        try:
            made = yield
        except Exception as error:
            self.seen.append((operation.name, queue, len(operation.jobs), type(error)))
            raise
        ids = [job.id for job in made] if isinstance(made, list) else operation.scheduler_id
        self.seen.append((operation.name, queue, len(operation.jobs), ids))


@pytest.fixture
def watching() -> Iterator[Watching]:
    """The plugin, for the length of a test."""
    plugin = Watching()
    plugins.register(plugin, "watching")
    yield plugin
    plugins.unregister("watching")


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]


async def test_operations_are_seen(watching: Watching, shell: Shell, redis_server: Server, prefix: str) -> None:
    """A plugin sees each bulk, flow and upsert as one operation, with what it gave, in both shells; no single add."""
    url = redis_server.url
    async with shell.queue("mail", url, prefix=prefix) as queue:
        await queue.add("one")
        await queue.add_bulk([("two", 1), ("three", 2)])
        await queue.add_bulk([])
        await shell.add_bulk("mail", [("four", 1)], connection=url, prefix=prefix)
        await queue.upsert_job_scheduler("often", every=60_000)
        with pytest.raises(UsageError):
            await queue.upsert_job_scheduler("never")
        with pytest.raises(BulkAddFailed):
            await queue.add_bulk([("child", 1, {"parent": {"id": "none", "queue": f"{prefix}:mail"}})])
    producer: Any = shell.flows(url, prefix=prefix)
    await producer.add(FlowNode(queue="last", name="root", children=[FlowNode(queue="mail", name="first")]))
    await producer.close()

    assert watching.seen == [
        ("add_bulk", "mail", 2, ["2", "3"]),
        ("add_bulk", "mail", 1, ["4"]),
        ("upsert_job_scheduler", "mail", 0, "often"),
        ("add_bulk", "mail", 1, BulkAddFailed),
        ("add_flow", "last", 2, None),
    ]


def processed(job: Job) -> str:
    """What runs in a child process."""
    return f"{job.name} is done"


async def test_plugin_that_fails_for_a_child(
    redis_server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A plugin that cannot say what to hand to a child process is reported by its name, and the job runs."""

    class Failing:
        @hookimpl
        def echomq_register_middleware(self) -> Middleware:
            return Middleware(for_child=lambda: str(1 / 0))

    plugins.register(Failing(), "failing")
    try:
        async with at_desk(redis_server.url, prefix) as desk:
            job_id = await desk.add()
            await happens(desk.worker(processed, run_in="process", drain_delay=100).run("drained"))
            job = await desk.job(job_id)
    finally:
        plugins.unregister("failing")

    assert job.return_value == "work is done"
    assert "plugin 'failing': for_child raised ZeroDivisionError" in caplog.text
