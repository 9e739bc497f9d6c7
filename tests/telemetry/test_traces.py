"""Spans of adding and processing, and how traces go on from one to the other."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import trace

import echomq
import echomq.sync
from echomq import Backoff, Delay, FlowNode, Job, ParentNotFound
from support.desk import happens
from support.servers import Server
from support.shells import Shell
from support.telemetry import Exported, Span

RUNS = ["loop", "thread", "group", "blocking"]
"""Where jobs of these tests run."""


async def work(how: str, url: str, prefix: str, function: Callable[[Job], Any], **options: Any) -> None:
    """Run the jobs of the queue ``mail`` until none is left."""

    async def on_the_loop(job: Job) -> Any:
        return function(job)

    settings = {"prefix": prefix, "drain_delay": 100, **options}
    if how == "blocking":
        blocking = echomq.sync.Worker("mail", function, url, **settings)
        await happens(asyncio.to_thread(blocking.run, "drained"))
    elif how == "group":
        group = echomq.WorkerGroup({"mail": on_the_loop}, url, **settings)
        await happens(group.run("drained"))
    else:
        worker = echomq.Worker("mail", on_the_loop if how == "loop" else function, url, **settings)
        await happens(worker.run("drained"))


def stored(job: Job | None) -> list[str]:
    """Trace and span that a job carries."""
    assert job is not None
    carried = json.loads(job.options.telemetry_metadata or "{}")
    return str(carried["traceparent"]).split("-")[1:3]


def carries(span: Span) -> list[str]:
    """What a job of that span must carry."""
    return [span.trace, span.id]


@pytest.mark.parametrize("how", RUNS)
async def test_from_producer_to_worker(
    exported: Exported, shell: Shell, redis_server: Server, prefix: str, how: str
) -> None:
    """A job's attempt belongs to the trace of the code that added it, and what the job adds goes on from there."""
    url, inside = redis_server.url, []

    def process(_: Job) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    async with shell.queue("mail", url, prefix=prefix) as queue:
        with exported.tracer.start_as_current_span("request"):
            job = await queue.add("welcome", {"secret": 1})
        read = await queue.get_job(job.id)
    await work(how, url, prefix, process, name="ada")

    request, added, processed = (exported.span(name) for name in ("request", "add", "process"))
    assert (added.name, added.kind, added.trace, added.parent) == (
        *("add mail.welcome", "PRODUCER", request.trace, request.id),
    )
    assert (processed.name, processed.kind, processed.trace, processed.parent) == (
        *("process mail", "CONSUMER", request.trace, added.id),
    )
    assert inside == [int(processed.id, 16)]
    assert stored(read) == carries(added)
    common = {
        "messaging.system": "bullmq",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "bullmq.queue.name": "mail",
        "bullmq.job.name": "welcome",
        "bullmq.job.id": job.id,
    }
    assert added.attributes == {
        **common,
        "messaging.operation.name": "add",
        "messaging.operation.type": "send",
        "bullmq.queue.operation": "add",
    }
    told = dict(processed.attributes)
    assert told.pop("bullmq.job.processed.timestamp") > 1_700_000_000_000
    assert told == {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "bullmq.queue.operation": "process",
        "bullmq.job.attempts.made": 1,
        "bullmq.worker.name": "ada",
        "bullmq.job.state": "completed",
    }
    assert (processed.status, processed.events) == ("UNSET", ("job completed",))
    assert "secret" not in str(exported.spans())


async def test_bulk_and_flow_are_one_span(exported: Exported, shell: Shell, redis_server: Server, prefix: str) -> None:
    """A bulk and a flow are one span each, and all their jobs go on from it."""
    url = redis_server.url
    async with shell.queue("mail", url, prefix=prefix) as queue:
        jobs = [await queue.get_job(job.id) for job in await queue.add_bulk([("a", 1), ("b", 2)])]
        jobs += [
            await queue.get_job(job.id)
            for job in await shell.add_bulk("mail", [("c", 1)], connection=url, prefix=prefix)
        ]
        producer: Any = shell.flows(url, prefix=prefix)
        tree = await producer.add(FlowNode(queue="mail", name="root", children=[FlowNode(queue="mail", name="leaf")]))
        await producer.close()
        flow = [await queue.get_job(job.id) for job in tree.jobs()]

    first, second, third = exported.spans()
    assert (first.name, first.kind) == ("addBulk mail", "PRODUCER")
    assert first.attributes["bullmq.job.bulk.names"] == ("a", "b")
    assert first.attributes["messaging.batch.message_count"] == 2
    assert [stored(job) for job in jobs] == [carries(first), carries(first), carries(second)]
    assert (third.name, third.attributes["bullmq.flow.name"]) == ("addFlow mail", "root")
    assert [stored(job) for job in flow] == [carries(third)] * 2


async def test_children_added_by_a_job(exported: Exported, redis_server: Server, prefix: str) -> None:
    """What a running job adds belongs to its attempt."""

    async def process(_: Job, ctx: Any) -> None:
        await ctx.add_child("leaf", queue="other")

    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add("root")
    worker = echomq.Worker("mail", process, redis_server.url, prefix=prefix, drain_delay=100)
    await happens(worker.run("drained"))

    attempt, child = exported.span("process mail"), exported.span("add other.leaf")
    assert (child.trace, child.parent) == (attempt.trace, attempt.id)


async def test_scheduler(exported: Exported, shell: Shell, redis_server: Server, prefix: str) -> None:
    """The upsert of a scheduler is a span; each of its jobs begins a trace of its own."""
    async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
        made = await queue.upsert_job_scheduler("often", every=3_600_000, limit=1)
        assert made is not None
    await work("loop", redis_server.url, prefix, lambda _: None)

    upsert, processed = exported.span("add mail.often"), exported.span("process mail")
    assert upsert.attributes["bullmq.job.scheduler.id"] == processed.attributes["bullmq.job.scheduler.id"] == "often"
    assert upsert.attributes["bullmq.job.id"] == made.id
    assert (processed.parent, processed.trace != upsert.trace) == (None, True)


async def test_scheduler_with_a_context(exported: Exported, shell: Shell, redis_server: Server, prefix: str) -> None:
    """A context that is given to a scheduler is carried by each of its jobs, as by those of Node's schedulers."""
    carried = json.dumps({"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
    async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.upsert_job_scheduler("often", every=1, limit=3, options={"telemetry_metadata": carried})
    await work("loop", redis_server.url, prefix, lambda _: None)

    processed = exported.spans("process mail")
    assert [(span.trace, span.parent) for span in processed] == [("a" * 32, "b" * 16)] * 3


@pytest.mark.parametrize("how", RUNS)
async def test_attempts(exported: Exported, redis_server: Server, prefix: str, how: str) -> None:
    """Each attempt is a span in the same trace, and tells whether the job failed, runs again, or put itself off."""

    def process(job: Job) -> None:
        if job.attempts_started == 1:
            raise Delay(1)
        if job.attempts_made < 3:
            raise ValueError("not yet")

    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add("again", attempts=3, backoff=Backoff("fixed", 1))
        await queue.add("at once", attempts=2)
    await work(how, redis_server.url, prefix, process)

    spans = exported.spans("process")
    told: dict[str, list[tuple[Any, ...]]] = {}
    for span in spans:
        name = span.attributes["bullmq.job.name"]
        seen = (span.attributes["bullmq.job.state"], span.status, span.attributes.get("error.type"), span.events)
        told.setdefault(name, []).append(seen)
        assert span.parent == exported.span(f"add mail.{name}").id
    failure = ("ERROR", "ValueError", ("exception", "job failed"))
    off = ("delayed", "UNSET", None, ())
    assert told["again"] == [off, ("delayed", *failure), ("delayed", *failure), ("failed", *failure)]
    assert told["at once"] == [off, ("retried", *failure), ("failed", *failure)]


async def test_context_is_the_producers_choice(
    exported: Exported, shell: Shell, redis_server: Server, prefix: str
) -> None:
    """A job takes no context along if its producer does not want that, and keeps one that was given by hand."""
    async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
        left = await queue.add("left", omit_context=True)
        kept = await queue.add("kept", telemetry_metadata='{"traceparent":"00-' + "1" * 32 + "-" + "2" * 16 + '-01"}')
        bad = await queue.add("bad", telemetry_metadata="no JSON")
        odd = await queue.add("odd", telemetry_metadata='{"traceparent":[1]}')
        found = [
            (job.options.telemetry_metadata, job.options.omit_context)
            for job in [await queue.get_job(one.id) for one in (left, kept, bad, odd)]
            if job
        ]
    await work("loop", redis_server.url, prefix, lambda _: None)

    assert found[0] == (None, True)
    assert [text for text, _ in found[2:]] == ["no JSON", '{"traceparent":[1]}']
    by_name = {span.attributes["bullmq.job.name"]: span for span in exported.spans("process")}
    assert by_name["left"].trace not in {span.trace for span in exported.spans("add")}
    assert (by_name["kept"].trace, by_name["kept"].parent) == ("1" * 32, "2" * 16)
    assert by_name["bad"].parent is by_name["odd"].parent is None


async def test_failed_adds(exported: Exported, shell: Shell, redis_server: Server, prefix: str) -> None:
    """An add that fails ends its span with the error, and the caller gets that error as ever."""
    parent: Any = {"id": "none", "queue": f"{prefix}:mail"}
    async with shell.queue("mail", redis_server.url, prefix=prefix) as queue:
        with pytest.raises(ParentNotFound):
            await queue.add("child", parent=parent)
        with pytest.raises(echomq.EchoMQError):
            await queue.add_bulk([("child", 1, {"parent": parent})])

    single, bulk = exported.spans()
    assert (single.status, single.attributes["error.type"]) == ("ERROR", "ParentNotFound")
    assert (bulk.name, bulk.status, bulk.attributes["error.type"]) == ("addBulk mail", "ERROR", "BulkAddFailed")


async def test_cancelled_job(exported: Exported, redis_server: Server, prefix: str) -> None:
    """An attempt that is cut off by its limit of time ends its span, which says so."""

    async def process(_: Job) -> None:
        await asyncio.sleep(60)

    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as queue:
        await queue.add("long", timeout=50)
    worker = echomq.Worker("mail", process, redis_server.url, prefix=prefix, drain_delay=100)
    await happens(worker.run("drained"))

    span = exported.span("process")
    assert (span.attributes["bullmq.job.state"], span.status) == ("cancelled", "ERROR")
    assert list(exported.measured("bullmq.jobs.failed").values()) == [1]


async def test_fetched_by_hand(exported: Exported, redis_server: Server, prefix: str) -> None:
    """A job that is fetched by hand has a span from its take to its end."""
    async with (
        echomq.Queue("mail", redis_server.url, prefix=prefix) as queue,
        echomq.Worker("mail", None, redis_server.url, prefix=prefix) as worker,
    ):
        await queue.add("welcome")
        fetched = await happens(worker.fetch())
        assert not exported.spans("process")
        await fetched.complete("done")

    assert exported.span("process").attributes["bullmq.job.state"] == "completed"
    assert exported.span("process").parent == exported.span("add").id
