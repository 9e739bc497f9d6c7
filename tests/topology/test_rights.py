"""The user whose rights ``docs/deployment.md`` gives, on each way the servers may stand."""

import asyncio
import contextlib
import re
from collections.abc import Iterator, Sequence

import pytest

from echomq import FlowNode, QueueEvents, Worker
from echomq.errors import ServerRefused
from support.clusters import Cluster, Listening, ask
from support.faults import rights_of_its_age
from support.sentinels import Watched
from support.server_files import CHECKOUT
from support.servers import Server
from support.shells import Shell

PASSWORD = "jobs-password"
PAGE = (CHECKOUT / "docs" / "deployment.md").read_text("utf-8")


def documented(prefix: str, *more: str) -> list[str]:
    """The documented rules for a prefix."""
    found = re.search(r"^ACL SETUSER jobs (on >PASSWORD ~bull:\* .*)$", PAGE, re.MULTILINE)
    assert found is not None
    rules = found[1].replace("PASSWORD", PASSWORD).replace("~bull:*", f"~{prefix}:*").split()
    assert all(f"`{rule}`".replace("|", "\\|") in PAGE for rule in more)
    return [*rules, *more]


@contextlib.contextmanager
def limited(nodes: Sequence[Listening], name: str, *rules: str) -> Iterator[None]:
    """Let a user with these rights exist on some servers."""
    for node in nodes:
        ask(node, "ACL", "SETUSER", name, "reset", *rules)
    try:
        yield
    finally:
        for node in nodes:
            ask(node, "ACL", "DELUSER", name)


async def whole_session(url: str, shell: Shell, prefix: str) -> None:
    """Add, run, wait, read, change and remove."""

    async def work(_: object) -> str:
        return "done"

    async with (
        shell.queue("mail", url, prefix=prefix) as queue,
        shell.flows(url, prefix=prefix) as flows,
        QueueEvents("mail", url, prefix=prefix, last_event_id="0-0") as events,
        Worker("mail", work, url, prefix=prefix, metrics=10, limiter={"max": 100, "duration": 1_000}) as worker,
    ):
        job = await queue.add("one", {"to": "ada"}, priority=3)
        late = await queue.add("late", delay=60_000)
        await queue.add_bulk([("many", number) for number in range(5)])
        await flows.add(FlowNode(queue="mail", name="parent", children=[FlowNode(queue="mail", name="child")]))
        await queue.upsert_job_scheduler("often", every=3_600_000)
        running = asyncio.ensure_future(worker.run(until="drained"))
        assert await queue.result(job.id, timeout=60_000) == "done"
        await running
        assert (await anext(aiter(events))).id
        await queue.promote(late.id)
        await queue.pause()
        await queue.clean(0, state="completed")
        await queue.remove_orphaned_jobs()
        await queue.obliterate(force=True)


async def test_single_server(server: Server, driver: str, shell: Shell, prefix: str) -> None:
    """The documented rights are enough on a single server."""
    with limited([server], prefix, *documented(prefix, *rights_of_its_age(server))):
        await whole_session(f"{driver}://{prefix}:{PASSWORD}@{server.host}:{server.port}", shell, prefix)


async def test_cluster(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """The documented rights are enough on a cluster."""
    with limited(cluster.nodes, "jobs", *documented(tagged, "+cluster|slots", *rights_of_its_age(cluster.nodes[0]))):
        await whole_session(cluster.url(f"{driver}+cluster", user=f"jobs:{PASSWORD}"), shell, tagged)


async def test_cluster_without_its_right(cluster: Cluster, driver: str, shell: Shell, tagged: str) -> None:
    """Who may not ask a cluster for its slots is told which right is missing."""
    with limited(cluster.nodes, "jobs", *documented(tagged)):
        url = cluster.url(f"{driver}+cluster", user=f"jobs:{PASSWORD}")
        async with shell.queue("mail", url, prefix=tagged) as queue:
            with pytest.raises(ServerRefused, match=r"cluster\|slots must be allowed"):
                await queue.add("one")


async def test_watched_master(watched: Watched, driver: str, shell: Shell, prefix: str) -> None:
    """The documented rights are enough on a master that sentinels watch."""
    with limited(watched.servers, "jobs", *documented(prefix, *rights_of_its_age(watched.servers[0]))):
        await whole_session(watched.url(f"{driver}+sentinel", user=f"jobs:{PASSWORD}"), shell, prefix)


async def test_listing_workers(server: Server, driver: str, shell: Shell, prefix: str) -> None:
    """Listing workers takes one right more, which is documented."""
    with limited([server], prefix, *documented(prefix, "+client|list", *rights_of_its_age(server))):
        url = f"{driver}://{prefix}:{PASSWORD}@{server.host}:{server.port}"
        async with shell.queue("mail", url, prefix=prefix) as queue:
            assert await queue.get_workers() == []
