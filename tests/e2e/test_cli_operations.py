"""The command line looks at queues, jobs and flows, and changes them."""

import io
import json
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from echomq import FlowNode, Job, RateLimit, replies, sync
from echomq.call import Command
from echomq.cli import main
from echomq.cli.rates import Rates, rates
from echomq.cli.tables import span
from echomq.events import Added, Completed, Event, Failed, Waiting
from support.command_line import echomq, running, until
from support.limits import DEADLINE_S
from support.servers import Server


@attrs.frozen(kw_only=True)
class Terminal:
    """Runs commands in this process, against one server.

    Attributes:
        url: The server.
        prefix: Name space of this test.
        capsys: Holds what they print.
    """

    url: str
    prefix: str
    capsys: "pytest.CaptureFixture[str]"

    def queue(self, name: str = "mail") -> sync.Queue:
        """Return a queue of this test."""
        return sync.Queue(name, self.url, prefix=self.prefix)

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command and return what it prints."""
        assert main((*arguments, "--url", self.url, "--prefix", self.prefix)) == code
        return self.capsys.readouterr().out

    def read(self, *arguments: str, code: int = 0) -> Any:
        """Run a command that prints JSON."""
        return json.loads(self.run(*arguments, "--json", code=code))

    def refused(self, *arguments: str, code: int = 2) -> str:
        """Run a command that is refused, and return why."""
        assert main((*arguments, "--url", self.url, "--prefix", self.prefix)) == code
        return self.capsys.readouterr().err

    def work(self, process: Callable[[Job], object], name: str = "mail") -> None:
        """Run all jobs of a queue."""
        with sync.Worker(name, process, self.url, prefix=self.prefix, name="ada") as worker:
            worker.run(until="drained")


@pytest.fixture
def terminal(
    redis_server: Server, prefix: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Terminal:
    """Commands against a server, whose prompts nobody answers and whose output no variable folds."""
    for variable in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    return Terminal(url=redis_server.url, prefix=prefix, capsys=capsys)


def fail(job: Job) -> None:
    """Fail."""
    raise LookupError(f"no {job.data}")


def failed_jobs(terminal: Terminal, *papers: str) -> list[str]:
    """Leave failed jobs, whose reasons name their data."""
    with terminal.queue() as queue:
        ids = [queue.add("print", paper).id for paper in papers]
        terminal.work(fail)
        assert queue.get_job_counts("failed") == {"failed": len(papers)}
    return ids


def test_queues_are_listed(terminal: Terminal) -> None:
    """Without a name, all queues of the prefix are listed: jobs, workers, limits, what is paused."""
    with terminal.queue("mail") as mail, terminal.queue("print") as printing:
        mail.add("a")
        mail.add("b", delay=60_000)
        mail.set_global_concurrency(3)
        printing.set_global_rate_limit(RateLimit(5, 1_000))
        printing.pause()

    for_people = terminal.run("queues", "list")
    lines = [json.loads(line) for line in terminal.run("queues", "list", "--json").splitlines()]
    counts = terminal.read("counts")

    assert [line["queue"] for line in lines] == ["mail", "print"] == list(counts)
    assert (lines[0]["counts"]["waiting"], lines[0]["counts"]["delayed"], lines[0]["workers"]) == (1, 1, 0)
    assert lines[0]["concurrency"] == 3
    assert lines[1]["rate_limit"] == {"max": 5, "duration_ms": 1_000}
    assert lines[1]["paused"] is True
    assert "print paused" in for_people
    assert "5 in 1s" in for_people
    assert "no queue with the prefix" in attrs.evolve(terminal, prefix=f"{terminal.prefix}-empty").run("queues", "list")


def test_names_are_seen_in_narrow_terminals(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """However narrow the terminal, queues keep their names, and ids can be copied."""
    with terminal.queue("mail") as queue:
        job_id = queue.add("welcome", job_id="6f1b1d52-0f4c-4b7f-9d1e-0f3a7d1c2b11").id
    monkeypatch.setenv("COLUMNS", "30")

    for command in (("queues", "list"), ("counts",), ("top", "--count", "1", "--interval", "0.1")):
        titles, *rows = terminal.run(*command).splitlines()
        assert any(row.startswith("mail ") for row in rows), (titles, rows)
    assert job_id in terminal.run("jobs", "find", "mail")


def test_lines_for_programs_are_not_folded(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes to a pipe has a line a job, and each line of a stack trace in one piece."""
    monkeypatch.delenv("COLUMNS", raising=False)
    reason = "a long reason " * 4
    with terminal.queue() as queue:
        job_id = queue.add("a long name " * 12, job_id="paper-1").id

        def fail_at_length(_: Job) -> None:
            raise LookupError(reason * 9)

        terminal.work(fail_at_length)

    (line,) = [line for line in terminal.run("jobs", "find", "mail").splitlines() if line.startswith(f"{job_id} ")]
    assert reason.strip() in line
    assert f"  LookupError: {reason * 9}".rstrip() in terminal.run("jobs", "show", "mail", job_id)


def test_text_of_jobs_does_not_steer_the_terminal(terminal: Terminal) -> None:
    """Names, reasons and logs move no cursor, set no title and are no markup, whoever wrote them."""
    evil = "\x1b]0;owned\x07\x9b2J[/red]\u202e[bold]"
    with terminal.queue(evil) as queue:
        job_id = queue.add(evil, job_id=f"{evil}1").id
        queue.add_log(job_id, evil)

        def fail_with_it(_: Job) -> None:
            raise LookupError(evil)

        terminal.work(fail_with_it, evil)

        said = [
            terminal.run("queues", "list"),
            terminal.run("counts"),
            terminal.run("top", "--count", "1", "--interval", "0.1"),
            terminal.run("jobs", "find", evil),
            terminal.run("jobs", "show", evil, job_id),
            terminal.run("flow", evil, job_id),
            terminal.run("doctor", "--fail-on", "error"),
            terminal.refused("queues", "pause", "other"),
        ]
        assert [text for text in said if "]0;owned2J[/red][bold]" not in text] == []
        assert not any(control in text for text in said for control in "\x1b\x07\x9b\u202e")
        terminal.run("queues", "clean", evil, "--state", "failed", "--yes")
        assert not any(queue.get_job_counts().values())


def test_output_that_knows_no_unicode(redis_server: Server, prefix: str) -> None:
    """What the encoding of a terminal or a pipe has no letters for is escaped, and the command does its work."""
    where = ("--url", redis_server.url, "--prefix", prefix)
    with sync.Queue("mail", redis_server.url, prefix=prefix) as queue:
        queue.add("漢", job_id="café")

    found = echomq("jobs", "find", "mail", *where, PYTHONIOENCODING="ascii")
    refused = echomq("jobs", "retry", "mail", "77", *where, PYTHONIOENCODING="ascii")

    assert (found.code, found.error) == (0, "")
    assert "caf\\xe9" in found.out
    assert (refused.code, refused.error) == (1, "")
    assert "job 77 does not exist" in refused.out


def test_memory_of_a_command() -> None:
    """A job is not added to queues that end with the command that adds it."""
    ended = echomq("add", "mail", "welcome", ECHOMQ_URL="memory://")

    assert (ended.code, ended.out) == (2, "")
    assert "memory:// lives and ends with this command" in ended.error


def test_queues_are_changed(terminal: Terminal) -> None:
    """A queue is paused, resumed, drained, cleaned and deleted from the command line."""
    with terminal.queue() as queue:
        queue.add("a")
        queue.add("b", delay=60_000)

        terminal.run("queues", "pause", "mail")
        assert queue.is_paused()
        terminal.run("queues", "resume", "mail")
        assert not queue.is_paused()

        terminal.work(lambda _: "done")
        assert "0 jobs removed" in terminal.run("queues", "clean", "mail", "--older-than", "1h", "--yes")
        assert "1 jobs removed" in terminal.run("queues", "clean", "mail", "--yes")
        assert "1 jobs removed" in terminal.run("queues", "drain", "mail", "--delayed", "--yes")
        assert not any(queue.get_job_counts().values())

        terminal.run("queues", "obliterate", "mail", "--yes")
    assert terminal.read("counts") == {}


def test_what_cannot_be_undone_is_asked(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can answer, a removal without --yes is refused, and nothing is removed."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with terminal.queue() as queue:
        queue.add("a")

        for command in (("drain", "mail"), ("clean", "mail"), ("obliterate", "mail")):
            assert "Pass --yes" in terminal.refused("queues", *command)
        assert "Pass --yes" in terminal.refused("jobs", "remove", "mail", "--all", "--state", "waiting")
        assert queue.count() == 1


NOT_THERE: tuple[tuple[str, ...], ...] = (
    *(("queues", change, "mali") for change in ("list", "pause", "resume")),
    *(("queues", change, "mali", "--yes") for change in ("drain", "clean", "obliterate")),
    ("jobs", "find", "mali"),
    ("jobs", "show", "mali", "1"),
    ("jobs", "retry", "mali", "1"),
    ("jobs", "promote", "mali", "--all"),
    ("jobs", "remove", "mali", "--name", "a", "--yes"),
    ("flow", "mali", "1"),
    *((look, "mail", "mali") for look in ("counts", "metrics", "workers", "doctor")),
    ("top", "mali", "--count", "1"),
    ("queues", "drain", "mali"),  # before anybody is asked
    ("jobs", "remove", "mali", "--all"),
)


def test_no_is_an_answer(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is asked and says no has changed nothing, is told so, and the exit code is that of what was not done."""
    answers = io.StringIO("n\n")
    monkeypatch.setattr(answers, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", answers)
    with terminal.queue() as queue:
        queue.add("a")

        assert "nothing was done" in terminal.refused("queues", "drain", "mail", code=1)
        assert queue.count() == 1


def test_job_that_is_elsewhere(terminal: Terminal) -> None:
    """A job that cannot be retried or promoted where it is, is told with where it is."""
    with terminal.queue() as queue:
        job_id = queue.add("a").id

    assert f"job {job_id} is waiting, not failed" in terminal.run("jobs", "retry", "mail", job_id, code=1)
    told = terminal.read("jobs", "promote", "mail", job_id, code=1)
    assert told["refused"] == {job_id: f"job {job_id} is waiting, not delayed"}


def test_queue_that_is_not_there(terminal: Terminal) -> None:
    """Every command refuses a queue that does not exist, as a misspelt one, makes none, and tells which there are."""
    with terminal.queue() as queue:
        queue.add("a")

    for command in NOT_THERE:
        told = terminal.refused(*command)
        assert f"there is no queue 'mali' with the prefix '{terminal.prefix}'; there are: mail" in told, command
        assert told.count("\n") == 1
    assert list(terminal.read("counts")) == ["mail"]

    elsewhere = attrs.evolve(terminal, prefix=f"{terminal.prefix}-empty")
    assert elsewhere.run("counts") == f"no queue with the prefix '{elsewhere.prefix}' was found\n"
    assert elsewhere.run("check", "mail") == "well: queue mail can be read; it holds nothing yet\n"
    assert ", nor any other; look at --prefix and --url" in elsewhere.refused("jobs", "find", "mail")


def test_names_are_told_by_likeness(terminal: Terminal) -> None:
    """Of many queues those are told whose names are like the one asked for, and how many more there are."""
    for number in range(12):
        with terminal.queue(f"list-{number}") as queue:
            queue.pause()
    with terminal.queue("emails") as queue:
        queue.pause()

    assert "there are: emails and 12 more" in terminal.refused("counts", "emials")
    assert "there are: emails, list-0, list-1" in terminal.refused("counts", "zzz")


def test_queue_without_jobs(terminal: Terminal) -> None:
    """A queue whose jobs are gone is there, as is one that a worker waits at: that nothing is found is no error."""
    with terminal.queue() as queue:
        queue.remove(queue.add("a").id)

    assert terminal.run("jobs", "find", "mail") == "nothing found among 0; all jobs were seen\n"
    assert terminal.run("jobs", "find", "mail", "--json") == ""
    assert terminal.read("counts", "mail")["mail"]["waiting"] == 0
    assert "job 7 does not exist" in terminal.refused("jobs", "show", "mail", "7", code=1)

    ready = threading.Event()
    with sync.Worker("new", fail, terminal.url, prefix=terminal.prefix, name="ada") as worker:
        worker.on("ready", ready.set)
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert ready.wait(DEADLINE_S)
        assert "new: 1 connected" in terminal.run("workers", "new")
        assert terminal.read("counts", "new")["new"]["waiting"] == 0
        worker.close()
        thread.join(DEADLINE_S)


def test_job_is_shown(terminal: Terminal) -> None:
    """All of a job is shown: data, attempts, reason, stack trace, log."""
    (job_id,) = failed_jobs(terminal, "paper")
    with terminal.queue() as queue:
        for row in ("one", "two", "three"):
            queue.add_log(job_id, row)

    for_people = terminal.run("jobs", "show", "mail", job_id, "--logs", "2")
    found = terminal.read("jobs", "show", "mail", job_id)

    assert all(text in for_people for text in ("no paper", "in fail", "by ada", "failed", '"paper"', "three"))
    assert "without the first 1 rows" in for_people
    assert (found["state"], found["data"], found["logs"]) == ("failed", "paper", ["one", "two", "three"])
    assert found["processed_by"] == "ada"
    assert "job 77 does not exist" in terminal.refused("jobs", "show", "mail", "77", code=1)


def test_job_that_another_client_broke_is_shown(terminal: Terminal, redis_server: Server) -> None:
    """Data and options that are not JSON are shown as the text they are."""
    with terminal.queue() as queue:
        job = queue.add("a")
        connection = sync.connect(redis_server.url)
        connection.send(Command(parts=("HSET", job.key, "data", "{x", "opts", "oops"), decode=replies.nothing))
        connection.close()

    assert "{x" in terminal.run("jobs", "show", "mail", job.id)
    assert terminal.read("jobs", "show", "mail", job.id)["options"] == "oops"


def test_failed_jobs_are_retried(terminal: Terminal) -> None:
    """Failed jobs run again: by id, by what is in them, or all; a look before changes nothing (pain 41)."""
    first, second, third, fourth = failed_jobs(terminal, "paper", "ink", "paper", "glue")
    retry = ("jobs", "retry", "mail")

    would = terminal.read(*retry, "--reason", "paper", "--dry-run")
    assert (would["done"], sorted(would["ids"])) == ("would be retried", [first, third])
    assert "no paper" in terminal.run(*retry, "--reason", "paper", "--dry-run")
    with terminal.queue() as queue:
        assert queue.get_job_counts("waiting") == {"waiting": 0}

        assert sorted(terminal.read(*retry, "--reason", "paper")["ids"]) == [first, third]
        some = terminal.read(*retry, second, "77", first, code=1)
        assert (some["ids"], list(some["refused"])) == ([second], ["77", first])
        assert "1 job retried" in terminal.run(*retry, "--all")
        assert queue.get_job_counts("waiting") == {"waiting": 4}

        terminal.work(lambda _: None)
        assert "1 job retried" in terminal.run(*retry, fourth, "--state", "completed", "--new-data", '{"a": 1}')
        job = queue.get_job(fourth)
        assert job is not None
        assert job.data == {"a": 1}


def test_limit_of_a_change_is_told(terminal: Terminal) -> None:
    """What a limit left out is not left out silently."""
    failed_jobs(terminal, "paper", "paper", "paper")

    assert "2 jobs retried; there may be more: raise --limit" in terminal.run(
        *("jobs", "retry", "mail", "--name", "print", "--limit", "2")
    )


def test_delayed_jobs_are_promoted_and_jobs_removed(terminal: Terminal) -> None:
    """Delayed jobs are let go, some or all; jobs are removed, and a wrong id is told."""
    with terminal.queue() as queue:
        ids = [queue.add("a", delay=60_000).id for _ in range(3)]

        assert terminal.read("jobs", "promote", "mail", ids[0])["ids"] == [ids[0]]
        assert terminal.read("jobs", "promote", "mail", "--all")["count"] == 2
        assert queue.get_job_counts("waiting") == {"waiting": 3}

        gone = terminal.read("jobs", "remove", "mail", ids[0], "77", code=1)
        assert (gone["ids"], list(gone["refused"])) == ([ids[0]], ["77"])
        assert terminal.read("jobs", "remove", "mail", "--all", "--state", "waiting", "--yes")["count"] == 2
        assert queue.count() == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("jobs", "retry", "mail"), "say which jobs"),
        (("jobs", "retry", "mail", "1", "--all"), "say which jobs"),
        (("jobs", "retry", "mail", "--all", "--state", "delayed"), "expected failed or completed"),
        (("jobs", "retry", "mail", "--all", "--new-data", "1"), "--new-data is for one job"),
        (("jobs", "retry", "mail", "1", "--new-data", "{x"), "--new-data is not JSON"),
        (("jobs", "remove", "mail", "--all", "--state", "lost"), "is no state of a job"),
        (("queues", "clean", "mail", "--older-than", "soon"), "--older-than: expected milliseconds"),
        (("top", "ma:il"), "a queue name holds no colon"),
    ],
)
def test_wrong_use(terminal: Terminal, arguments: tuple[str, ...], told: str) -> None:
    """What cannot work as asked is told in one line, before anything is changed."""
    error = terminal.refused(*arguments)

    assert told in error
    assert len(error.splitlines()) == 1


def test_flow_is_shown(terminal: Terminal) -> None:
    """A flow is shown as a tree, and for programs as nested objects."""
    with sync.FlowProducer(terminal.url, prefix=terminal.prefix) as flows:
        packing = [FlowNode(name=name, queue="print") for name in ("pack", "label")]
        added = flows.add(FlowNode(name="ship", queue="mail", children=packing))

    tree = terminal.run("flow", "mail", added.job.id)
    found = terminal.read("flow", "mail", added.job.id)

    assert "ship" in tree
    assert "0 of 2 children done" in tree
    assert {child["name"] for child in found["children"]} == {"pack", "label"}
    assert found["state"] == "waiting-children"
    assert "job nix does not exist" in terminal.refused("flow", "mail", "nix", code=1)


def test_top_shows_what_runs(terminal: Terminal) -> None:
    """Each look tells of each queue what came, what was done, what waits and what runs."""
    started, may_end = threading.Event(), threading.Event()

    def slow(_: Job) -> None:
        started.set()
        assert may_end.wait(DEADLINE_S)

    with terminal.queue() as queue:
        queue.add("slow")
        queue.add("next")
        with sync.Worker("mail", slow, terminal.url, prefix=terminal.prefix, name="ada") as worker:
            thread = threading.Thread(target=worker.run, kwargs={"until": "drained"})
            thread.start()
            try:
                assert started.wait(DEADLINE_S)
                look = terminal.read("top", "--count", "1", "--interval", "0.2")
                shown = terminal.run("top", "mail", "--count", "1", "--interval", "0.2")
            finally:
                may_end.set()
                thread.join(DEADLINE_S)

    assert (look["queue"], look["counts"]["active"], look["counts"]["waiting"]) == ("mail", 1, 1)
    assert [(job["name"], job["by"]) for job in look["running"]] == [("slow", "ada")]
    assert "slow" in shown


def lines_of(said: str) -> list[dict[str, Any]]:
    """Return the whole lines of JSON that a command wrote so far."""
    return [json.loads(line) for line in said.splitlines(keepends=True) if line.endswith("\n")]


def test_top_goes_on_until_it_is_ended(terminal: Terminal, tmp_path: Any) -> None:
    """It finds new queues while it runs, counts what comes, and Ctrl-C ends it without a traceback."""
    arguments = ("top", "--json", "--interval", "0.1", "--url", terminal.url, "--prefix", terminal.prefix)
    with terminal.queue() as queue:
        queue.add("first")
        with running(*arguments, folder=tmp_path) as command:
            until(lambda: command.said.count("\n") > 1, command)
            for _ in range(20):
                queue.add("a")
            until(lambda: any(line["per_second"]["added"] > 0 for line in lines_of(command.said)), command)
            with terminal.queue("later") as later:
                later.add("a")
            until(lambda: '"later"' in command.said, command)
            command.process.send_signal(2)
            assert command.wait() == 130
            assert "Traceback" not in command.said


def test_top_leaves_what_was_seen_last(terminal: Terminal, tmp_path: Any) -> None:
    """In a terminal, whose screen of before comes back at Ctrl-C, the last look is shown below it."""
    arguments = ("top", "--interval", "0.1", "--url", terminal.url, "--prefix", terminal.prefix)
    with terminal.queue() as queue, running(*arguments, folder=tmp_path, TTY_COMPATIBLE="1", TERM="xterm") as command:
        queue.add("first")
        until(lambda: "mail" in command.said, command)
        command.process.send_signal(2)
        assert command.wait() == 130

    assert "mail" in command.said.rpartition("\x1b[?1049l")[2]


def test_rates() -> None:
    """Jobs a second are counted; where the log was too short, they are told from the time between its events."""
    events: list[Event] = [
        Completed(id="3000-0", job_id="1", return_value=None),
        Waiting(id="2500-0", job_id="2"),
        Added(id="2500-1", job_id="2"),
        Failed(id="2000-0", job_id="3"),
    ]

    assert rates(events, 1_000, 3_000, is_cut=False) == Rates(added=0.5, completed=0.5, failed=0.5)
    assert rates(events, 1_000, 3_000, is_cut=True) == Rates(added=1.0, completed=1.0, failed=1.0)
    assert rates([], 1_000, 1_000, is_cut=False) == Rates()


@pytest.mark.parametrize(
    ("length_ms", "told"),
    [(0, "-"), (-5, "-"), (40, "40ms"), (1_000, "1s"), (61_000, "1m 1s"), (3_600_000, "1h 0m"), (90_061_000, "1d 1h")],
)
def test_span(length_ms: int, told: str) -> None:
    """A length of time is told in its two largest units."""
    assert span(length_ms) == told
