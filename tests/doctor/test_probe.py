"""The probe of a worker, and ``echomq check``: red when nothing gets through, green again afterwards."""

import asyncio
import contextlib
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from echomq import Job, UsageError, Worker
from echomq.cli import main
from echomq.health import Verdict, Vitals, exposition, judge, usual_silence_s
from echomq.options import worker_options
from echomq.probe import Probe
from echomq.serving import parse_place
from support.command_line import echomq, running, until
from support.desk import gathered, happens
from support.limits import DEADLINE_S
from support.servers import Server, Servers, free_port

SILENCE_MS = 1_500


def get(port: int, path: str) -> tuple[int, str]:
    """Ask a probe."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=DEADLINE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def turns(port: int, path: str, status: int) -> str:
    """Wait until a probe answers with a status, and return what it says."""

    def wait() -> str:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            found, text = get(port, path)
            if found == status:
                return text
            assert time.monotonic() < deadline, (path, found, text)
            time.sleep(0.02)

    return await asyncio.to_thread(wait)


async def nothing(_: Job) -> None:
    """Do no work."""


def worker_of(server: Server, prefix: str, processor: object = nothing) -> Worker:
    """A worker that hears from its server several times a second."""
    return Worker("work", processor, server.url, prefix=prefix, drain_delay=200, lock_duration=2_000)  # type: ignore[arg-type]  # any processor


async def test_ready_follows_the_server(servers: Servers, prefix: str) -> None:
    """A frozen server turns /ready red and leaves /live green; when it goes on, /ready is green again (pain 16)."""
    server = servers.start("redis")
    async with worker_of(server, prefix) as worker:
        with Probe(worker, "127.0.0.1:0", silence=SILENCE_MS) as probe:
            assert await asyncio.to_thread(get, probe.port, "/ready") == (503, "the worker has not begun\n")
            running = asyncio.ensure_future(worker.run())
            assert await turns(probe.port, "/ready", 200) == "ok\n"

            server.pause()
            assert "the server has not answered for" in await turns(probe.port, "/ready", 503)
            assert await asyncio.to_thread(get, probe.port, "/live") == (200, "ok\n")

            server.resume()
            assert await turns(probe.port, "/ready", 200) == "ok\n"
            await worker.close()
            await happens(running)
            assert await asyncio.to_thread(get, probe.port, "/live") == (503, "the worker has ended\n")


async def test_not_ready_before_the_first_answer(prefix: str) -> None:
    """A worker whose server was never there is alive and not ready from the first moment on."""
    worker = Worker("work", nothing, "redis://127.0.0.1:1", prefix=prefix)
    with Probe(worker, "127.0.0.1:0") as probe:
        running = asyncio.ensure_future(worker.run())
        await asyncio.sleep(0)
        assert await turns(probe.port, "/ready", 503) == "the server has not answered yet\n"
        assert await asyncio.to_thread(get, probe.port, "/live") == (200, "ok\n")
        await worker.close()
        await happens(running)


async def test_blocked_loop_is_not_live(redis_server: Server, prefix: str) -> None:
    """A job that blocks the event loop for too long turns /live red, and the probe answers all the same."""
    told: list[tuple[int, str]] = []

    async with worker_of(redis_server, prefix) as worker:
        with Probe(worker, "127.0.0.1:0", silence=SILENCE_MS) as probe:
            running = asyncio.ensure_future(worker.run())
            await turns(probe.port, "/live", 200)
            asked = threading.Event()

            def ask() -> None:
                deadline = time.monotonic() + DEADLINE_S
                while time.monotonic() < deadline and not (told and told[-1][0] == 503):
                    told.append(get(probe.port, "/live"))
                    time.sleep(0.02)
                asked.set()

            threading.Thread(target=ask).start()
            asked.wait(DEADLINE_S)  # blocks the loop
            assert "the event loop has not answered for" in told[-1][1]
            await turns(probe.port, "/live", 200)
            await worker.close()
            await happens(running)


async def test_metrics(redis_server: Server, prefix: str) -> None:
    """/metrics counts what the worker did, in the text format of Prometheus, without any data of jobs."""
    from echomq import add

    async def work(job: Job) -> None:
        if job.data == "secret-bad":
            raise ValueError("secret-reason")

    async with worker_of(redis_server, prefix, work) as worker:
        failed, done = gathered(worker, "failed", 1), gathered(worker, "completed", 2)
        with Probe(worker, "127.0.0.1:0") as probe:
            running = asyncio.ensure_future(worker.run())
            for data in ("secret-1", "secret-bad", "secret-2"):
                await add("work", "n", data, connection=redis_server.url, prefix=prefix)
            await happens(failed)
            await happens(done)
            status, text = await asyncio.to_thread(get, probe.port, "/metrics")
            assert (await asyncio.to_thread(get, probe.port, "/x"))[0] == 404
            await worker.close()
            await happens(running)

    assert status == 200
    assert 'echomq_worker_jobs_completed_total{queue="work"} 2\n' in text
    assert 'echomq_worker_attempts_failed_total{queue="work"} 1\n' in text
    assert 'echomq_worker_up{queue="work"} 1\n' in text
    assert "secret" not in text


def test_slow_clients_do_not_hold_it_up(redis_server: Server, prefix: str) -> None:
    """Clients that connect and say nothing keep no thread for long, and the port is free after the block."""
    with Probe(worker_of(redis_server, prefix), "127.0.0.1:0") as probe, contextlib.ExitStack() as stack:
        for _ in range(7):
            stack.enter_context(socket.create_connection(("127.0.0.1", probe.port)))
        assert get(probe.port, "/live")[0] == 200
    with Probe(worker_of(redis_server, prefix), f"127.0.0.1:{probe.port}") as again:
        assert get(again.port, "/live")[0] == 200


RUNS = Vitals(has_begun=True, is_connected=True, silent_for_s=1.0)


@pytest.mark.parametrize(
    ("vitals", "live", "ready"),
    [
        (RUNS, True, True),
        (Vitals(), True, False),
        (Vitals(has_begun=True, silent_for_s=0.1), True, False),
        (Vitals(has_begun=True, is_connected=True, silent_for_s=61), True, False),
        (Vitals(has_begun=True, is_connected=True, silent_for_s=1, deaf_for_s=61), False, False),
        (Vitals(has_begun=True, is_connected=True, silent_for_s=1, is_closing=True), True, False),
        (Vitals(has_begun=True, is_connected=True, has_ended=True), False, False),
    ],
)
def test_verdicts(vitals: Vitals, live: bool, ready: bool) -> None:
    """A silent server makes a worker not ready, and only its own end or a blocked loop makes it not alive."""
    verdict = judge(vitals, 60)

    assert (verdict.is_live, verdict.is_ready) == (live, ready)
    assert (verdict.reason == "ok") == ready
    assert verdict == Verdict(is_live=live, is_ready=ready, reason=verdict.reason)


def test_usual_silence() -> None:
    """What silence is usual follows from the options of the worker."""
    assert usual_silence_s(worker_options()) == 60
    assert usual_silence_s(worker_options(drain_delay=90_000)) == 180
    assert usual_silence_s(worker_options(maximum_rate_limit_delay=1_000, lock_duration=1_000)) == 20


def test_labels_are_escaped() -> None:
    """Names with quotes and line ends stay one label each."""
    text = exposition('a"b\nc', "w\\1", {"up": 1})

    assert text.splitlines()[-1] == r'echomq_worker_up{queue="a\"b\nc",worker="w\\1"} 1'


@pytest.mark.parametrize("place", ["8080", "localhost", "localhost:http", ":80", "h:70000", "h:-1"])
def test_wrong_place(place: str) -> None:
    """A place that is no HOST:PORT is refused with an example."""
    with pytest.raises(UsageError, match=r"127\.0\.0\.1:8080"):
        parse_place(place)


# -- echomq check -------------------------------------------------------------------------------


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs ``echomq check`` here and gives its exit code and what it said."""

    def leave(code: int) -> None:
        raise SystemExit(code)

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("os._exit", leave)
        try:
            code = main(["check", *arguments])
        except SystemExit as ended:
            code = int(str(ended.code))
        said = capfd.readouterr()
        return code, said.out + said.err

    return run


def test_check(servers: Servers, prefix: str, check: Callable[..., tuple[int, str]]) -> None:
    """The check passes while the server answers, and fails by its deadline when that is frozen or gone (pain 16)."""
    server = servers.start("redis")

    well = check("work", "--url", server.url, "--prefix", prefix, "--timeout", "30s")
    assert well == (0, "well: queue work can be read; it holds nothing yet\n")
    server.pause()
    began_s = time.monotonic()
    frozen = echomq("check", "--url", server.url, "--timeout", "700ms")
    took_s = time.monotonic() - began_s
    server.resume()
    server.kill()
    gone = check("--url", server.url, "--timeout", "2s")

    assert frozen.code == 1
    assert frozen.error.startswith("unwell: ")
    assert "within" in frozen.error
    assert took_s < 0.7 + 30  # most of it is the start of an interpreter
    assert gone[0] == 1
    assert gone[1].startswith("unwell: ")
    assert "connection refused" in gone[1]


def test_check_of_a_replica(servers: Servers, check: Callable[..., tuple[int, str]]) -> None:
    """A replica is unwell, since it takes no changes."""
    master = servers.start("redis")
    replica = servers.start("redis", args=("--replicaof", master.host, str(master.port)))

    assert check("--url", replica.url) == (1, "unwell: the server is a replica, which takes no changes\n")


def test_check_of_workers(redis_server: Server, prefix: str, check: Callable[..., tuple[int, str]]) -> None:
    """A queue with too few workers is unwell."""
    said = check("work", "--workers", "1", "--url", redis_server.url, "--prefix", prefix)

    assert said == (1, "unwell: 0 workers of queue work are connected, expected 1\n")


def test_check_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A wish for workers without a queue is wrong use."""
    assert main(["check", "--workers", "1", "--url", "redis://localhost"]) == 2
    assert "--workers needs the name of a QUEUE" in capsys.readouterr().err


APP = """
import os
from echomq import Worker

async def process(job):
    return None

def make_worker():
    return Worker("work", process, prefix=os.environ["PREFIX"], drain_delay=200, lock_duration=2000)
"""


def two_ports() -> int:
    """A port that is free, as is the next one, and that no outgoing connection gets."""
    while True:
        port = free_port()
        with socket.socket() as neighbour, contextlib.suppress(OSError):
            neighbour.bind(("127.0.0.1", port + 1))
            return port


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder with a worker."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def test_worker_command_with_probe(redis_server: Server, prefix: str, app: Path) -> None:
    """``echomq worker --probe`` answers in each process, which ``echomq check --probe`` asks."""
    port = two_ports()
    options = ("--processes", "2", "--probe", f"127.0.0.1:{port}", "--probe-silence", "5s")

    with running(
        "worker", "app:make_worker", "--url", redis_server.url, *options, folder=app, PREFIX=prefix
    ) as command:
        until(lambda: _is_ready(port) and _is_ready(port + 1), command)
        said = echomq("check", "--probe", f"127.0.0.1:{port + 1}")
        command.process.terminate()
        assert command.wait() == 0

    assert (said.code, said.out) == (0, f"well: the worker at 127.0.0.1:{port + 1} is ready\n")
    assert echomq("check", "--probe", f"127.0.0.1:{port}").code == 1


BLOCKING_APP = """
import os
from echomq.sync import Worker

def process(job):
    return None

def make_worker():
    return Worker("work", process, prefix=os.environ["PREFIX"], drain_delay=200, lock_duration=2000)
"""


def test_blocking_worker_with_probe(redis_server: Server, prefix: str, app: Path) -> None:
    """A worker of the blocking shell is run, probed and ended by ``echomq worker`` as well."""
    (app / "app.py").write_text(BLOCKING_APP)
    port = two_ports()
    options = ("--probe", f"127.0.0.1:{port}", "--url", redis_server.url)

    with running("worker", "app:make_worker", *options, folder=app, PREFIX=prefix) as command:
        until(lambda: _is_ready(port), command)
        assert get(port, "/live") == (200, "ok\n")
        command.process.terminate()
        assert command.wait() == 0


def _is_ready(port: int) -> bool:
    try:
        return get(port, "/ready")[0] == 200
    except OSError:
        return False
