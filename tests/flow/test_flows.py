"""Flows: trees of jobs are added whole or not at all, run children first, and show what holds them up."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from echomq import (
    FlowFailed,
    FlowNode,
    FlowProducer,
    InvalidOption,
    Job,
    JobFailed,
    JobNotFound,
    JobState,
    ParentConflict,
    ParentNotFound,
    Queue,
    Unrecoverable,
    UsageError,
    WaitForChildren,
    Worker,
    chain,
)
from echomq.aio.context import Context
from echomq.calls.family import DependencyCounts
from support.blocking import Awaited
from support.desk import happens, until
from support.servers import Server, Servers
from support.shells import Shell


def node(name: str, *children: FlowNode, **options: Any) -> FlowNode:
    """A job of the queue ``mail``."""
    return FlowNode(queue="mail", name=name, data=name, options=options, children=children)


async def work(job: Job) -> Any:
    """Do what the name says."""
    if job.name.startswith("fail"):
        raise Unrecoverable(f"no {job.name}")
    return job.name


@contextlib.asynccontextmanager
async def working(server: Server, prefix: str, processor: Any = work) -> AsyncIterator[Worker]:
    """A worker of the queue."""
    async with Worker("mail", processor, server.url, prefix=prefix) as worker:
        running = asyncio.create_task(worker.run())
        yield worker
        await worker.close()
        await running


def ended(job: Job, queue: Queue) -> Any:
    """A question whether a job is in a state."""

    async def is_ended() -> bool:
        return (await queue.get_job_state(job.id)).is_finished

    return is_ended


async def test_parent_runs_after_its_children(flows: FlowProducer, queue: Queue, server: Server, prefix: str) -> None:
    """A parent runs when all its children completed, and finds their results."""
    tree = await flows.add(node("report", node("one"), node("two", node("leaf"))))
    assert await queue.get_job_state(tree.job.id) is JobState.WAITING_CHILDREN
    assert [job.name for job in tree.jobs()] == ["report", "one", "two", "leaf"]

    async with working(server, prefix):
        assert await happens(queue.result(tree.job.id)) == "report"

    one, two = tree.children
    assert await queue.get_children_values(tree.job.id) == {one.job.key: "one", two.job.key: "two"}
    assert await queue.get_dependency_counts(tree.job.id) == DependencyCounts(
        processed=2, unprocessed=0, ignored=0, failed=0
    )


async def _sum_of_parts(job: Job, ctx: Context) -> Any:
    return sum((await ctx.get_children_values()).values()) if job.name == "sum" else job.data


def _plain_sum_of_parts(job: Job, ctx: Any) -> Any:
    return sum(ctx.get_children_values().values()) if job.name == "sum" else job.data


CHILDREN_READERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "coroutine": (Worker, _sum_of_parts, {}),
    "thread": (Worker, _plain_sum_of_parts, {}),
    "process": (Worker, _plain_sum_of_parts, {"run_in": "process"}),
    "coroutine in a process": (Worker, _sum_of_parts, {"run_in": "process"}),
    "blocking": (Awaited, _plain_sum_of_parts, {}),
}
"""How a job runs -> class of its worker, processor, and options."""


@pytest.mark.parametrize("how", CHILDREN_READERS)
async def test_parent_reads_its_children_by_its_context(
    flows: FlowProducer, queue: Queue, server: Server, prefix: str, how: str
) -> None:
    """A parent finds the results of its children through ``ctx``, wherever it runs; one without children finds none."""
    make, processor, options = CHILDREN_READERS[how]
    parts = [FlowNode(queue="mail", name="part", data=number) for number in (1, 2)]
    tree = await flows.add(FlowNode(queue="mail", name="sum", children=parts))
    alone = await queue.add("sum")

    await make("mail", processor, server.url, prefix=prefix, **options).run(until="drained")

    assert await queue.result(tree.job.id) == 3
    assert await queue.result(alone.id) == 0


async def test_bulk(flows: FlowProducer, queue: Queue) -> None:
    """Several flows are added at once, and no flow at all is no error."""
    trees = await flows.add_bulk([node("a", node("b")), node("c")])

    assert [tree.job.name for tree in trees] == ["a", "c"]
    assert await queue.get_job_counts("waiting", "waiting-children") == {
        JobState.WAITING: 2,
        JobState.WAITING_CHILDREN: 1,
    }
    assert await flows.add_bulk([]) == []


@pytest.mark.parametrize(
    ("policy", "state", "counts"),
    [
        ("fail_parent_on_failure", JobState.FAILED, (0, 0, 0, 1)),
        ("continue_parent_on_failure", JobState.COMPLETED, (0, 0, 1, 0)),
        ("ignore_dependency_on_failure", JobState.COMPLETED, (0, 0, 1, 0)),
        ("remove_dependency_on_failure", JobState.COMPLETED, (0, 0, 0, 0)),
    ],
)
async def test_failure_policies(
    flows: FlowProducer,
    queue: Queue,
    server: Server,
    prefix: str,
    policy: str,
    state: JobState,
    counts: tuple[int, int, int, int],
) -> None:
    """A child that fails does to its parent what its policy says, as with Node (pains 48 and 49)."""
    tree = await flows.add(node("report", node("fail", **{policy: True})))
    async with working(server, prefix):
        with contextlib.suppress(JobFailed):
            await happens(queue.result(tree.job.id))

    assert await queue.get_job_state(tree.job.id) is state
    found = await queue.get_dependency_counts(tree.job.id)
    assert (found.processed, found.unprocessed, found.ignored, found.failed) == counts
    child = tree.children[0].job
    ignored = {child.key: "no fail"} if counts[2] else {}
    assert await queue.get_ignored_failures(tree.job.id) == ignored
    if state is JobState.FAILED:
        parent = await queue.get_job(tree.job.id)
        assert parent is not None
        assert parent.failed_reason == f"child {child.key} failed"


async def test_failed_child_without_a_policy(flows: FlowProducer, queue: Queue, server: Server, prefix: str) -> None:
    """A parent whose child failed without a policy waits; its view says why and what helps (pain 48)."""
    tree = await flows.add(node("report", node("fail", job_id="bad"), node("one")))
    async with working(server, prefix):
        await until(ended(tree.children[0].job, queue))
        await until(ended(tree.children[1].job, queue))

        view = await flows.get_flow("mail", tree.job.id)
        assert view is not None
        assert view.is_stuck
        assert [child.job and child.job.id for child in view.blockers] == ["bad"]
        assert "! waits for bad, which failed: retry it, remove it, or remove_child_dependency('bad')" in str(view)

        assert await queue.remove_child_dependency("bad")
        assert await happens(queue.result(tree.job.id)) == "report"
    assert not await queue.remove_child_dependency("bad")


async def test_failed_child_that_is_removed(flows: FlowProducer, queue: Queue, server: Server, prefix: str) -> None:
    """A parent runs if the child that failed is removed, by retention or by hand, as with Node (pain 48)."""
    tree = await flows.add(node("report", node("fail", remove_on_fail=True), node("fail", job_id="bad")))
    async with working(server, prefix):
        await until(ended(tree.children[1].job, queue))
        assert await queue.get_job_state(tree.job.id) is JobState.WAITING_CHILDREN
        await queue.remove("bad")
        assert await happens(queue.result(tree.job.id)) == "report"


async def test_parents_that_wait_are_cleared_by_age(
    flows: FlowProducer, queue: Queue, server: Server, prefix: str
) -> None:
    """Parents that waited for too long are cleaned away, and a child that still waits runs all the same (pain 48)."""
    hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    stuck = await flows.add(node("report", node("fail"), timestamp=hour_ago))
    old = await flows.add(node("report", node("slow", delay=60_000, job_id="slow"), timestamp=hour_ago))
    young = await flows.add(node("report", node("later", delay=60_000)))
    async with working(server, prefix):
        await until(ended(stuck.children[0].job, queue))

        removed = await queue.clean(timedelta(minutes=30), state="waiting-children")
        assert sorted(removed) == sorted([stuck.job.id, old.job.id])
        assert [job.id for job in await queue.get_jobs("waiting-children")] == [young.job.id]

        await queue.promote("slow")
        assert await happens(queue.result("slow")) == "slow"


async def test_child_of_another_parent(flows: FlowProducer, queue: Queue) -> None:
    """A flow that claims the child of another parent is refused, names it, and leaves nothing behind."""
    first = await flows.add(node("first", node("shared", job_id="shared")))

    with pytest.raises(FlowFailed, match="nothing was added") as caught:
        await flows.add(node("second", node("shared", job_id="shared"), node("other")))

    key = first.children[0].job.key
    assert list(caught.value.refused) == [key]
    assert isinstance(caught.value.refused[key], ParentConflict)
    assert caught.value.incomplete == ()
    assert len(await queue.get_jobs()) == 2


async def test_child_claimed_in_the_same_moment(flows: FlowProducer, queue: Queue) -> None:
    """Of two parents in one bulk that claim one child, the one without is named, and can be let run."""
    with pytest.raises(FlowFailed, match="release") as caught:
        await flows.add_bulk(
            [node("first", node("shared", job_id="shared")), node("second", node("s", job_id="shared"))]
        )

    (second,) = caught.value.incomplete
    assert second.name == "second"
    view = await flows.get_flow("mail", second.id)
    assert view is not None
    assert view.is_stuck
    assert "waits for no child" in str(view)

    await flows.release(second)
    assert await queue.get_job_state(second.id) is JobState.WAITING


async def test_missing_parent_of_the_root(flows: FlowProducer, queue: Queue, prefix: str) -> None:
    """A flow whose root belongs to a job that does not exist is refused with all its jobs."""
    parent = {"id": "gone", "queue": f"{prefix}:mail"}
    with pytest.raises(FlowFailed) as caught:
        await flows.add(node("report", node("one"), parent=parent))

    assert len(caught.value.refused) == 2
    assert {type(error) for error in caught.value.refused.values()} == {ParentNotFound}
    assert caught.value.incomplete == ()
    assert await queue.get_jobs() == []


async def test_chain(flows: FlowProducer, queue: Queue, server: Server, prefix: str) -> None:
    """The jobs of a chain run one after the other, each with the result of the one before."""
    seen: list[tuple[str, Any]] = []

    async def note(job: Job) -> str:
        async with Queue("mail", server.url, prefix=prefix) as own:
            seen.append((job.name, list((await own.get_children_values(job.id)).values())))
        return job.name.upper()

    tree = await flows.add(chain(node("a"), node("b"), node("c", node("side"))))
    assert tree.job.name == "c"
    async with working(server, prefix, note):
        assert await happens(queue.result(tree.job.id)) == "C"

    assert [name for name, _ in seen if name != "side"] == ["a", "b", "c"]
    assert dict(seen)["b"] == ["A"]
    assert sorted(dict(seen)["c"]) == ["B", "SIDE"]


def test_empty_chain() -> None:
    """A chain of nothing is refused."""
    with pytest.raises(UsageError):
        chain()


async def test_defaults(shell: Shell, server: Server, prefix: str) -> None:
    """Options of a queue count for its jobs in flows that do not say otherwise."""
    defaults = {"mail": {"attempts": 3}}
    async with shell.flows(server.url, prefix=prefix, default_job_options=defaults) as flows:
        tree = await flows.add(node("report", node("one", attempts=5)))

    assert [job.options.attempts for job in tree.jobs()] == [3, 5]
    with pytest.raises(InvalidOption):
        shell.flows(server.url, default_job_options={"mail": {"attempts": -1}})


async def test_view_has_limits(flows: FlowProducer, queue: Queue) -> None:
    """A flow is read to the depth and the number of children that were asked for, and tells what was left out."""
    tree = await flows.add(node("root", node("child", node("leaf")), *(node("n") for _ in range(30))))

    view = await flows.get_flow("mail", tree.job.id, depth=2, max_children=10)
    assert view is not None
    assert (len(view.children), view.hidden_count) == (10, 21)
    assert str(view).splitlines()[-1] == "└─ … 21 more"
    assert all(not child.children for child in view.children)
    alone = await flows.get_flow("mail", tree.job.id, depth=1)
    assert alone is not None
    assert str(alone).splitlines() == [
        f"root [mail:{tree.job.id}] waiting-children, 0 of 31 children done",
        "└─ … 31 more",
    ]
    assert await flows.get_flow("mail", "never") is None
    assert await queue.count() == 33
    wrong: list[dict[str, Any]] = [{"depth": 0}, {"max_children": 0}, {"depth": 1_000}]
    for limits in wrong:
        with pytest.raises(InvalidOption):
            await flows.get_flow("mail", tree.job.id, **limits)


async def test_view_as_text(flows: FlowProducer, queue: Queue, server: Server, prefix: str) -> None:
    """A flow is shown with each job's place and state, also of jobs that retention removed."""
    tree = await flows.add(
        node(
            "report",
            node("one", job_id="c1", remove_on_complete=True),
            node("fail", job_id="c2", ignore_dependency_on_failure=True),
            node("two", node("leaf", job_id="c4", delay=60_000), job_id="c3"),
            job_id="root",
        )
    )
    async with working(server, prefix):
        await happens(queue.result("c1"))
        await until(ended(tree.children[1].job, queue))
    view = await flows.get_flow("mail", "root")

    assert str(view).splitlines() == [
        "report [mail:root] waiting-children, 2 of 3 children done",
        "├─ (removed) [mail:c1] completed",
        "├─ two [mail:c3] waiting-children, 0 of 1 children done",
        "│  └─ leaf [mail:c4] delayed",
        "└─ fail [mail:c2] failed, ignored: no fail",
    ]


@pytest.mark.parametrize(("which", "count"), [("processed", 600), ("unprocessed", 600), ("failed", 25)])
async def test_dependencies_by_pages(flows: FlowProducer, queue: Queue, server: Server, which: Any, count: int) -> None:
    """All children of a kind are read page by page, however many there are."""
    tree = await flows.add(node("root", node("n")))
    keys = queue.keys
    with server.client() as client:
        children = [f"{keys.base}{number:03}" for number in range(count)]
        client.delete(keys.dependencies(tree.job.id))
        if which == "processed":
            client.hset(keys.processed(tree.job.id), mapping={child: f'"{child}"' for child in children})
        elif which == "unprocessed":
            client.sadd(keys.dependencies(tree.job.id), *children)
        else:
            client.zadd(keys.unsuccessful(tree.job.id), dict.fromkeys(children, 1))

    found: dict[str, Any] = {}
    cursor, pages = "0", 0
    while cursor != "0" or not pages:
        page = await queue.get_dependencies(tree.job.id, which, cursor=cursor, count=10)
        found.update(page.items)
        cursor, pages = page.cursor, pages + 1

    assert sorted(found) == children
    assert pages > 2
    assert set(found.values()) == (set(children) if which == "processed" else {None})


async def test_children_by_places(flows: FlowProducer, queue: Queue, server: Server) -> None:
    """Children are listed by their places with their jobs, those that are gone without, however many there are."""
    tree = await flows.add(node("root", *(node(f"n{number}") for number in range(3))))
    keys = queue.keys
    with server.client() as client:
        client.sadd(keys.dependencies(tree.job.id), *(f"{keys.base}ghost{number}" for number in range(1_200)))

    everyone = await queue.list_children(tree.job.id, "unprocessed")
    some = await queue.list_children(tree.job.id, "unprocessed", start=700, end=709)

    assert (everyone.total, len(everyone.items), set(everyone.items.values())) == (1_203, 1_203, {None})
    assert sorted(job.name for job in everyone.jobs.values()) == ["n0", "n1", "n2"]
    assert (some.total, list(some.items)) == (1_203, list(everyone.items)[700:710])
    assert not (await queue.list_children("ghost")).items


async def test_results_of_children_by_places(flows: FlowProducer, queue: Queue, server: Server) -> None:
    """Results of processed children come as values, and reasons of ignored ones as text."""
    tree = await flows.add(node("root", node("n")))
    (child,) = tree.children
    with server.client() as client:
        client.hset(queue.keys.processed(tree.job.id), child.job.key, '{"sent": true}')
        client.hset(queue.keys.failed_children(tree.job.id), "t:mail:gone", "no paper")

    done = await queue.list_children(tree.job.id)
    ignored = await queue.list_children(tree.job.id, "ignored")

    assert done.items == {child.job.key: {"sent": True}}
    assert done.jobs[child.job.key].name == "n"
    assert (ignored.items, ignored.jobs) == ({"t:mail:gone": "no paper"}, {})
    for wrong in ({"which": "failed"}, {"start": -1}, {"end": -2}):
        with pytest.raises(InvalidOption):
            await queue.list_children(tree.job.id, **wrong)


async def test_dependencies_are_asked_rightly(queue: Queue) -> None:
    """Cursor, count and kind of children are checked."""
    for wrong in ({"cursor": "x"}, {"count": 0}, {"which": "all"}):
        with pytest.raises(InvalidOption):
            await queue.get_dependencies("1", **wrong)


async def test_remove_unprocessed_children(flows: FlowProducer, queue: Queue) -> None:
    """The children that have not run are removed with theirs, and the parent may run."""
    tree = await flows.add(node("root", node("one"), node("two", node("leaf"))))
    await queue.remove_unprocessed_children(tree.job.id)

    assert [job.name for job in await queue.get_jobs()] == ["root"]
    assert await queue.get_job_state(tree.job.id) is JobState.WAITING


async def test_detach_nothing(queue: Queue) -> None:
    """To detach a job without a parent changes nothing, and one that does not exist is an error."""
    job = await queue.add("alone")

    assert not await queue.remove_child_dependency(job.id)
    with pytest.raises(JobNotFound):
        await queue.remove_child_dependency("never")


@pytest.mark.parametrize("plain", [False, True])
async def test_children_added_by_a_job(server: Server, prefix: str, plain: bool) -> None:
    """A job that adds children to itself and waits for them runs again with their results."""

    async def split(job: Job, ctx: Context) -> Any:
        if job.name != "split":
            return job.data * 2
        async with Queue("mail", server.url, prefix=prefix) as own:
            if values := await own.get_children_values(job.id):
                return sorted(values.values())
        for number in (1, 2):
            await ctx.add_child("part", number, job_id=f"{job.id}-part{number}")
        raise WaitForChildren

    def split_in_thread(job: Job, ctx: Any) -> Any:
        if job.name != "split":
            return job.data * 2
        if job.attempts_started > 1:
            return "again"
        ctx.add_child("part", 1, priority=1)
        raise WaitForChildren

    async with Queue("mail", server.url, prefix=prefix) as queue:
        job = await queue.add("split")
        async with working(server, prefix, split_in_thread if plain else split):
            assert await happens(queue.result(job.id)) == ("again" if plain else [2, 4])


async def test_cluster_slots(shell: Shell, servers: Servers, prefix: str) -> None:
    """In a cluster, a flow over queues without a common hash tag is refused before anything is sent (pain 23)."""
    server = servers.start("redis", args=("--cluster-enabled", "yes"))
    apart = FlowNode(queue="one", name="a", children=[FlowNode(queue="two", name="b")])
    async with shell.flows(server.url, prefix=prefix) as flows:
        with pytest.raises(UsageError, match="hash tag"):
            await flows.add(apart)


async def test_no_slots_without_a_cluster(flows: FlowProducer, prefix: str) -> None:
    """Without a cluster, the queues of a flow may have any names and prefixes."""
    child = FlowNode(queue="two", name="b", prefix=f"{prefix}{{x}}")
    tree = await flows.add(FlowNode(queue="one", name="a", children=[child]))

    view = await flows.get_flow("one", tree.job.id)
    assert view is not None
    assert view.children[0].key == tree.children[0].job.key
