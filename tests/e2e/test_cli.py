"""The command line: what each command does, and how it tells what is wrong."""

import json
import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from echomq import scripts, sync
from echomq.calls import query
from echomq.calls import queue as queue_calls
from echomq.cli import main
from echomq.job import Job
from echomq.keys import Keys
from echomq.sync import connect
from support.command_line import echomq
from support.servers import Server

WITHOUT_EXTRA = "import sys; sys.modules['typer'] = None; from echomq.cli import main; sys.exit(main(sys.argv[1:]))"


def without_extra(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as if the extra [cli] were not installed."""
    command = [sys.executable, "-c", WITHOUT_EXTRA, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def job_of(server: Server, keys: Keys, job_id: str) -> Job:
    """Read a job."""
    link = connect(server.url)
    try:
        found = link.send(query.get_job(keys, job_id))
    finally:
        link.close()
    assert found is not None
    return found


def test_version() -> None:
    """--version says name and version and nothing else."""
    said = echomq("--version")

    assert said.code == 0
    assert said.out.startswith("echomq 0.")
    assert len(said.out.split()) == 2


def test_without_a_command() -> None:
    """Without a command all commands are listed."""
    said = echomq()

    assert said.code == 0
    assert all(name in said.out for name in ("demo", "worker", "add", "counts", "lua"))


def test_jobs_are_found(redis_server: Server, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Jobs are found by name, data, state and age, and what ended the search is told (pain 42)."""
    with sync.Queue("mail", redis_server.url, prefix=prefix) as queue:
        ada = queue.add("welcome", {"to": {"name": "ada"}, "copies": 2})
        queue.add(
            "welcome", {"to": {"name": "bob"}, "copies": "2"}, timestamp=datetime(2020, 1, 1, tzinfo=timezone.utc)
        )
        queue.add("bye", delay=60_000)

    def said(*options: str) -> str:
        assert main(("jobs", "find", "mail", "--url", redis_server.url, "--prefix", prefix, *options)) == 0
        return capsys.readouterr().out

    def found(*options: str) -> list[str]:
        return [json.loads(line)["id"] for line in said(*options, "--json").splitlines()]

    assert found("--data", "to.name=ada", "--data", "copies=2") == [ada.id]
    assert found("--state", "delayed", "--name", "bye") == ["3"]
    assert found("--until", "1h", "--since", "2019-12-31T00:00Z") == ["2"]
    assert found("--name", "welcome", "--limit", "1") == ["2"]
    assert "1 found among 1; there may be more" in said("--limit", "1")
    assert "3 found among 3; all jobs were seen" in said()


def test_why_a_job_failed(redis_server: Server, prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command line shows why a job failed: the reason in the table, the stack trace as JSON (pain 41)."""

    def fail(_: object) -> None:
        raise LookupError("no paper left")

    url = redis_server.url
    with sync.Queue("mail", url, prefix=prefix) as queue, sync.Worker("mail", fail, url, prefix=prefix) as worker:
        queue.add("print")
        worker.run(until="drained")
    command = ("jobs", "find", "mail", "--url", url, "--prefix", prefix, "--reason", "paper")

    assert main(command) == 0
    assert "no paper left" in capsys.readouterr().out
    assert main((*command, "--json")) == 0
    assert "in fail" in json.loads(capsys.readouterr().out)["stacktrace"][-1]


def test_group_without_a_command() -> None:
    """A group of commands lists them as the program itself does, without an error."""
    said = echomq("lua")

    assert said.code == 0
    assert "export" in said.out
    assert not said.error


def test_export(tmp_path: Path) -> None:
    """Each script lands in a file of its own, byte for byte as it is sent."""
    said = echomq("lua", "export", str(tmp_path / "out"))

    assert said.code == 0
    exported = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    expected = map(scripts.get_script, scripts.script_names())
    assert exported == {script.file_name: script.text.encode() for script in expected}


def test_export_without_extra(tmp_path: Path) -> None:
    """Scripts can be exported where the command line's libraries are not installed."""
    done = without_extra("lua", "export", str(tmp_path / "out"))

    assert done.returncode == 0
    assert len(list((tmp_path / "out").iterdir())) == len(scripts.script_names())


def test_other_commands_without_extra() -> None:
    """Without the command line's libraries the other commands say what to install."""
    done = without_extra("counts", "emails")

    assert done.returncode == 1
    assert 'pip install "echomq-core[cli]"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_add(server: Server, prefix: str) -> None:
    """A job is added as described, and its id is all that a program reads."""
    options = ["--attempts", "3", "--backoff", "exponential:1.5s", "--delay", "2m", "--priority", "7"]
    place = ["--url", server.url, "--prefix", prefix]

    said = echomq("add", "emails", "welcome", '{"to": "ada@example.org"}', *options, *place)

    job = job_of(server, Keys("emails", prefix), said.out.strip())
    assert said.code == 0
    assert (job.name, job.data) == ("welcome", {"to": "ada@example.org"})
    assert (job.options.attempts, job.options.delay, job.priority) == (3, 120_000, 7)
    assert job.options.backoff is not None
    assert (job.options.backoff.type, job.options.backoff.delay) == ("exponential", 1_500)


def test_add_from_standard_input(redis_server: Server, prefix: str) -> None:
    """Data too large for an argument is read from the input, and the server's URL from the environment."""
    said = echomq(
        *("add", "emails", "news", "-", "--prefix", prefix, "--job-id", "news-1"),
        stdin='["one", "two"]',
        ECHOMQ_URL=redis_server.url,
    )

    assert said.out == "news-1\n"
    assert job_of(redis_server, Keys("emails", prefix), "news-1").data == ["one", "two"]


def test_counts(server: Server, prefix: str) -> None:
    """Jobs are counted by state, for people and for programs, and a paused queue is marked."""
    place = ["--url", server.url, "--prefix", prefix]
    echomq("add", "emails", "a", *place)
    echomq("add", "emails", "b", *place, "--delay", "1h")
    link = connect(server.url)
    link.send(queue_calls.pause(Keys("emails", prefix)))
    link.send(queue_calls.pause(Keys("empty", prefix)))
    link.send(queue_calls.resume(Keys("empty", prefix)))
    link.close()

    for_programs = json.loads(echomq("counts", "emails", "empty", "--json", *place).out)
    for_people = echomq("counts", "emails", "empty", *place).out

    assert for_programs["emails"]["waiting"] == for_programs["emails"]["delayed"] == 1
    assert for_programs["emails"]["paused"] is True
    assert not any(for_programs["empty"].values())
    assert "emails paused" in for_people


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("frobnicate",), "No such command 'frobnicate'"),
        (("add", "q"), "Missing argument 'name'; echomq add --help"),
        (("add", "q", "n", "--frob"), "No such option: --frob"),
        (("add", "q", "n"), "no server: pass --url redis://localhost, or set ECHOMQ_URL"),
        (("add", "q", "n", "{x", "--url", "redis://localhost"), "the data is not JSON"),
        (("add", "q", "n", "--delay", "soon", "--url", "redis://localhost"), "--delay: expected milliseconds"),
        (("add", "q", "n", "--backoff", "exponential", "--url", "redis://localhost"), "such as 1s or exponential:1s"),
        (("add", "q:r", "n", "--url", "redis://localhost"), "a queue name holds no colon"),
        (("add", "q", "n", "--priority", "-1", "--url", "redis://localhost"), "priority: must be between 0 and"),
        (("add", "q", "n", "--url", "embedded:"), "embedded: ends with this command and keeps nothing"),
        (("counts", "q", "--url", "redis://user:secret@localhost:0"), "user:***@localhost:0"),
        (("counts", "q", "--json", "--watch"), "--json shows one moment"),
        (("worker", "app"), "expected MODULE:WORKER, such as app.jobs:worker, not 'app'"),
        (("worker", "app/jobs.py:worker"), "write app.jobs:worker"),
        (("demo", "/no/such/folder"), "/no/such/folder is not a folder"),
        (("jobs", "find", "mail", "--url", "redis://localhost:1", "--data", "ada"), "expected PATH=VALUE"),
        (("jobs", "find", "mail", "--url", "redis://localhost:1", "--since", "yesterday"), "expected milliseconds"),
        (("jobs", "find", "mail", "--url", "redis://localhost:1", "--since", "2026-03-01T12:00"), "no time zone"),
        (("jobs", "find", "mail", "--url", "redis://localhost:1", "--state", "lost"), "lost"),
    ],
)
def test_wrong_use(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot work as asked is told in one line, with exit code 2, and shows no password."""
    monkeypatch.delenv("ECHOMQ_URL", raising=False)

    code = main(arguments)

    error = capsys.readouterr().err
    assert code == 2
    assert error.startswith("echomq: error: ")
    assert told in error
    assert "secret" not in error
    assert len(error.splitlines()) == 1


def test_server_that_is_down() -> None:
    """A server that does not answer is told in one line, with exit code 1 and without the password."""
    said = echomq("counts", "q", "--url", "redis://user:secret@127.0.0.1:1?deadline_ms=300")

    assert said.code == 1
    assert said.error.startswith("echomq: error: no connection to 127.0.0.1:1 within 300 ms")
    assert "secret" not in said.error
    assert len(said.error.splitlines()) == 1


def test_export_to_an_impossible_place() -> None:
    """A folder that cannot be written is told in one line, with exit code 1."""
    said = echomq("lua", "export", "/dev/null/scripts")

    assert said.code == 1
    assert said.error.startswith("echomq: error: ")
    assert len(said.error.splitlines()) == 1


def test_reader_that_goes_away() -> None:
    """A reader of the output that ended before gets no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        command = [sys.executable, "-m", "echomq", "--help"]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, timeout=180, check=False)

    assert done.stderr == b""
    assert done.returncode == 1
