"""A worker's life: it runs when asked, pauses, changes, and ends as told."""

import asyncio
import base64
import os
import signal
import threading
import time
from typing import Any

import anyio
import attrs
import pytest
import redis.asyncio
import valkey.asyncio

import echomq
from echomq import ConnectionClosed, InvalidOption, Job, UnknownOption, UsageError, Worker
from echomq.aio.context import Context, ThreadContext
from support.desk import Desk, gathered, happens, until
from support.limits import AT_ONCE_S, DEADLINE_S, at_once, best_of
from support.proxy import proxy_to
from support.servers import Server


class Gate:
    """A processor whose jobs wait inside until they are let go; tells how many are inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside = 0
        self.most = 0
        self.seen: list[Any] = []
        self._changed = asyncio.Condition()

    async def __call__(self, job: Job) -> Any:
        """Process a job."""
        self.seen.append(job.data)
        await self._move(1)
        try:
            await self.open.wait()
        finally:
            await self._move(-1)
        return job.data

    async def _move(self, by: int) -> None:
        async with self._changed:
            self.inside += by
            self.most = max(self.most, self.inside)
            self._changed.notify_all()

    async def until_inside(self, count: int) -> None:
        """Wait until so many jobs are inside."""
        async with self._changed:
            await happens(self._changed.wait_for(lambda: self.inside == count))


async def nothing(job: Job) -> None:
    """The least a job can do."""


async def test_nothing_works_before_run(desk: Desk) -> None:
    """Making a worker starts nothing: no connection, no thread, no task."""
    before = (threading.active_count(), len(asyncio.all_tasks()))

    worker = desk.worker(nothing)

    assert (threading.active_count(), len(asyncio.all_tasks())) == before
    assert not worker.is_running
    await worker.close()


async def test_concurrency_is_the_limit(desk: Desk) -> None:
    """As many jobs run at one time as the worker has slots, and no more."""
    gate = Gate()
    await desk.add_many(20)

    async with desk.working(gate, concurrency=7):
        await gate.until_inside(7)
        gate.open.set()
        await desk.until_counts(completed=20)

    assert gate.most == 7


async def test_concurrency_changes_while_running(desk: Desk) -> None:
    """More slots fill at once, and with fewer slots the number of running jobs goes down as they end."""
    gate = Gate()
    await desk.add_many(8)

    async with desk.working(gate, concurrency=2) as worker:
        await gate.until_inside(2)
        worker.concurrency = 5
        await gate.until_inside(5)
        worker.concurrency = 1
        gate.most = 0
        gate.open.set()
        await desk.until_counts(completed=8)
        assert worker.concurrency == 1
        with pytest.raises(InvalidOption, match="concurrency"):
            worker.concurrency = 0


async def test_plain_functions_run_side_by_side(desk: Desk) -> None:
    """Plain functions run in as many threads as there are slots."""
    together = threading.Barrier(6)

    def meet(_: Job) -> None:
        together.wait(timeout=DEADLINE_S)

    await desk.add_many(12)
    await happens(desk.worker(meet, concurrency=6).run(until="drained"))

    assert await desk.counts() == {"completed": 12}


async def test_events_of_a_run(desk: Desk) -> None:
    """A run tells its host what happens, in order."""
    told: list[str] = []
    await desk.add()
    worker = desk.worker(nothing)
    for event in ("ready", "active", "completed", "drained", "closing", "closed"):
        worker.on(event, lambda *_, name=event: told.append(name))

    await worker.run(until="drained")

    assert told == ["ready", "active", "completed", "drained", "closing", "closed"]


async def test_listener_as_decorator_and_removed(desk: Desk) -> None:
    """A listener may be added by a decorator, be async, and be removed again."""
    told: list[Any] = []
    worker = desk.worker(nothing)

    @worker.on("completed")
    async def tell(job: Job, result: Any) -> None:
        told.append((job.data, result))

    await desk.add("first")
    await worker.run(until="drained")
    worker.off("completed", tell)
    await desk.add("second")
    await worker.run(until="drained")

    assert told == [("first", None)]


def test_unknown_event_is_refused() -> None:
    """A misspelt event is refused, with the nearest name."""
    worker = Worker("work", nothing, "redis://localhost")

    with pytest.raises(UnknownOption, match="completed"):
        worker.on("complete", print)


def test_unknown_option_is_refused() -> None:
    """A misspelt option is refused, with the nearest name, also where it is spelt as in other runtimes."""
    with pytest.raises(UnknownOption, match="lock_duration"):
        Worker("work", nothing, "redis://localhost", lockDuration=5)  # type: ignore[call-arg]  # the mistake under test


async def test_until_must_be_known(desk: Desk) -> None:
    """An end that the worker does not know is refused before it works."""
    with pytest.raises(UsageError, match="drained"):
        await desk.worker(nothing).run(until="empty")  # type: ignore[arg-type]  # the mistake under test


async def test_second_run_is_refused(desk: Desk) -> None:
    """A worker that runs cannot be run again at the same time."""
    async with desk.working(nothing) as worker:
        with pytest.raises(UsageError, match="runs already"):
            await worker.run()


async def test_until_drained_waits_for_near_retries(desk: Desk) -> None:
    """A worker that works until its queue is drained waits for retries due within its drain delay, not for tomorrow."""
    runs: list[Any] = []

    async def fail_once(job: Job) -> None:
        runs.append(job.data)
        if job.attempts_made == 0:
            raise OSError("x")

    await desk.add("retried", attempts=2, backoff=200)
    await desk.add("tomorrow", delay=86_400_000)
    await happens(desk.worker(fail_once).run(until="drained"))

    assert runs == ["retried", "retried"]
    assert await desk.counts() == {"completed": 1, "delayed": 1}


async def test_pause_is_local_and_waits(desk: Desk) -> None:
    """A paused worker ends its running jobs and takes no other, while another worker goes on."""
    gate = Gate()
    await desk.add("inside")
    async with desk.working(gate) as worker:
        await gate.until_inside(1)
        pausing = asyncio.ensure_future(worker.pause())
        await desk.add("outside")
        gate.open.set()
        await happens(pausing)
        assert worker.is_paused
        assert await desk.counts() == {"completed": 1, "waiting": 1}

        await desk.worker(nothing).run(until="drained")
        assert await desk.counts() == {"completed": 2}

        await desk.add("after")
        worker.resume()
        await desk.until_counts(completed=3)


async def test_pause_need_not_wait(desk: Desk) -> None:
    """With wait=False a pause returns while jobs still run."""
    gate = Gate()
    await desk.add()
    async with desk.working(gate) as worker:
        await gate.until_inside(1)
        await happens(worker.pause(wait=False), AT_ONCE_S)
        assert gate.inside == 1
        gate.open.set()


async def test_paused_before_run(desk: Desk) -> None:
    """A worker paused before it runs takes nothing until it is resumed."""
    await desk.add()
    worker = desk.worker(nothing)
    await worker.pause()
    running = asyncio.ensure_future(worker.run())
    await asyncio.sleep(0)
    assert await desk.counts() == {"waiting": 1}

    worker.resume()
    await desk.until_counts(completed=1)
    await worker.close()
    await running


@pytest.mark.parametrize(("count", "limit_s"), [(1, 0.2), (50, 1.0)])
async def test_idle_close_is_quick(desk: Desk, count: int, limit_s: float) -> None:
    """Closing an idle worker takes under 200 ms, fifty under a second, however long they wait for jobs (pain 30)."""

    async def took_s() -> float:
        workers = [desk.worker(nothing, drain_delay=30_000) for _ in range(count)]
        drained = [gathered(worker, "drained", 1) for worker in workers]
        running = [asyncio.ensure_future(worker.run()) for worker in workers]
        await happens(asyncio.gather(*drained))

        begun = time.monotonic()
        await asyncio.gather(*(worker.close() for worker in workers))
        took = time.monotonic() - begun
        await asyncio.gather(*running)
        return took

    await best_of(took_s, limit_s)


async def test_close_stores_the_results_of_running_jobs(desk: Desk) -> None:
    """Jobs that run when the close begins end and are recorded, each run once (pain 29 and 32)."""
    gate = Gate()
    await desk.add_many(30)
    async with desk.working(gate, concurrency=20) as worker:
        begun = gathered(worker, "closing", 1)
        await gate.until_inside(20)
        closing = asyncio.ensure_future(worker.close())
        await happens(begun)
        assert not closing.done()
        gate.open.set()
        await happens(closing)

    assert await desk.counts() == {"completed": 20, "waiting": 10}
    assert sorted(gate.seen) == sorted(set(gate.seen))


async def test_close_gives_back_what_does_not_end(desk: Desk) -> None:
    """At the deadline unfinished jobs are cancelled and wait again at once, without using an attempt (pain 29)."""
    gate = Gate()
    await desk.add_many(3)
    async with desk.working(gate, concurrency=2) as worker:
        await gate.until_inside(2)
        with at_once():
            await worker.close(timeout=200)

        assert gate.inside == 0
        assert await desk.counts() == {"waiting": 3}

    runs: list[tuple[Any, int]] = []

    async def note(job: Job) -> None:
        runs.append((job.data, job.attempts_made))

    await desk.worker(note).run(until="drained")
    assert sorted(runs) == [(0, 0), (1, 0), (2, 0)]


async def test_job_that_ends_when_cancelled_is_recorded(desk: Desk) -> None:
    """A job that answers the cancellation at the deadline with a result has completed."""
    inside = asyncio.Event()

    async def hurry(_: Job) -> str:
        inside.set()
        try:
            await asyncio.sleep(2 * DEADLINE_S)
        except asyncio.CancelledError:
            return "what there was"
        return "all"

    job_id = await desk.add()
    async with desk.working(hurry) as worker:
        await happens(inside.wait())
        await worker.close(timeout=50)

    assert (await desk.job(job_id)).return_value == "what there was"


async def test_job_that_ignores_cancellation_is_given_back(desk: Desk) -> None:
    """A coroutine or thread that does not end is given back behind its back, and what it returns counts for nothing."""
    inside = threading.Event()
    let_go = threading.Event()

    def stubborn(_: Job, ctx: ThreadContext) -> str:
        inside.set()
        let_go.wait(DEADLINE_S)
        assert ctx.cancelled.is_set()
        return "too late"

    job_id = await desk.add()
    async with desk.working(stubborn) as worker:
        await happens(asyncio.to_thread(inside.wait, DEADLINE_S))
        await happens(worker.close(timeout=50), AT_ONCE_S)
        assert await desk.counts() == {"waiting": 1}
    let_go.set()

    assert (await desk.job(job_id)).raw_return_value is None


async def test_thread_sees_that_time_is_up(desk: Desk) -> None:
    """Long work in a thread can ask how much time a closing worker leaves it, and end with what it has."""
    inside = threading.Event()

    def work(_: Job, ctx: ThreadContext) -> str:
        before = ctx.time_left_ms
        inside.set()
        assert ctx.cancelled.wait(DEADLINE_S)
        return "stopped early" if before is None and ctx.time_left_ms == 0 else "did not know"

    job_id = await desk.add()
    async with desk.working(work) as worker:
        await happens(asyncio.to_thread(inside.wait, DEADLINE_S))
        await worker.close(timeout=100)

    assert (await desk.job(job_id)).return_value == "stopped early"


async def test_time_left_is_told_while_closing(desk: Desk) -> None:
    """While a worker closes, ctx tells how long the job may still run."""
    inside, closing = asyncio.Event(), asyncio.Event()

    async def work(_: Job, ctx: Context) -> int | None:
        inside.set()
        await closing.wait()
        return ctx.time_left_ms

    job_id = await desk.add()
    async with desk.working(work) as worker:
        await happens(inside.wait())
        worker.on("closing", lambda: asyncio.get_running_loop().call_later(0.05, closing.set))
        await worker.close(timeout=10_000)

    assert 5_000 < (await desk.job(job_id)).return_value <= 9_960


async def test_job_may_stop_its_worker_but_not_wait_for_it(desk: Desk) -> None:
    """A job that would wait for its own worker to pause or close is told so, and can stop it instead."""

    async def work(_: Job) -> str:
        with pytest.raises(UsageError, match="wait=False"):
            await worker.pause()
        with pytest.raises(UsageError, match="stop"):
            await worker.close()
        worker.stop()
        return "stopped"

    job_id = await desk.add()
    worker = desk.worker(work)
    await happens(worker.run())

    assert (await desk.job(job_id)).return_value == "stopped"


async def test_leaving_by_an_exception_gives_jobs_back(desk: Desk) -> None:
    """An ``async with`` block left by an exception waits for no job."""
    gate = Gate()
    await desk.add()

    async def host() -> None:
        async with desk.worker(gate) as worker:
            running = asyncio.ensure_future(worker.run())
            await gate.until_inside(1)
            try:
                raise KeyError("the host failed")
            finally:
                running.add_done_callback(lambda _: None)

    with pytest.raises(KeyError):
        await happens(host())
    assert await desk.counts() == {"waiting": 1}


async def test_cancelled_run_gives_jobs_back(desk: Desk) -> None:
    """Cancelling the task that runs the worker cancels its jobs, gives them back, and lets go of the server."""
    gate = Gate()
    await desk.add_many(2)
    worker = desk.worker(gate, concurrency=2)
    running = asyncio.ensure_future(worker.run())
    await gate.until_inside(2)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await happens(running)

    assert not worker.is_running
    assert await desk.counts() == {"waiting": 2}


async def test_scope_that_cancels_again_and_again(desk: Desk) -> None:
    """A scope of anyio, which cancels a task whenever it waits, ends a run as one cancellation does, without a rest."""
    gate, threads = Gate(), threading.active_count()
    await desk.add_many(2)
    worker = desk.worker(gate, concurrency=2)
    async with anyio.create_task_group() as group:
        group.start_soon(worker.run)
        await gate.until_inside(2)
        group.cancel_scope.cancel()

    assert not worker.is_running
    assert await desk.counts() == {"waiting": 2}
    assert threading.active_count() == threads


@pytest.mark.parametrize("worker_hears", ["first", "last"])
async def test_program_that_ends_gives_jobs_back(desk: Desk, worker_hears: str) -> None:
    """A program whose main function ends while a worker works cancels every task: no job fails of that."""
    gate, others = Gate(), asyncio.all_tasks()
    await desk.add_many(3)
    running = asyncio.ensure_future(desk.worker(gate, concurrency=3).run())
    await gate.until_inside(3)

    rest = asyncio.all_tasks() - others - {running}
    for task in (running, *rest) if worker_hears == "first" else (*rest, running):
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await happens(running)

    assert await desk.counts() == {"waiting": 3}
    assert [(await desk.job(job_id)).attempts_made for job_id in ("1", "2", "3")] == [0, 0, 0]


async def test_job_that_a_take_brings_to_a_cancelled_run_waits_again(desk: Desk) -> None:
    """Cancelling the run while a take is under way leaves no job behind, to be found when its lock runs out."""
    await desk.add_many(200)
    for inside in (50, 100, 150):
        gate = Gate()
        running = asyncio.ensure_future(desk.worker(gate, concurrency=200).run())
        await gate.until_inside(inside)  # the take of the next fifty follows
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await happens(running)

    assert await desk.counts() == {"waiting": 200}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_ends_gracefully(desk: Desk, number: signal.Signals) -> None:
    """SIGTERM and Ctrl-C let running jobs end, and the handlers of before are back afterwards (pain 31)."""
    gate = Gate()
    before = signal.getsignal(number)
    await desk.add_many(2)
    worker = desk.worker(gate)
    closing = gathered(worker, "closing", 1)
    running = asyncio.ensure_future(worker.run())
    await gate.until_inside(1)

    os.kill(os.getpid(), number)
    await happens(closing)
    gate.open.set()
    await happens(running)

    assert await desk.counts() == {"completed": 1, "waiting": 1}
    assert signal.getsignal(number) is before


async def test_second_signal_forces(desk: Desk) -> None:
    """A second SIGTERM ends at once, and running jobs wait again; all workers of the loop hear both (pain 31)."""
    gate = Gate()
    await desk.add_many(2)
    workers = [desk.worker(gate), desk.worker(gate)]
    closing = [gathered(worker, "closing", 1) for worker in workers]
    running = asyncio.gather(*(worker.run() for worker in workers))
    await gate.until_inside(2)

    os.kill(os.getpid(), signal.SIGTERM)
    await happens(asyncio.gather(*closing))
    os.kill(os.getpid(), signal.SIGTERM)
    await happens(running)

    assert await desk.counts() == {"waiting": 2}


async def test_signals_can_be_left_to_the_host(desk: Desk) -> None:
    """With handle_signals=False the host's handlers stay as they are."""
    before = signal.getsignal(signal.SIGTERM)
    worker = desk.worker(nothing)
    ready = gathered(worker, "ready", 1)
    running = asyncio.ensure_future(worker.run(handle_signals=False))
    await happens(ready)

    assert signal.getsignal(signal.SIGTERM) is before

    await worker.close()
    await running


async def test_worker_in_another_thread(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker runs in a thread that is not the main one, without signals (pain 26 and 28)."""
    monkeypatch.delattr(signal, "SIGALRM")
    job_id = await desk.add(5)
    worker = desk.worker(lambda job: job.data + 1)

    await happens(asyncio.to_thread(worker.run_sync, "drained"))

    assert (await desk.job(job_id)).return_value == 6


async def test_stop_from_another_thread(desk: Desk) -> None:
    """Another thread can stop a worker, but is told that it cannot wait for it to close."""
    async with desk.working(nothing) as worker:
        gone = gathered(worker, "closed", 1)
        with pytest.raises(UsageError, match="stop"):
            await asyncio.to_thread(asyncio.run, worker.close())
        await asyncio.to_thread(worker.stop)
        await happens(gone)


async def test_steering_from_another_thread(desk: Desk) -> None:
    """Another thread can pause, resume and widen a worker; only waiting for it is refused there (pain 28)."""
    gate = Gate()

    async def elsewhere() -> None:
        with pytest.raises(UsageError, match="wait=False"):
            await worker.pause()
        await worker.pause(wait=False)

    async with desk.working(gate) as worker:
        paused, resumed = gathered(worker, "paused", 1), gathered(worker, "resumed", 1)
        await asyncio.to_thread(asyncio.run, elsewhere())
        await happens(paused)
        await desk.add_many(3)
        await asyncio.to_thread(setattr, worker, "concurrency", 3)
        await asyncio.to_thread(worker.resume)
        await happens(resumed)
        await gate.until_inside(3)
        gate.open.set()
        await desk.until_counts(completed=3)


async def test_connections_are_few_and_go_away(desk: Desk) -> None:
    """A busy worker of a hundred slots has few connections whatever they do, a closed one none (pain 20)."""

    async def connections() -> int:
        rows = (await desk.do("CLIENT", "LIST")).decode().splitlines()
        return len(rows)

    before = await connections()
    gate = Gate()
    await desk.add_many(100)
    async with desk.working(gate, concurrency=120, lock_duration=3_000) as worker:
        await gate.until_inside(100)
        await happens(gathered(worker, "locks_renewed", 1))
        # One for calls, one to wait, one for locks; and on the loop one more to hear of cancellations.
        own = 4 if desk.make_worker is Worker else 3

        async def are_few() -> bool:
            return await connections() - before == own

        await until(are_few)
        gate.open.set()
        await desk.until_counts(completed=100)

    async def gone() -> bool:
        return await connections() <= before

    await until(gone)


async def test_other_clients_find_the_worker(desk: Desk) -> None:
    """The blocking connection carries the name by which other runtimes list the workers of a queue."""
    name = f"{desk.keys.prefix}:{base64.b64encode(b'work').decode()}:w:bob%20of%20b"

    async def listed() -> bool:
        return f" name={name} " in (await desk.do("CLIENT", "LIST")).decode()

    async with desk.working(nothing, name="bob of b"):
        await until(listed)


async def test_busy_worker_is_found_too(desk: Desk) -> None:
    """A worker that was never idle is listed by other runtimes as well."""
    gate = Gate()
    await desk.add()

    async def listed() -> bool:
        return f" name={desk.keys.client_name(None)} " in (await desk.do("CLIENT", "LIST")).decode()

    async with desk.working(gate):
        await gate.until_inside(1)
        await until(listed)
        gate.open.set()


async def test_worker_name_is_stored_with_jobs(desk: Desk) -> None:
    """A job knows the name of the worker that took it."""
    job_id = await desk.add()
    await desk.worker(nothing, name="bob").run(until="drained")

    assert (await desk.job(job_id)).processed_by == "bob"


async def test_own_connection_is_left_open(desk: Desk) -> None:
    """A connection that the host gave is used and stays open."""
    await desk.add()
    worker = Worker("work", nothing, desk.connection, prefix=desk.keys.prefix)
    await worker.run(until="drained")

    assert await desk.counts() == {"completed": 1}


async def test_closed_connection_ends_the_run(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """If the host closes the connection it gave, the run ends with an error that says so, in one line of the log."""
    connection = echomq.connect(desk.url)
    worker = Worker("work", nothing, connection, prefix=desk.keys.prefix, drain_delay=100)
    ready = gathered(worker, "ready", 1)
    running = asyncio.ensure_future(worker.run())
    await happens(ready)

    await connection.close()

    with pytest.raises(ConnectionClosed):
        await happens(running)
    [record] = [record for record in caplog.records if "was closed by its owner" in record.getMessage()]
    assert record.exc_info is None


async def test_worker_can_run_again(desk: Desk) -> None:
    """After a run has ended the same worker can run once more."""
    worker = desk.worker(nothing)
    for count in (1, 2):
        await desk.add()
        await worker.run(until="drained")
        assert await desk.counts() == {"completed": count}


async def test_closed_worker_does_not_run(desk: Desk) -> None:
    """A worker that ran and was closed refuses to run, so that a late run cannot outlive its host."""
    async with desk.working(nothing) as worker:
        pass

    with pytest.raises(UsageError, match="closed"):
        await worker.run()


def test_wrong_connection_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that nobody serves, or none at all, is refused when the worker is made."""
    monkeypatch.delenv("ECHOMQ_URL", raising=False)

    for wrong in ("http://localhost", None):
        with pytest.raises(UsageError):
            Worker("work", nothing, wrong)


async def test_signals_need_the_main_thread(desk: Desk) -> None:
    """A worker in another thread that is asked to handle signals says what to do instead."""
    worker = desk.worker(nothing)

    with pytest.raises(UsageError, match="main thread"):
        await asyncio.to_thread(worker.run_sync, handle_signals=True)


async def test_silence_of_the_server_shows(server: Server, desk: Desk) -> None:
    """A worker tells how long its server has been silent: little while it works, more when it is cut off (pain 16)."""
    with proxy_to(server.host, server.port) as proxy:
        through = attrs.evolve(desk, url=proxy.url)
        worker = through.worker(nothing, drain_delay=100)
        assert worker.silent_for_s is None

        async def is_silent() -> bool:
            return (worker.silent_for_s or 0) > 1

        async def is_heard() -> bool:
            return (worker.silent_for_s or 9) < 0.5

        running = asyncio.ensure_future(worker.run())
        await happens(gathered(worker, "ready", 1))
        await until(is_heard)
        proxy.refuse()
        proxy.cut()
        await until(is_silent)
        proxy.accept()
        await until(is_heard)
        await worker.close()
        await running


@pytest.mark.parametrize("kind", ["redis", "valkey", "resp3", "redis client", "valkey client", "decoding client"])
async def test_connections_of_all_kinds(server: Server, desk: Desk, kind: str) -> None:
    """A worker takes plain, prioritized and delayed jobs through both drivers, URLs and ready clients alike."""
    clients: dict[str, Any] = {
        "redis client": lambda: redis.asyncio.Redis(host=server.host, port=server.port),
        "valkey client": lambda: valkey.asyncio.Valkey(host=server.host, port=server.port),
        "decoding client": lambda: redis.asyncio.Redis(host=server.host, port=server.port, decode_responses=True),
    }
    urls = {"redis": server.url, "valkey": server.url_as("valkey"), "resp3": f"{server.url}?protocol=3"}
    source: Any = urls[kind] if kind in urls else clients[kind]()
    worker = Worker("work", nothing, source, prefix=desk.keys.prefix, concurrency=3)
    ready = gathered(worker, "ready", 1)
    running = asyncio.ensure_future(worker.run())
    await happens(ready)
    await desk.add()
    await desk.add(priority=3)
    await desk.add(delay=150)
    await desk.until_counts(completed=3)
    await worker.close()
    await running
    if kind in clients:
        await source.aclose()
