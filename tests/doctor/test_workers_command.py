"""``echomq workers``."""

import json

import pytest

from echomq import Keys, sync
from echomq.cli import main
from echomq.job import Job
from echomq.presence import Presence
from support.desk import at_desk
from support.servers import Server


async def test_workers_are_shown(server: Server, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Workers are shown with host, process and their longest-running jobs; those that tell nothing are counted."""
    where = ("--url", server.url, "--prefix", prefix)
    keys = Keys("work", prefix)
    jobs = [Job(keys=keys, id=str(number), name="send", processed_on_ms=1_700_000_000_000) for number in range(5)]
    with sync.Queue("work", server.url, prefix=prefix) as queue:
        queue.ready()
    assert main(["workers", *where]) == 0
    assert capsys.readouterr().out == "no worker was found\n"

    async with at_desk(server.url, prefix) as desk, desk.working(lambda _: None), desk.working(lambda _: None):
        await desk.connection.send_batch(Presence(keys, "ada").telling(10, jobs))
        assert main(["workers", "work", *where]) == 0
        shown = capsys.readouterr().out
        assert main(["workers", "work", "--json", *where]) == 0
        [told] = map(json.loads, capsys.readouterr().out.splitlines())

    assert "ada" in shown
    assert "5/10" in shown
    assert "work: 1 more connected" in shown
    assert (told["queue"], told["name"], told["running"][0]["name"]) == ("work", "ada", "send")
