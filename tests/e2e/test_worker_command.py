"""``echomq worker``: processes that are kept running, asked to end, and never left behind."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from echomq.call import Command
from echomq.calls import query
from echomq.calls.add import add_job
from echomq.driver import Connection
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import job_options
from echomq.states import JobState
from echomq.sync import connect
from support.command_line import Running, echomq, running, until
from support.servers import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="ends processes by POSIX signals")

APP = """
import asyncio, os
from echomq import Worker

async def process(job):
    if job.name == "pid":
        return os.getpid()
    if job.name == "slow":
        await asyncio.sleep(job.data)
    return VERSION

VERSION = "first"

def make_worker():
    return Worker("work", process, prefix=os.environ["PREFIX"], concurrency=2, drain_delay=1000, lock_duration=5000)
"""


@attrs.define
class Bench:
    """A queue, and the folder of an application whose worker serves it."""

    folder: Path
    url: str
    keys: Keys
    link: Connection

    def run(self, *options: str, target: str = "app:make_worker") -> contextlib.AbstractContextManager[Running]:
        """Start ``echomq worker`` in the application's folder."""
        return running(*("worker", target, "--url", self.url, *options), folder=self.folder, PREFIX=self.keys.prefix)

    def add(self, name: str, data: object = None) -> str:
        """Add a job and return its id."""
        now_ms = time.time_ns() // 1_000_000
        return self.link.send(add_job(Job.from_options(self.keys, name, data, job_options(), now_ms)))

    def job(self, job_id: str) -> Job:
        """Read a job."""
        found = self.link.send(query.get_job(self.keys, job_id))
        assert found is not None
        return found

    def state(self, job_id: str) -> JobState:
        """Ask where a job is."""
        return self.link.send(query.get_state(self.keys, job_id))

    def result(self, name: str, command: Running, data: object = None) -> object:
        """Add a job, wait until it is done and return its result."""
        job_id = self.add(name, data)
        until(lambda: self.job(job_id).is_completed, command)
        return self.job(job_id).return_value

    def pid(self, command: Running) -> int:
        """Return the process id of a worker, as one of its jobs found it."""
        found = self.result("pid", command)
        assert isinstance(found, int)
        return found


@pytest.fixture
def bench(redis_server: Server, prefix: str, tmp_path: Path) -> Iterator[Bench]:
    """A queue on a real server, and an application in a folder of its own."""
    (tmp_path / "app.py").write_text(APP, "utf-8")
    link = connect(redis_server.url)
    yield Bench(tmp_path, redis_server.url, Keys("work", prefix), link)
    link.close()


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    if not Path("/proc").exists():
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def restarts_of(command: Running) -> int:
    """Count how often a process was started again after it died."""
    return command.said.count("starting it again")


@pytest.mark.parametrize("target", ["app:make_worker", "app:Settings.make_worker"])
def test_jobs_are_done(bench: Bench, target: str) -> None:
    """Something that makes a worker, wherever it is in the module, serves the queue."""
    with (bench.folder / "app.py").open("a", encoding="utf-8") as app:
        app.write("\nclass Settings:\n    make_worker = make_worker\n")

    with bench.run(target=target) as command:
        assert bench.result("any", command) == "first"


def test_a_worker_object(bench: Bench) -> None:
    """A module may also hold the worker itself."""
    with (bench.folder / "app.py").open("a", encoding="utf-8") as app:
        app.write("\nworker = make_worker()\n")

    with bench.run(target="app:worker") as command:
        assert bench.result("any", command) == "first"


AWAY_APP = """
import echomq, echomq.sync

def make_worker():
    return echomq.sync.Worker("work", print)

def make_group():
    return echomq.WorkerGroup({"work": print})
"""


@pytest.mark.parametrize("target", ["app:make_worker", "blocking:make_worker", "blocking:make_group"])
def test_server_that_does_not_answer(bench: Bench, target: str) -> None:
    """A worker whose server is away says so soon, long before its deadline, and ends when it is asked to."""
    (bench.folder / "blocking.py").write_text(AWAY_APP)
    away = attrs.evolve(bench, url="redis://localhost:1?deadline_ms=60000")
    with away.run(target=target) as command:
        until(lambda: "no server has answered yet; the worker goes on asking" in command.said, command)
        command.process.send_signal(signal.SIGTERM)
        assert command.wait() == 0


def test_several_processes(bench: Bench) -> None:
    """With --processes the jobs are done by so many processes, and all end with the command."""
    with bench.run("--processes", "3") as command:
        pids: set[int] = set()

        def all_seen() -> bool:
            pids.add(bench.pid(command))
            return len(pids) == 3

        until(all_seen, command)

        command.process.send_signal(signal.SIGTERM)

        assert command.wait() == 0
    assert all(map(is_gone, pids))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_running_jobs_end_first(bench: Bench, how: signal.Signals) -> None:
    """SIGTERM and Ctrl-C let a running job end, and the exit code says that all is well."""
    with bench.run() as command:
        job_id = bench.add("slow", 1.0)
        until(lambda: bench.state(job_id) is JobState.ACTIVE, command)

        command.process.send_signal(how)

        assert command.wait() == 0
    assert bench.job(job_id).return_value == "first"


def test_second_signal_gives_jobs_back(bench: Bench) -> None:
    """A second signal does not wait: the running job is given back, without using up an attempt."""
    with bench.run() as command:
        job_id = bench.add("slow", 600)
        until(lambda: bench.state(job_id) is JobState.ACTIVE, command)
        command.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in command.said, command)

        command.process.send_signal(signal.SIGTERM)

        assert command.wait() == 0
    assert bench.state(job_id) is JobState.WAITING
    assert bench.job(job_id).attempts_made == 0


def test_deadline_of_the_platform(bench: Bench) -> None:
    """With --close-timeout a job that does not end is given back in time, without using up an attempt (pain 31)."""
    with bench.run("--close-timeout", "0.3s") as command:
        job_id = bench.add("slow", 600)
        until(lambda: bench.state(job_id) is JobState.ACTIVE, command)
        command.process.send_signal(signal.SIGTERM)

        assert command.wait() == 0
    assert bench.state(job_id) is JobState.WAITING
    assert bench.job(job_id).attempts_made == 0


def test_dead_process_is_replaced(bench: Bench) -> None:
    """A worker process that is killed is started again, and said so."""
    with bench.run() as command:
        pid = bench.pid(command)
        os.kill(pid, signal.SIGKILL)

        assert bench.pid(command) != pid

        assert restarts_of(command) == 1
        assert "worker process 1 ended by signal 9" in command.said


def test_no_process_is_left_behind(bench: Bench) -> None:
    """When the command itself is killed, its worker processes end too."""
    with bench.run() as command:
        pid = bench.pid(command)

        command.process.kill()
        command.wait()

        until(lambda: is_gone(pid), command)


def test_module_is_missing(bench: Bench) -> None:
    """A module that does not exist is told in a line, with exit code 2, and nothing is tried again."""
    said = echomq("worker", "no_such_module:worker", "--url", bench.url, folder=bench.folder)

    assert said.code == 2
    assert f"there is no module 'no_such_module', neither installed nor in {bench.folder}" in said.error
    assert "Traceback" not in said.error


@pytest.mark.parametrize(
    ("code", "target", "told"),
    [
        ("import nothing_like_it", "broken:worker", "importing broken failed: ModuleNotFoundError"),
        ("1 / 0", "broken:worker", "importing broken failed: ZeroDivisionError: division by zero"),
        ("make_worker = None", "broken:make_workr", "has no 'make_workr'; did you mean 'make_worker'?"),
        ("def process(job): pass", "broken:process", "cannot be called without arguments"),
        ("worker = 5", "broken:worker", "is int, expected a Worker"),
        ("def make(): return 5", "broken:make", "made int, expected a Worker"),
        ("def make(): return 1 / 0", "broken:make", "broken:make failed: ZeroDivisionError"),
    ],
)
def test_module_is_broken(bench: Bench, code: str, target: str, told: str) -> None:
    """What is wrong with the user's module is told in a line, with the place if its code raised."""
    (bench.folder / "broken.py").write_text(f"{code}\n", "utf-8")

    said = echomq("worker", target, "--url", bench.url, folder=bench.folder)

    assert said.code == 2
    assert told in said.error
    assert "broken.py, line 1)" in said.error or "Error" not in told
    assert "Traceback" not in said.error


def test_reload(bench: Bench) -> None:
    """With --reload a changed file is in effect for the next job, and a mistake only until it is repaired."""
    app = bench.folder / "app.py"
    with bench.run("--reload") as command:
        assert bench.result("any", command) == "first"

        app.write_text(APP.replace('"first"', '"second"'), "utf-8")
        until(lambda: "app.py changed" in command.said, command)
        assert bench.result("any", command) == "second"

        app.write_text("1 / 0", "utf-8")
        until(lambda: "ZeroDivisionError" in command.said, command)
        app.write_text(APP.replace('"first"', '"third"'), "utf-8")
        assert bench.result("any", command) == "third"

        command.process.send_signal(signal.SIGTERM)
        assert command.wait() == 0


def test_embedded_server_for_all_processes(bench: Bench) -> None:
    """With an embedded server all processes use the one of the command."""
    url = f"embedded://{bench.folder}/data"
    bench.url = url
    with bench.run("--processes", "2") as command:
        until(lambda: "Ctrl-C ends it" in command.said, command)
        link = connect(url)
        own = attrs.evolve(bench, link=link)
        assert own.result("any", command) == "first"
        assert link.send(Command(parts=("PING",), decode=bytes)) == b"PONG"
        link.close()
