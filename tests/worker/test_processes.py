"""Jobs run in child processes, which may die without harm."""

import asyncio
import multiprocessing
import os
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from echomq import (
    InvalidOption,
    Job,
    JobTimedOut,
    Keys,
    ProcessDied,
    RaisedInProcess,
    Unrecoverable,
    UsageError,
    Worker,
)
from echomq.options import job_options
from echomq.processes.child import live
from echomq.processes.pipe import Run
from support import chores
from support.blocking import Awaited
from support.chores import Strange, add_up, hold, misbehave, report, report_on_a_loop, slow_to_load, where, work_hard
from support.desk import Desk, at_desk, gathered, happens, until
from support.limits import DEADLINE_S, at_once
from support.servers import Server


@pytest_asyncio.fixture
async def desk(redis_server: Server, prefix: str) -> AsyncIterator[Desk]:
    """An empty queue on one server, since children never talk to it."""
    async with at_desk(redis_server.url, prefix) as opened:
        yield opened


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    if not Path("/proc").exists():
        return True
    try:
        # One that nobody has asked after is dead all the same.
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def _gone(*pids: int) -> None:
    async def are_gone() -> bool:
        return not any(map(_is_alive, pids))

    await until(are_gone)


def _pids(path: Path) -> list[int]:
    return [int(pid) for pid in path.read_text().split()] if path.exists() else []


async def _holding(path: Path) -> list[int]:
    """The processes of a job that holds."""

    async def is_there() -> bool:
        return bool(_pids(path))

    await until(is_there)
    return _pids(path)


async def test_jobs_run_in_children(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Children are no forks; there are as many as jobs run at one time, used again, gone with the worker (pain 27)."""
    monkeypatch.setattr(chores, "MARKS", ["of the parent"])
    ids = await desk.add_many(6)
    await desk.worker(where, run_in="process", processes=2).run(until="drained")
    results = [(await desk.job(job_id)).return_value for job_id in ids]
    pids = {result["pid"] for result in results}

    assert [result["data"] for result in results] == list(range(6))
    assert {result["parent"] for result in results} == {os.getpid()}
    assert {tuple(result["marks"]) for result in results} == {()}
    assert len(pids) <= 2
    assert os.getpid() not in pids
    assert not any(map(_is_alive, pids))


async def test_async_functions_keep_their_loop(desk: Desk) -> None:
    """An async def processor runs in a child too, on one event loop for all its jobs."""
    ids = [await desk.add([1, 2, number]) for number in range(3)]
    await desk.worker(add_up, run_in="process").run(until="drained")
    results = [(await desk.job(job_id)).return_value for job_id in ids]

    assert [result["sum"] for result in results] == [3, 4, 5]
    assert len({result["loop"] for result in results}) == 1


@pytest.mark.parametrize("processor", [report, report_on_a_loop])
async def test_context_reaches_the_server(desk: Desk, processor: Any) -> None:
    """Progress, log, data and lock of a job are its worker's to send, and local events are told there."""
    job_id = await desk.add({"new": False})
    worker = desk.worker(processor, run_in="process")
    progress = gathered(worker, "progress", 1)
    await worker.run(until="drained")
    job = await desk.job(job_id)
    result = job.return_value

    assert (result["rows"], result["data"], result["bound"]) == ([1, 2], {"new": True}, True)
    assert (job.progress, job.data) == ({"done": 1}, {"new": True})
    assert await desk.logs(job_id) == ["one", "two"]
    [(_, value)] = await happens(progress)
    assert value == {"done": 1}


FAILURES: dict[str, tuple[str, type[BaseException]]] = {
    "builtin": ("no such thing", LookupError),
    "strange": ("1 and 2", RaisedInProcess),
    "fatal": ("for good", chores.Fatal),
    "no user": ("there is no user 7", chores.NoSuchUser),
    "local": ("support.chores.misbehave.<locals>.Local: only here", Unrecoverable),
    "told": ("support.chores.Told: told set", Unrecoverable),
    "list": ("['a', 'list']", Unrecoverable),
    "interrupt": ("the processor raised KeyboardInterrupt", RuntimeError),
    "leave": ("4", SystemExit),
    "unicode": ("'utf-8' codec can't decode byte 0xff in position 0: bad byte", UnicodeDecodeError),
    "exit": ("the process that ran job {id} exited with code 3", ProcessDied),
    "crash": ("the process that ran job {id} was killed by SIGSEGV", ProcessDied),
}
"""What a job is told to do -> the reason it fails with, and the class of the error."""


async def test_failures_tell_what_happened(desk: Desk) -> None:
    """Errors arrive with reason and stack trace of the child; a child that dies is one failed attempt (pain 27)."""
    ids = {data: await desk.add(data) for data in (*FAILURES, "other")}
    worker = desk.worker(misbehave, run_in="process")
    failed = gathered(worker, "failed", len(FAILURES))
    await worker.run(until="drained")
    errors = {job.data: error for job, error in await happens(failed)}

    for data, (reason, kind) in FAILURES.items():
        job = await desk.job(ids[data])
        assert job.failed_reason == reason.format(id=job.id)
        assert isinstance(errors[data], kind)
        assert kind is ProcessDied or "chores.py" in job.stacktrace[-1] or data == "interrupt"
    assert (await desk.job(ids["other"])).return_value == "fine"
    assert errors["no user"].user_id == 7


async def test_steering_from_a_child(desk: Desk) -> None:
    """Signals steer from a child too, crashed attempts are retried, and what is not JSON fails at once."""
    delayed, crashed, no_json, refused, fatal = [
        await desk.add(data, attempts=2) for data in ("delay", "crash", "no json", "refused", "fatal")
    ]
    await desk.worker(misbehave, run_in="process").run(until="drained")
    jobs = {job_id: await desk.job(job_id) for job_id in (delayed, crashed, no_json, refused, fatal)}

    assert (jobs[delayed].return_value, jobs[delayed].attempts_made) == ("fine", 1)
    assert (jobs[crashed].is_failed, jobs[crashed].attempts_made) == (True, 2)
    assert (jobs[no_json].is_failed, jobs[no_json].attempts_made) == (True, 1)
    assert jobs[refused].return_value is None or jobs[refused].is_failed
    assert (jobs[fatal].is_failed, jobs[fatal].attempts_made) == (True, 1)


@pytest.mark.parametrize(("final", "attempts"), [(Strange, 1), (ArithmeticError, 1), (LookupError, 3)])
async def test_unrecoverable_error_of_a_child(desk: Desk, final: type[Exception], attempts: int) -> None:
    """Classes that the worker calls unrecoverable are known though the error itself cannot leave the child."""
    job_id = await desk.add("strange", attempts=3)
    await desk.worker(misbehave, run_in="process", unrecoverable=final).run(until="drained")

    assert (await desk.job(job_id)).attempts_made == attempts


async def test_children_are_replaced(desk: Desk) -> None:
    """A child runs so many jobs as it may, then another takes its place."""
    ids = await desk.add_many(5)
    await desk.worker(where, run_in="process", max_jobs_per_child=2).run(until="drained")
    pids = [(await desk.job(job_id)).return_value["pid"] for job_id in ids]

    assert len(set(pids)) == 3
    assert pids[0] == pids[1]
    assert pids[2] == pids[3]


async def test_limit_kills_the_process(desk: Desk, tmp_path: Path) -> None:
    """A job that takes too long is killed with all that it has started, and fails with the limit (pain 59)."""
    job_id = await desk.add(str(tmp_path / "held"), timeout=4_000)
    worker = desk.worker(hold, run_in="process")
    failed = gathered(worker, "failed", 1)
    await worker.run(until="drained")
    [(_, error)] = await happens(failed)

    assert isinstance(error, JobTimedOut)
    assert (await desk.job(job_id)).failed_reason == f"job {job_id} ran longer than 4000 ms and was stopped"
    await _gone(*await _holding(tmp_path / "held"))


@pytest.mark.parametrize("make_worker", [Worker, Awaited])
async def test_limit_counts_from_the_start_of_the_job(redis_server: Server, prefix: str, make_worker: Any) -> None:
    """A process that takes longer to start than its job may run harms no job, else none would ever begin."""
    async with at_desk(redis_server.url, prefix, make_worker) as desk:
        await desk.add(timeout=2_000)
        await desk.worker(slow_to_load, run_in="process").run(until="drained")

        assert await desk.counts() == {"completed": 1}


def test_child_leaves_that_starts_when_its_worker_is_gone() -> None:
    """A process that is still starting when its worker is killed leaves as well."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=live, args=(theirs, where))
    child.start()
    theirs.close()
    ours.send(Run(Job.from_options(Keys("work"), "work", None, job_options(), 0), "token"))
    ours.close()
    child.join(DEADLINE_S)
    has_left = child.exitcode is not None
    child.kill()

    assert has_left


async def test_cancelling_kills_the_process(desk: Desk, tmp_path: Path) -> None:
    """A cancelled job is killed at once; closing without patience kills too, and gives the job back."""
    path = tmp_path / "held"
    job_id = await desk.add(str(path))
    async with desk.working(hold, run_in="process") as worker:
        pids = await _holding(path)
        failed = gathered(worker, "failed", 1)
        assert worker.cancel(job_id, "enough")
        await happens(failed)
        await _gone(*pids)

        path.unlink()
        other = await desk.add(str(path))
        pids = await _holding(path)
        with at_once():
            await happens(worker.close(0))
        await _gone(*pids)

    assert (await desk.job(job_id)).failed_reason == "enough"
    assert await desk.counts() == {"failed": 1, "waiting": 1}
    assert (await desk.job(other)).attempts_made == 0


async def test_child_killed_by_others(desk: Desk, tmp_path: Path) -> None:
    """A child that the system kills is one failed attempt that names the signal; one killed idle harms no job."""
    path = tmp_path / "held"
    job_id = await desk.add(str(path))
    async with desk.working(partial(hold), run_in="process") as worker:
        pids = await _holding(path)
        failed = gathered(worker, "failed", 1)
        os.kill(pids[0], signal.SIGKILL)
        await happens(failed)
        os.kill(pids[1], signal.SIGKILL)
    async with desk.working(where, run_in="process"):
        first = await desk.add()
        await desk.until_counts(failed=1, completed=1)
        os.kill((await desk.job(first)).return_value["pid"], signal.SIGKILL)
        await desk.add()
        await desk.until_counts(failed=1, completed=2)

    assert (await desk.job(job_id)).failed_reason == f"the process that ran job {job_id} was killed by SIGKILL"


async def test_killed_worker_leaves_no_orphans(desk: Desk, tmp_path: Path) -> None:
    """When the worker's process is killed, its children notice and leave, in the middle of a job too."""
    path = tmp_path / "held"
    await desk.add(str(path))
    program = textwrap.dedent(
        f"""
        from echomq import Worker
        from support.chores import hold

        if __name__ == "__main__":
            options = dict(prefix={desk.keys.prefix!r}, run_in="process")
            Worker({desk.keys.queue!r}, hold, {desk.url!r}, **options).run_sync()
        """
    )
    script = tmp_path / "program.py"
    script.write_text(program)
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": tests}
    worker = await asyncio.create_subprocess_exec(sys.executable, str(script), env=environment)
    try:
        pids = await _holding(path)
    finally:
        worker.kill()
        await worker.wait()

    await _gone(pids[0])
    await _gone(pids[1])


async def test_busy_child_delays_nothing(desk: Desk) -> None:
    """A job that keeps a processor busy for two lock lives keeps its lock, and the worker's loop stays free."""
    job_id = await desk.add(4)
    late: list[float] = []

    async def watch() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.01)
            late.append(time.monotonic() - begun - 0.01)

    async with desk.working(work_hard, run_in="process", lock_duration=1_500, stalled_interval=200) as worker:
        lost = gathered(worker, "lock_lost", 1)
        watching = asyncio.ensure_future(watch())
        await desk.until_counts(completed=1)
        watching.cancel()

    assert not lost.done()
    assert (await desk.job(job_id)).attempts_started == 1
    assert max(late) < 2


def _local() -> Callable[..., Any]:
    def inner(_: Any) -> None: ...

    return inner


@pytest.mark.parametrize("processor", [lambda _: None, _local(), {"work": where, "other": _local()}])
def test_processor_must_be_importable(processor: Any) -> None:
    """A function that no child could import is refused when the worker is made, with advice."""
    with pytest.raises(UsageError, match="top level of a module"):
        Worker("work", processor, "redis://localhost", run_in="process")


async def _coroutine(_: Any) -> None: ...


def test_places_are_checked() -> None:
    """Places that do not go with the function, and options that do not go with the place, are refused."""
    with pytest.raises(UsageError, match="plain function"):
        Worker("work", where, "redis://localhost", run_in="loop")
    with pytest.raises(UsageError, match="async def"):
        Worker("work", {"a": where, "b": _coroutine}, "redis://localhost", run_in="thread")
    with pytest.raises(InvalidOption, match="run_in"):
        Worker("work", where, "redis://localhost", run_in="fiber")  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(InvalidOption, match="processes"):
        Worker("work", where, "redis://localhost", processes=2)
    with pytest.raises(InvalidOption, match="processes"):
        Worker("work", where, "redis://localhost", run_in="process", processes=2, concurrency=3)
    assert Worker("work", where, "redis://localhost", run_in="process", processes=2).concurrency == 2
