"""Job schedulers that one runtime makes and another one continues."""

import itertools

import pytest

from echomq import Queue
from interop.processing import our_worker
from support.peer import Peer, PeerObject
from support.servers import Server


def _slots(done: list[list[dict[str, str]]]) -> list[int]:
    return [int(args[0]["jobId"].rpartition(":")[2]) for args in done]


def _are_regular(slots: list[int], every_ms: int) -> bool:
    """Tell whether slots follow one another; a busy machine may come too late for some, which are left out."""
    gaps = [later - earlier for earlier, later in itertools.pairwise(slots)]
    return all(gap > 0 and gap % every_ms == 0 for gap in gaps) and sum(gaps) <= 3 * len(gaps) * every_ms


async def test_node_continues_our_interval(node: Peer, events: PeerObject, server: Server, prefix: str) -> None:
    """Node reads an interval that we made, makes its further jobs at the right times, and stops at the limit."""
    async with Queue("mail", server.url, prefix=prefix) as queue:
        await queue.upsert_job_scheduler(
            "s", every=500, limit=4, name="tick", data={"returns": 1}, options={"attempts": 2}
        )
        theirs = await node.open("Queue", "mail")
        seen = await theirs.call("getJobScheduler", "s")
        assert (seen["key"], seen["name"], seen["every"], seen["limit"]) == ("s", "tick", 500, 4)
        assert seen["template"] == {"data": {"returns": 1}, "opts": {"attempts": 2}}

        await node.open("Worker", "mail")
        slots = _slots(await events.until_emitted("completed", 4))
        assert _are_regular(slots, 500)
        found = await queue.get_job_scheduler("s")
        assert found is not None
        assert found.iteration_count == 4
        assert await queue.count() == 0


async def test_we_continue_an_interval_of_node(node: Peer, events: PeerObject, server: Server, prefix: str) -> None:
    """We read an interval that Node made, make its further jobs at the right times, and stop at the limit."""
    theirs = await node.open("Queue", "mail")
    template = {"name": "tick", "data": {"returns": 1}, "opts": {"attempts": 2}}
    await theirs.call("upsertJobScheduler", "s", {"every": 500, "limit": 4}, template)
    async with Queue("mail", server.url, prefix=prefix) as queue, our_worker(server, prefix):
        slots = _slots(await events.until_emitted("completed", 4))
        assert _are_regular(slots, 500)
        (found,) = await queue.get_job_schedulers()
        assert (found.id, found.name, found.iteration_count, found.data) == ("s", "tick", 4, {"returns": 1})
        assert (await theirs.call("getJobScheduler", "s"))["iterationCount"] == 4
        assert await queue.count() == 0


@pytest.mark.parametrize("maker", ["node", "ours"])
async def test_both_continue_a_pattern(node: Peer, events: PeerObject, server: Server, prefix: str, maker: str) -> None:
    """Workers of both runtimes continue one pattern with seconds and a zone, and each second has one job."""
    theirs = await node.open("Queue", "mail")
    async with Queue("mail", server.url, prefix=prefix) as queue:
        if maker == "ours":
            await queue.upsert_job_scheduler("s", cron="* * * * * *", tz="Europe/Berlin", limit=4)
        else:
            repeat = {"pattern": "* * * * * *", "tz": "Europe/Berlin", "limit": 4}
            await theirs.call("upsertJobScheduler", "s", repeat)
        await node.open("Worker", "mail")
        async with our_worker(server, prefix):
            slots = _slots(await events.until_emitted("completed", 4))

        assert _are_regular(slots, 1_000)
        assert slots[0] % 1_000 == 0


@pytest.mark.parametrize("how", [{"every": 3_600_000}, {"cron": "0 4 * * 1", "tz": "America/New_York"}])
async def test_same_next_run(node: Peer, server: Server, prefix: str, how: dict[str, object]) -> None:
    """A scheduler of ours that Node upserts unchanged, and the reverse, keeps its next job and its count of one."""
    theirs = await node.open("Queue", "mail")
    start = 4_102_444_800_000
    async with Queue("mail", server.url, prefix=prefix) as queue:
        ours = await queue.upsert_job_scheduler("s", start=start, **how)  # type: ignore[arg-type]
        assert ours is not None
        repeat = {"pattern" if name == "cron" else name: value for name, value in how.items()}
        job = await theirs.call("upsertJobScheduler", "s", {**repeat, "startDate": start})
        again = await queue.upsert_job_scheduler("s", start=start, **how)  # type: ignore[arg-type]

        assert again is not None
        assert ours.id == job["id"] == again.id
        assert await queue.count() == 1
        assert await theirs.call("removeJobScheduler", "s")
        assert await queue.count_job_schedulers() == 0
