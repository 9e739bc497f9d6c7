"""``echomq metrics``, and the alert for jobs that wait too long."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from echomq import sync
from echomq.cli import main
from support.command_line import Running, running, until
from support.command_line import echomq as command_line
from support.desk import at_desk
from support.servers import Server, Servers


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


async def test_metrics_are_told(server: Server, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each metric is told once, with a line for each queue, and counts only workers that are there (pain 39)."""
    where = ("--url", server.url, "--prefix", prefix)
    with sync.Queue("work", server.url, prefix=prefix) as queue, sync.Queue("idle", server.url, prefix=prefix) as idle:
        queue.pause()
        queue.add("sent", timestamp=1_700_000_000_000)
        idle.add("later", delay=60_000)
        async with at_desk(server.url, prefix) as desk, desk.working(lambda _: None):
            lines = _said(capsys, "metrics", "work", "idle", "--label", "env=test", *where).splitlines()
        after = _said(capsys, "metrics", *where)

    assert 'bullmq_job_count{queue="work", state="waiting", env="test"} 1' in lines
    assert 'bullmq_job_count{queue="idle", state="delayed", env="test"} 1' in lines
    assert 'echomq_oldest_waiting_seconds{queue="idle", env="test"} 0.0' in lines
    assert [line for line in lines if line.startswith("echomq_workers")] == [
        'echomq_workers{queue="work", env="test"} 1',
        'echomq_workers{queue="idle", env="test"} 0',
    ]
    kinds = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds)) == 5
    assert sorted(line for line in after.splitlines() if line.startswith("echomq_workers")) == [
        'echomq_workers{queue="idle"} 0',
        'echomq_workers{queue="work"} 0',
    ]


async def test_server_that_lists_no_clients(
    redis_server: Server, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the server does not list its clients, all but the number of workers is told."""
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "few", "on", ">pass", "~*", "&*", "+@all", "-client")
        try:
            url = redis_server.url.replace("://", "://few:pass@")
            with sync.Queue("work", redis_server.url, prefix=prefix) as queue:
                queue.add("a")
            said = _said(capsys, "metrics", "work", "--url", url, "--prefix", prefix)
        finally:
            client.execute_command("ACL", "DELUSER", "few")

    assert "echomq_oldest_waiting_seconds" in said
    assert "echomq_workers" not in said


@pytest.mark.parametrize("wrong", [["--label", "env"], ["--label", "queue=a"], ["--listen", "9100"]])
def test_wrong_use(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A label that is none and a place that is none are refused before a server is asked."""
    assert main(["metrics", "work", *wrong, "--url", "redis://localhost:1"]) == 2
    assert "expected" in (said := capsys.readouterr().err) or "a name is" in said


def _scraped(command: Running, path: str = "/metrics") -> tuple[int, str]:
    [place] = [line.partition(";")[0] for line in command.said.splitlines() if line.startswith("http://")]
    try:
        with urllib.request.urlopen(place.replace("/metrics", path), timeout=60) as answer:  # noqa: S310  # our own
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_metrics_are_served(servers: Servers, prefix: str, tmp_path: Path) -> None:
    """Scrapers get the present numbers, an error while the server is away, and again numbers after that."""
    server = servers.start("redis")
    url = f"{server.url}?deadline_ms=2000"
    with running(
        *("metrics", "work", "--listen", "127.0.0.1:0", "--url", url, "--prefix", prefix), folder=tmp_path
    ) as command:
        until(lambda: "http://" in command.said, command)
        with sync.Queue("work", server.url, prefix=prefix) as queue:
            queue.add("sent")
        first = _scraped(command)
        other = _scraped(command, "/")
        server.stop()
        away = _scraped(command)
        server.restart()
        again = _scraped(command)
        command.process.terminate()
        assert command.wait() == 0

    assert first[0] == 200
    assert 'state="waiting"} 1\n' in first[1]
    assert other == (404, "there is /metrics\n")
    assert away[0] == 503
    assert again[0] == 200


def test_check_of_waits(redis_server: Server, prefix: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A queue whose first job in line has waited for too long is unwell."""
    where = ("--url", redis_server.url, "--prefix", prefix)
    with sync.Queue("work", redis_server.url, prefix=prefix) as queue:
        assert main(["check", "work", "--oldest", "5m", "--timeout", "30s", *where]) == 0
        queue.add("sent", timestamp=1_700_000_000_000)
    said = command_line("check", "work", "--oldest", "5m", "--timeout", "30s", *where)

    assert "the first in line has waited for 0.0 s" in capfd.readouterr().out
    assert said.code == 1
    assert said.error.startswith("unwell: the first job in line of queue work has waited for ")
    assert said.error.endswith(", expected at most 300 s\n")
    assert main(["check", "--oldest", "5m", *where]) == 2
