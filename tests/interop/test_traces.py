"""A trace goes with its job from producer to worker, through the field of the contract, by a plugin's layers."""

from collections.abc import Generator, Iterator
from typing import Any

import attrs
import pytest

from echomq import Queue, Worker, plugins
from echomq.hookspecs import hookimpl
from echomq.job import Job
from echomq.middleware import Middleware
from support.desk import happens
from support.peer import PeerObject
from support.servers import Server


class Tracing:
    """A plugin that carries a context, as one for OpenTelemetry would."""

    def __init__(self) -> None:
        self.continued: list[str | None] = []

    @hookimpl
    def echomq_register_middleware(self) -> Middleware:
        """Bring layers."""
        return Middleware(around_add=self.inject, around_processing=self.extract)

    def inject(self, job: Job) -> Generator[Job, Job, None]:
        """Begin a span of the producer."""
        yield attrs.evolve(
            job, given_options=attrs.evolve(job.options, telemetry_metadata='{"traceparent":"00-1-2-01"}')
        )

    def extract(self, job: Job) -> Generator[Job, Any, None]:
        """Go on with it in the worker."""
        self.continued.append(job.options.telemetry_metadata)
        yield job


@pytest.fixture
def tracing() -> Iterator[Tracing]:
    """The plugin, for the length of a test."""
    plugin = Tracing()
    plugins.register(plugin, "tracing")
    yield plugin
    plugins.unregister("tracing")


async def test_trace_crosses_runtimes(events: PeerObject, server: Server, prefix: str, tracing: Tracing) -> None:
    """Node reads the context that a plugin adds to our jobs, and a plugin in our worker that of Node's (pain 40)."""
    theirs = await events.peer.open("Queue", "mail")
    async with Queue("mail", server.url, prefix=prefix) as ours:
        mine = await ours.add("welcome")
    await theirs.call("add", "welcome", {}, {"telemetry": {"metadata": "of Node"}})
    async with Worker("mail", lambda _: None, server.url, prefix=prefix) as worker:
        await happens(worker.run(until="drained"))

    seen = await theirs.call("getJob", mine.id)
    assert seen["opts"]["telemetry"]["metadata"] == '{"traceparent":"00-1-2-01"}'
    assert tracing.continued == ['{"traceparent":"00-1-2-01"}', "of Node"]
