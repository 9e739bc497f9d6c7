"""What is the blocking worker's own: threads, connections, signals, and what it refuses."""

import asyncio
import contextlib
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import echomq.aio.context
import echomq.sync
from echomq import ConnectionClosed, Job, PluginError, UsageError, plugins
from echomq.hookspecs import hookimpl
from echomq.middleware import Middleware
from echomq.sync import Context, Queue, Worker
from echomq.sync.shift import Shift
from support.limits import AT_ONCE_S, DEADLINE_S, TRIES
from support.servers import Server


@pytest.fixture
def queue(redis_server: Server, prefix: str) -> Iterator[Queue]:
    """An empty queue."""
    with Queue("work", redis_server.url, prefix=prefix) as opened:
        yield opened


MakeWorker = Callable[..., Worker]


@pytest.fixture
def make_worker(redis_server: Server, prefix: str) -> Iterator[MakeWorker]:
    """Makes workers of the queue; those that a failed test leaves at work are ended, since nothing else would."""
    made: list[Worker] = []

    def make(processor: Any, **options: Any) -> Worker:
        made.append(Worker("work", processor, redis_server.url, prefix=prefix, **options))
        return made[-1]

    yield make
    for worker in made:
        if worker.is_running:
            worker.close(0)


def nothing(_: Job) -> None:
    """The least a job can do."""


async def awaited(*_: Any) -> None:
    """What only a worker with an event loop can run."""


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "does not hold in time"
        time.sleep(0.002)


class Gate:
    """A processor whose jobs wait inside until they are let go, or should end."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.inside: list[Any] = []

    def __call__(self, job: Job, ctx: Context) -> Any:
        """Process a job."""
        self.inside.append(job.data)
        until(lambda: self.open.is_set() or ctx.cancelled.is_set())
        if ctx.cancelled.is_set():
            raise RuntimeError("stopped")
        return job.data


def test_coroutines_are_refused(make_worker: MakeWorker, queue: Queue) -> None:
    """Whatever needs an event loop is refused when the worker is made, and the message names the other worker."""
    with pytest.raises(UsageError, match=r"echomq\.Worker"):
        make_worker(awaited)
    with pytest.raises(UsageError, match="event loop"):
        make_worker({"one": nothing, "other": awaited})
    with pytest.raises(UsageError, match="event loop"):
        make_worker(nothing, run_in="loop")
    with pytest.raises(UsageError, match="backoff_strategies"):
        make_worker(nothing, backoff_strategies={"slow": awaited})
    with pytest.raises(UsageError, match="async def"):
        make_worker(nothing).on("failed", awaited)

    job = queue.add("work")
    make_worker(lambda job: awaited(job)).run("drained")
    found = queue.get_job(job.id)
    assert found is not None
    assert "nobody awaits" in (found.failed_reason or "")


def test_nothing_works_before_run(make_worker: MakeWorker) -> None:
    """Making a worker starts no thread, and a run leaves none behind."""
    before = set(threading.enumerate())
    worker = make_worker(nothing, concurrency=5)

    assert set(threading.enumerate()) == before
    worker.run("drained")
    until(lambda: set(threading.enumerate()) == before)


def test_threads_and_connections_are_few(queue: Queue, make_worker: MakeWorker, redis_server: Server) -> None:
    """A busy worker has a thread for each job and four at most beside them, and four connections, whatever it runs."""
    client: Any = redis_server.client()
    gate = Gate()
    for number in range(20):
        queue.add("work", number)
    threads, connections = threading.active_count(), len(client.client_list())
    worker = make_worker(gate, concurrency=20, lock_duration=1_000)
    renewed = threading.Event()
    worker.on("locks_renewed", lambda _: renewed.set())
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: len(gate.inside) == 20)
    assert renewed.wait(DEADLINE_S)
    until(lambda: any(entry["cmd"] == "xread" for entry in client.client_list()))
    # One more to run the worker; then those for the blocking read, for wishes, for stalled jobs, and for locks.
    assert threading.active_count() - threads <= 1 + 20 + 4
    until(lambda: len(client.client_list()) - connections == 4)
    gate.open.set()
    worker.close()
    running.join(DEADLINE_S)
    until(lambda: len(client.client_list()) <= connections)
    client.close()


def _note_thread(ran: list[int], _: Job) -> None:
    ran.append(threading.get_ident())


def test_many_short_jobs_cost_few_calls_and_threads(
    queue: Queue, make_worker: MakeWorker, redis_server: Server
) -> None:
    """Jobs that end at once are reported several in a call, and by few threads, whatever the concurrency."""
    tries: list[tuple[int, int]] = []
    with contextlib.closing(redis_server.client()) as client:
        while len(tries) < TRIES and not any(calls < 130 and threads < 30 for calls, threads in tries):
            ran: list[int] = []
            worker = make_worker(partial(_note_thread, ran), concurrency=40, skip_stalled_check=True)
            queue.add_bulk([("work", number) for number in range(400)])
            client.config_resetstat()
            worker.run("drained")
            assert len(ran) == 400
            tries.append((client.info("commandstats")["cmdstat_evalsha"]["calls"], len(set(ran))))

    assert any(calls < 130 and threads < 30 for calls, threads in tries), tries


def test_jobs_that_end_are_not_held_up_by_others(queue: Queue, make_worker: MakeWorker) -> None:
    """The end of a job is stored while those it was taken with go on for long, in as many threads as it takes."""
    gate = Gate()
    quick = queue.add_bulk([("quick", number) for number in range(10)])
    slow = queue.add_bulk([("slow", number) for number in range(10)])
    worker = make_worker({"quick": nothing, "slow": gate}, concurrency=20)
    running = threading.Thread(target=worker.run)
    running.start()
    until(lambda: len(gate.inside) == 10 and len(queue.get_job_ids("completed")) == len(quick))
    gate.open.set()
    until(lambda: len(queue.get_job_ids("completed")) == len(quick) + len(slow))
    worker.close()
    running.join(DEADLINE_S)


def test_listeners_of_jobs_run_in_their_threads(queue: Queue, make_worker: MakeWorker) -> None:
    """Events of a job are told in threads of jobs, all others in the thread that runs the worker."""
    told: dict[str, int] = {}
    seen: list[int] = []
    worker = make_worker(lambda _: seen.append(threading.get_ident()))
    for event in ("ready", "active", "completed", "drained", "closing", "closed"):
        worker.on(event, lambda *_, event=event: told.setdefault(event, threading.get_ident()))
    queue.add("work")
    worker.run("drained")

    here = threading.get_ident()
    assert {event for event, thread in told.items() if thread == here} == {"ready", "drained", "closing", "closed"}
    assert told["active"] == told["completed"] == seen[0]


def test_job_may_stop_its_worker_but_not_wait_for_it(queue: Queue, make_worker: MakeWorker) -> None:
    """A job or listener that would wait for its own worker is told so, and can stop or pause it without waiting."""

    def work(_: Job) -> str:
        for wait in (worker.close, worker.pause):
            with pytest.raises(UsageError, match="wait for itself"):
                wait()
        worker.stop()
        return "stopped"

    def listen() -> None:
        with pytest.raises(UsageError, match="wait for itself"):
            worker.close()
        heard.append("ready")

    heard: list[str] = []
    worker = make_worker(work)
    worker.on("ready", listen)
    job = queue.add("work")
    worker.run()

    found = queue.get_job(job.id)
    assert found is not None
    assert (found.return_value, heard) == ("stopped", ["ready"])


def test_block_left_by_an_exception_waits_for_no_job(queue: Queue, make_worker: MakeWorker) -> None:
    """A ``with`` block left by an exception tells jobs to end, and gives them back."""
    gate = Gate()
    queue.add("work")
    running: list[threading.Thread] = []

    def host() -> None:
        with make_worker(gate) as worker:
            running.append(threading.Thread(target=worker.run))
            running[0].start()
            until(lambda: bool(gate.inside))
            raise KeyError("the host failed")

    with pytest.raises(KeyError):
        host()
    running[0].join(DEADLINE_S)

    assert queue.count() == 1


def test_own_connection_is_left_open(queue: Queue, redis_server: Server, prefix: str) -> None:
    """A connection that the host gave is used and stays open; once it is closed, the run ends with an error."""
    connection = echomq.sync.connect(redis_server.url)
    queue.add("work")
    worker = Worker("work", nothing, connection, prefix=prefix, drain_delay=100)
    worker.run("drained")
    assert connection.server().name

    worker.on("drained", connection.close)
    with pytest.raises(ConnectionClosed):
        worker.run()


@pytest.mark.parametrize(("ending", "state"), [("returns", "completed"), ("raises", "waiting"), ("goes on", "waiting")])
def test_forced_close_under_a_frozen_server(
    queue: Queue, make_worker: MakeWorker, redis_server: Server, ending: str, state: str
) -> None:
    """A worker forced to end while its server is frozen leaves no job locked, and none that ended runs again."""
    gone, inside = threading.Event(), threading.Semaphore(0)

    def work(job: Job, ctx: Context) -> Any:
        inside.release()
        if ending == "goes on":
            return gone.wait(DEADLINE_S)
        assert ctx.cancelled.wait(DEADLINE_S)
        if ending == "raises":
            raise RuntimeError("stopped")
        return job.data

    queue.add_bulk([("work", number) for number in range(8)])
    worker = make_worker(work, concurrency=8)
    running = threading.Thread(target=worker.run)
    running.start()
    assert all(inside.acquire(timeout=DEADLINE_S) for _ in range(8))
    redis_server.pause()
    begun = time.monotonic()
    worker.close(0)
    running.join(DEADLINE_S)
    assert time.monotonic() - begun < AT_ONCE_S
    redis_server.resume()
    gone.set()

    until(lambda: len(queue.get_job_ids(state)) == 8)
    assert not queue.get_job_ids("active")
    assert sorted(queue.get_job_ids(state)) == sorted(set(queue.get_job_ids(state)))


def send_soon(
    worker: Worker, numbers: list[signal.Signals], when: Callable[[], bool], then: Callable[[], object]
) -> threading.Thread:
    """Send signals to this process, the second one when the worker has heard the first."""
    heard = threading.Event()
    worker.on("closing", heard.set)

    def send() -> None:
        until(when)
        for number in numbers:
            os.kill(os.getpid(), number)
            heard.wait(DEADLINE_S)
        then()

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_first_signal_ends_gracefully(queue: Queue, make_worker: MakeWorker, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C let running jobs end, and the handlers of before are back afterwards (pain 31)."""
    gate, before = Gate(), signal.getsignal(number)
    queue.add_bulk([("work", 1), ("work", 2)])
    worker = make_worker(gate)
    sending = send_soon(worker, [number], lambda: bool(gate.inside), gate.open.set)
    worker.run()
    sending.join()

    assert (gate.inside, queue.count()) == ([1], 1)
    assert signal.getsignal(number) is before


def test_second_signal_forces(queue: Queue, make_worker: MakeWorker) -> None:
    """A second SIGTERM ends at once, and running jobs wait again without having used an attempt (pain 31)."""
    gate = Gate()
    job = queue.add("work", 1)
    worker = make_worker(gate)
    sending = send_soon(worker, [signal.SIGTERM] * 2, lambda: bool(gate.inside), lambda: None)
    worker.run()
    sending.join()
    found = queue.get_job(job.id)

    assert queue.count() == 1
    assert found is not None
    assert found.attempts_made == 0


def test_unhandled_interrupt_ends_the_run(queue: Queue, make_worker: MakeWorker) -> None:
    """Where the host leaves Ctrl-C alone, it ends the run as any other code, and running jobs wait again."""
    gate = Gate()
    queue.add("work", 1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        worker = make_worker(gate)
        sending = send_soon(worker, [signal.SIGINT], lambda: bool(gate.inside), lambda: None)
        with pytest.raises(KeyboardInterrupt):
            worker.run(handle_signals=False)
        sending.join()
    finally:
        signal.signal(signal.SIGINT, before)

    assert queue.count() == 1


def test_steered_by_a_signal_handler(queue: Queue, make_worker: MakeWorker) -> None:
    """A handler of signals may pause, resume, widen and stop the worker of its thread, whatever that is doing."""
    worker, wishes = make_worker(nothing, concurrency=4), iter(range(1_000))

    def steer(*_: Any) -> None:
        wish = next(wishes)
        worker.pause(wait=False)
        worker.concurrency = 1 + wish % 4
        worker.resume()
        if wish == 300:
            worker.stop()

    def send() -> None:
        while not ended.is_set():
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.001)

    ended = threading.Event()
    before = signal.signal(signal.SIGUSR1, steer)
    sending = threading.Thread(target=send)
    try:
        queue.add_bulk([("work", number) for number in range(500)])
        sending.start()
        worker.run()
    finally:
        ended.set()
        sending.join()
        signal.signal(signal.SIGUSR1, before)

    assert next(wishes) > 300
    assert not queue.get_job_ids("active")


def test_steered_in_the_moment_a_run_begins(
    queue: Queue, make_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asked of a worker between two steps of a run that begins is not lost."""
    together = threading.Barrier(3)
    worker = make_worker(lambda _: together.wait(DEADLINE_S))
    begin = Shift

    def begin_while_steered(**settings: Any) -> Any:
        shift = begin(**settings)
        worker.resume()
        worker.concurrency = 3
        return shift

    monkeypatch.setattr("echomq.sync.worker.Shift", begin_while_steered)
    queue.add_bulk([("work", number) for number in range(3)])
    worker.pause()
    worker.run("drained")

    assert len(queue.get_job_ids("completed")) == 3


class Hearing:
    """A plugin with hooks and layers of both kinds."""

    def __init__(self, required: bool) -> None:
        self.required = required
        self.heard: list[str] = []

    @hookimpl
    def echomq_job_completed(self, result: str) -> None:
        """Hear of a result."""
        self.heard.append(result)

    @hookimpl
    async def echomq_job_failed(self) -> None:
        """Hear of a failure, on an event loop."""
        self.heard.append("never")

    @hookimpl
    def echomq_register_middleware(self) -> list[Middleware]:
        """Bring layers."""

        def plain(job: Job) -> Any:
            self.heard.append("before")
            result = yield job
            return f"{result}, seen"

        async def waiting(job: Job) -> Any:
            self.heard.append("never")
            yield job

        return [Middleware(around_processing=plain), Middleware(around_processing=waiting, required=self.required)]


@pytest.mark.parametrize("required", [False, True])
def test_async_plugins_are_left_out(
    queue: Queue, make_worker: MakeWorker, caplog: pytest.LogCaptureFixture, required: bool
) -> None:
    """Plain hooks and layers of plugins run around jobs; async ones are named and left out, a required one refused."""
    plugin = Hearing(required)
    plugins.register(plugin, "hearing")
    try:
        if required:
            with pytest.raises(PluginError, match="hearing"):
                make_worker(nothing)
            return
        job = queue.add("work")
        make_worker(lambda _: "done").run("drained")
    finally:
        plugins.unregister("hearing")
    found = queue.get_job(job.id)

    assert found is not None
    assert found.return_value == "done, seen"
    assert plugin.heard == ["before", "done, seen"]
    assert sum("echomq_job_failed is async" in record.getMessage() for record in caplog.records) == 1
    assert sum("around_processing is async" in record.getMessage() for record in caplog.records) == 1


def double(job: Job) -> Any:
    """Run in a child process."""
    return [job.data * 2, os.getpid()]


async def double_awaited(job: Job, ctx: Any) -> Any:
    """Run in a child process, which has an event loop for it."""
    await ctx.progress(50)
    await asyncio.sleep(0)
    return double(job)


@pytest.mark.parametrize("processor", [double, double_awaited])
def test_jobs_run_in_child_processes(queue: Queue, make_worker: MakeWorker, processor: Any) -> None:
    """With ``run_in="process"`` jobs run in child processes, coroutines too, and the processes end with the run."""
    job = queue.add("work", 21)
    make_worker(processor, run_in="process").run("drained")
    found = queue.get_job(job.id)

    assert found is not None
    value, pid = found.return_value
    assert value == 42
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_threads_fetch_from_one_worker(queue: Queue, make_worker: MakeWorker) -> None:
    """Many threads may fetch from one worker at once: each job goes to one of them, taken once."""
    added = queue.add_bulk([("work", number) for number in range(40)])
    worked: list[int] = []

    def fetch_all(worker: Worker) -> None:
        while (fetched := worker.fetch(2_000)) is not None:
            with fetched:
                worked.append(fetched.job.data)

    with make_worker(None, concurrency=3) as worker:
        threads = [threading.Thread(target=fetch_all, args=(worker,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)

    assert sorted(worked) == list(range(40))
    found = [queue.get_job(job.id) for job in added]
    assert {(job.is_completed, job.attempts_started) for job in found if job is not None} == {(True, 1)}


def test_interrupted_work_waits_again(queue: Queue, make_worker: MakeWorker) -> None:
    """Ctrl-C in the block of a fetched job costs it no attempt, unlike an error: the job waits again."""
    job = queue.add("work")
    with make_worker(None) as worker:
        fetched = worker.fetch(timeout=60_000)
        assert fetched is not None
        with pytest.raises(KeyboardInterrupt), fetched:
            raise KeyboardInterrupt

    found = queue.get_job(job.id)
    assert found is not None
    assert (found.attempts_made, queue.count()) == (0, 1)


def test_closed_connection_ends_fetches(queue: Queue, redis_server: Server, prefix: str) -> None:
    """Who fetches or completes when the connection's owner has closed it hears so."""
    queue.add("work")
    connection = echomq.sync.connect(redis_server.url)
    worker = Worker("work", None, connection, prefix=prefix)
    fetched = worker.fetch(timeout=60_000)
    assert fetched is not None
    connection.close()
    with pytest.raises(ConnectionClosed):
        fetched.complete()
    for _ in range(2):
        with pytest.raises(ConnectionClosed):
            worker.fetch(timeout=60_000)


def test_contexts_are_twins() -> None:
    """What ``ctx`` offers in one shell it offers in the other, with the same parameters."""
    ours, theirs = echomq.aio.context.Context, Context
    public = [name for name in vars(ours) if not name.startswith("_")]

    for name in public:
        assert name in vars(theirs) or name in {"job", "token", "rows"}
        if callable(getattr(ours, name, None)):
            ours_takes, theirs_takes = (inspect.signature(getattr(one, name)).parameters for one in (ours, theirs))
            assert list(ours_takes.values()) == list(theirs_takes.values()), name
