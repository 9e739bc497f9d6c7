"""Jobs are processed: functions of both kinds, results, failures, signals."""

import asyncio
import contextvars
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import echomq.sync
from echomq import Delay, Job, RateLimited, Unrecoverable, UsageError, Wait, WaitForChildren, Worker
from echomq.aio.context import Context, ThreadContext, current_context
from echomq.current import job_logger
from support.desk import Desk, gathered, happens
from support.limits import AT_ONCE_S


async def test_async_function_runs_on_the_loop(desk: Desk) -> None:
    """An ``async def`` processor runs on the event loop, and what it returns is the job's result (pains 28 and 33)."""
    threads = []

    async def double(job: Job) -> Any:
        threads.append(threading.current_thread())
        return job.data * 2

    job_id = await desk.add(21)
    await desk.worker(double).run(until="drained")
    job = await desk.job(job_id)

    assert job.return_value == 42
    assert job.is_completed
    assert threads == [threading.current_thread()]


async def test_plain_function_runs_once_in_a_thread(desk: Desk) -> None:
    """A plain function runs once, in a thread, and its result is stored (pain 33)."""
    threads = []

    def double(job: Job) -> Any:
        threads.append(threading.current_thread())
        return job.data * 2

    job_id = await desk.add(21)
    await desk.worker(double).run(until="drained")

    assert (await desk.job(job_id)).return_value == 42
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


class _Callable:
    async def __call__(self, job: Job) -> str:
        return f"called with {job.data}"


async def _two(_: Job, ctx: Context) -> str:
    return f"called with {ctx.job.data}"


async def _three(greeting: str, _: Job, ctx: Context) -> str:
    return f"{greeting} with {ctx.job.data}"


def _any(*args: Any) -> str:
    return f"called with {args[1].job.data}"


@pytest.mark.parametrize(
    "processor",
    [_Callable(), _two, partial(_three, "called"), _any, lambda job: _Callable()(job)],
    ids=["object", "context", "partial", "any", "lambda"],
)
async def test_callables_of_all_kinds(desk: Desk, processor: Any) -> None:
    """Objects, partials, lambdas and functions of one or two arguments are called in the right place (pain 33)."""
    job_id = await desk.add(7)

    await desk.worker(processor).run(until="drained")

    assert (await desk.job(job_id)).return_value == "called with 7"


def test_processor_must_be_callable() -> None:
    """What cannot be called is refused when the worker is made."""
    with pytest.raises(UsageError, match="processor"):
        Worker("work", "not a function", "redis://localhost")  # type: ignore[arg-type]  # the mistake under test


def _none() -> None: ...


def _wants_more(_: Job, __: Any, ___: Any) -> None: ...


def _named_only(_: Job, *, retries: int) -> None: ...


@pytest.mark.parametrize("function", [_none, _wants_more, _named_only, lambda: 1])
def test_function_that_takes_no_job_is_refused(function: Any) -> None:
    """A function that no job could call is refused when the worker is made, in place of failing every job."""
    for make in (Worker, echomq.sync.Worker):
        with pytest.raises(UsageError, match=r"expected a function of \(job\) or \(job, ctx\), not .*\("):
            make("work", function, "redis://localhost")


def test_coroutine_in_place_of_its_function_is_refused() -> None:
    """A function that was called where it should be passed is told apart."""
    mistake: Any = _fail(None)  # type: ignore[arg-type]  # never runs
    with pytest.raises(UsageError, match="it was called already, pass the function itself"):
        Worker("work", mistake, "redis://localhost")
    mistake.close()


async def _fail(_: Job) -> None:
    raise LookupError("no address")


def _fail_in_thread(job: Job) -> None:
    asyncio.run(_fail(job))  # frames in the middle stay


@pytest.mark.parametrize("run_in", [None, "thread", "process"])
async def test_stack_trace_begins_in_the_users_code(desk: Desk, run_in: str | None) -> None:
    """A stored stack trace shows nothing of the worker: its first frame is the processor's."""
    is_awaited = run_in is None and desk.make_worker is Worker
    job_id = await desk.add()
    await desk.worker(_fail if is_awaited else _fail_in_thread, run_in=run_in).run(until="drained")
    trace = (await desk.job(job_id)).stacktrace[-1].splitlines()

    assert trace[0] == "Traceback (most recent call last):"
    assert Path(__file__).name in trace[1]
    assert not [line for line in trace if "/echomq/" in line]
    assert trace[-1] == "LookupError: no address"


@pytest.mark.parametrize(
    ("processor", "says"),
    [(lambda _: {1, 2}, "NotEncodable: the result of job"), ({"other": _fail_in_thread}, "no processor")],
)
async def test_error_that_passed_no_code_of_the_user(desk: Desk, processor: Any, says: str) -> None:
    """What the worker itself says about a job is one line, without its own frames."""
    job_id = await desk.add()
    await desk.worker(processor).run(until="drained")
    [trace] = (await desk.job(job_id)).stacktrace

    assert says in trace
    assert len(trace.splitlines()) == 1


async def test_failed_job_keeps_reason_and_traceback(desk: Desk) -> None:
    """A failed job stores the message and the stack trace, with the line that raised and what caused it (pain 41)."""

    async def fail(job: Job) -> None:
        try:
            dict[str, str]()["ada"]
        except KeyError as error:
            raise LookupError(f"no address for {job.data}") from error

    job_id = await desk.add("ada")
    await desk.worker(fail).run(until="drained")
    job = await desk.job(job_id)

    assert job.is_failed
    assert job.failed_reason == "no address for ada"
    assert "in fail" in job.stacktrace[-1]
    assert "KeyError: 'ada'" in job.stacktrace[-1]


class _Untellable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [_Untellable(), GeneratorExit(), SystemExit(3), asyncio.CancelledError()])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_whatever_is_raised_fails_the_attempt(desk: Desk, error: BaseException, in_thread: bool) -> None:
    """No exception, however odd, leaves its job behind: the attempt fails and the worker goes on."""

    def fail(job: Job) -> None:
        if job.data:
            raise error

    async def fail_on_the_loop(job: Job) -> None:
        fail(job)

    await desk.add(True)
    await desk.add(False)
    await desk.worker(fail if in_thread else fail_on_the_loop).run(until="drained")

    assert await desk.counts() == {"failed": 1, "completed": 1}


async def test_thread_cannot_interrupt_its_worker(desk: Desk) -> None:
    """A plain function that raises KeyboardInterrupt fails its attempt; only the real Ctrl-C ends a program."""

    def interrupt(_: Job) -> None:
        raise KeyboardInterrupt

    job_id = await desk.add()
    await desk.worker(interrupt).run(until="drained")

    assert (await desk.job(job_id)).failed_reason == "the processor raised KeyboardInterrupt"


async def test_attempts_and_backoff(desk: Desk) -> None:
    """A failing job runs as often as it may, with its backoff between, and each failure is told."""
    started: list[float] = []

    async def fail_twice(job: Job) -> str:
        started.append(time.monotonic())
        if job.attempts_made < 2:
            raise OSError("not yet")
        return "at last"

    job_id = await desk.add(attempts=3, backoff={"type": "exponential", "delay": 100})
    worker = desk.worker(fail_twice)
    failed = gathered(worker, "failed", 2)
    await worker.run(until="drained")
    job = await desk.job(job_id)

    assert job.return_value == "at last"
    assert job.attempts_made == 3
    assert len(job.stacktrace) == 2
    assert [str(error) for _, error in await happens(failed)] == ["not yet", "not yet"]
    assert started[1] - started[0] > 0.09
    assert started[2] - started[1] > 0.19


async def test_retry_goes_first_with_lifo(desk: Desk) -> None:
    """A retried job waits behind the others, but a lifo one is next."""
    order: list[Any] = []

    async def note(job: Job) -> None:
        order.append(job.data)
        if job.data != "other" and job.attempts_made == 0:
            raise OSError("again")

    await desk.add("last", attempts=2)
    await desk.add("other")
    await desk.worker(note).run(until="drained")
    await desk.add("other")
    await desk.add("next", attempts=2, lifo=True)
    await desk.worker(note).run(until="drained")

    assert order == ["last", "other", "last", "next", "next", "other"]


async def test_strategies_may_be_sync_or_async(desk: Desk) -> None:
    """A backoff strategy is a plain or an async function, told attempt, type, error and job."""
    asked: list[Any] = []

    def plain(attempts: int, kind: str, error: BaseException, job: Job) -> int:
        asked.append((attempts, kind, str(error), job.data))
        return 0

    async def awaited(attempts: int, kind: str, error: BaseException, job: Job) -> int:
        await asyncio.sleep(0)
        return plain(attempts, kind, error, job)

    async def fail(_: Job) -> None:
        raise OSError("x")

    await desk.add("a", attempts=2, backoff={"type": "plain"})
    await desk.add("b", attempts=2, backoff={"type": "awaited"})
    await desk.worker(fail, backoff_strategies={"plain": plain, "awaited": awaited}).run(until="drained")

    assert asked == [(1, "plain", "x", "a"), (1, "awaited", "x", "b")]
    assert await desk.counts() == {"failed": 2}


async def test_broken_strategy_does_not_strand_the_job(desk: Desk) -> None:
    """A strategy that raises or that nobody knows is told as an error, and the job waits its plain delay."""

    def broken(*_: Any) -> int:
        raise ZeroDivisionError("broken strategy")

    def leaving(*_: Any) -> int:
        sys.exit("leaving")

    async def fail_once(job: Job) -> None:
        if job.attempts_made == 0:
            raise OSError("x")

    await desk.add(attempts=2, backoff={"type": "broken", "delay": 10})
    await desk.add(attempts=2, backoff={"type": "leaving", "delay": 10})
    await desk.add(attempts=2, backoff={"type": "unknown", "delay": 10})
    worker = desk.worker(fail_once, backoff_strategies={"broken": broken, "leaving": leaving})
    errors = gathered(worker, "error", 3)
    await worker.run(until="drained")

    assert await desk.counts() == {"completed": 3}
    names = {type(error).__name__ for (error,) in await happens(errors)}
    assert names == {"ZeroDivisionError", "SystemExit", "InvalidOption"}


async def test_strategy_that_waits_when_the_worker_ends(desk: Desk) -> None:
    """A strategy that still waits when a close does not is cut short: the attempt has failed, with its plain delay."""
    asked = asyncio.Event()

    async def slow(*_: Any) -> int:
        asked.set()
        await asyncio.Event().wait()
        return 0

    async def fail(_: Job) -> None:
        raise OSError("x")

    job_id = await desk.add(attempts=2, backoff={"type": "slow", "delay": 60_000})
    async with desk.working(fail, backoff_strategies={"slow": slow}) as worker:
        await happens(asked.wait())
        await happens(worker.close(0))

    assert await desk.counts() == {"delayed": 1}
    assert (await desk.job(job_id)).attempts_made == 1


async def test_unrecoverable_job_is_not_retried(desk: Desk) -> None:
    """A job that raises Unrecoverable fails at once, whatever attempts are left."""
    runs = []

    async def give_up(job: Job) -> None:
        runs.append(job.id)
        raise Unrecoverable("no such user")

    job_id = await desk.add(attempts=5)
    await desk.worker(give_up).run(until="drained")

    assert (await desk.job(job_id)).failed_reason == "no such user"
    assert len(runs) == 1


async def test_signals_steer_without_using_attempts(desk: Desk) -> None:
    """Delay, Wait and WaitForChildren run the job again and count a start, but no attempt."""

    async def steer(job: Job) -> str:
        signals = {1: Delay(30), 2: Wait(), 3: WaitForChildren()}
        if job.attempts_started in signals:
            raise signals[job.attempts_started]
        return "done"

    job_id = await desk.add()
    await desk.worker(steer).run(until="drained")
    job = await desk.job(job_id)

    assert job.return_value == "done"
    assert (job.attempts_made, job.attempts_started) == (1, 4)


async def test_parent_waits_for_its_children(desk: Desk) -> None:
    """A parent that raises WaitForChildren runs again when its last child is done."""
    order: list[str] = []

    async def work(job: Job) -> None:
        order.append(job.data)
        if job.data == "parent" and job.attempts_started == 1:
            await desk.add("child", parent={"id": job.id, "queue": job.keys.qualified_name})
            raise WaitForChildren

    await desk.add("parent")
    await desk.worker(work).run(until="drained")

    assert order == ["parent", "child", "parent"]
    assert await desk.counts() == {"completed": 2}


async def test_rate_limited_job_comes_back(desk: Desk) -> None:
    """A job that raises RateLimited is given back, and this worker takes nothing for that long."""
    starts: list[float] = []

    async def limited_once(_: Job) -> None:
        starts.append(time.monotonic())
        if len(starts) == 1:
            raise RateLimited(300)

    await desk.add()
    await desk.worker(limited_once, limiter={"max": 100, "duration": 1_000}, drain_delay=30_000).run(until="drained")

    assert await desk.counts() == {"completed": 1}
    assert 0.28 < starts[1] - starts[0] < AT_ONCE_S


async def test_cancelled_error_of_a_job_is_a_failed_attempt(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """A job that raises CancelledError, or cancels its own task, has failed, and the worker goes on."""

    async def cancel(job: Job) -> str:
        if job.data == "raise":
            raise asyncio.CancelledError("stop")
        if job.data == "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(10)
        if job.data == "leave":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        return "done"

    ids = {data: await desk.add(data) for data in ("raise", "cancel", "leave", "other")}
    with caplog.at_level("WARNING", "echomq"):
        await desk.worker(cancel).run(until="drained")
    ended = {data: await desk.job(job_id) for data, job_id in ids.items()}

    assert {data: job.is_failed for data, job in ended.items()} == {
        "raise": True,
        "cancel": True,
        "leave": False,
        "other": False,
    }
    assert await desk.counts() == {"failed": 2, "completed": 2}
    assert "waits for its server" not in caplog.text


async def test_result_that_is_not_json_fails_without_retry(desk: Desk) -> None:
    """A result that is not strict JSON fails the job at once, and the reason names job and path (pain 56)."""
    runs = []

    async def bad(job: Job) -> Any:
        runs.append(job.id)
        return {"items": [1, float("nan")]}

    job_id = await desk.add(attempts=5)
    await desk.worker(bad).run(until="drained")
    job = await desk.job(job_id)

    assert job.is_failed
    assert f"job {job_id}" in (job.failed_reason or "")
    assert "$.items[1]" in (job.failed_reason or "")
    assert len(runs) == 1


@pytest.mark.parametrize("value", ["text", None, {"a": [1, {"b": None}]}, "\N{GRINNING FACE}", 2**53, 1.5, True])
async def test_results_survive(desk: Desk, value: Any) -> None:
    """Results of all JSON types are stored and read back as they were (pain 56)."""

    async def give(_: Job) -> Any:
        return value

    job_id = await desk.add()
    await desk.worker(give).run(until="drained")

    assert (await desk.job(job_id)).return_value == value


async def test_marked_job_fails_without_running(desk: Desk) -> None:
    """A job that was marked as failed is failed with that reason, and its code does not run."""
    runs = []

    async def note(job: Job) -> None:
        runs.append(job.id)

    job_id = await desk.add(attempts=5)
    await desk.do("HSET", desk.keys.job(job_id), "defa", "decided elsewhere")
    await desk.worker(note).run(until="drained")

    assert (await desk.job(job_id)).failed_reason == "decided elsewhere"
    assert not runs


async def test_job_started_too_often_fails(desk: Desk) -> None:
    """A job that was started more often than max_started_attempts allows fails without running."""
    starts = []

    async def again(job: Job) -> None:
        starts.append(job.id)
        raise Wait

    job_id = await desk.add()
    await desk.worker(again, max_started_attempts=2).run(until="drained")

    assert (await desk.job(job_id)).failed_reason == "job started more than allowable limit"
    assert len(starts) == 2


async def test_finished_jobs_are_kept_as_told(desk: Desk) -> None:
    """A worker's retention holds for jobs that say nothing, and a job's own wins."""

    async def work(job: Job) -> None:
        if job.data == "fail":
            raise OSError("x")

    await desk.add_many(5)
    await desk.add("keep", remove_on_complete=False)
    await desk.add("fail")
    await desk.worker(work, remove_on_complete=2, remove_on_fail=True).run(until="drained")

    counts = await desk.counts()
    assert "failed" not in counts
    assert counts["completed"] >= 2


async def test_context_of_a_coroutine(desk: Desk) -> None:
    """Inside an async processor ctx logs, reports progress, changes data, extends the lock, and knows its job."""

    async def work(_: Job, ctx: Context) -> Any:
        assert current_context() is ctx
        assert await ctx.log("one") == 1
        await ctx.log("two")
        await ctx.progress({"percent": 40})
        await ctx.update_data({"step": 2})
        await ctx.extend(60_000)
        assert not ctx.cancelled.is_set()
        assert ctx.time_left_ms is None
        return [ctx.job.data, ctx.token]

    job_id = await desk.add({"step": 1})
    worker = desk.worker(work)
    progress = gathered(worker, "progress", 1)
    await worker.run(until="drained")
    job = await desk.job(job_id)

    assert job.return_value[0] == {"step": 2}
    assert job.data == {"step": 2}
    assert job.progress == {"percent": 40}
    assert await desk.logs(job_id) == ["one", "two"]
    assert [(told.id, value) for told, value in await happens(progress)] == [(job_id, {"percent": 40})]


async def test_context_of_a_thread(desk: Desk) -> None:
    """Inside a plain function ctx has the same names without await."""

    def work(_: Job, ctx: ThreadContext) -> Any:
        assert current_context() is ctx
        assert ctx.log("one") == 1
        ctx.progress(0.5)
        ctx.update_data({"step": 2})
        ctx.extend(60_000)
        assert not ctx.cancelled.is_set()
        return ctx.job.data

    job_id = await desk.add({"step": 1})
    await desk.worker(work).run(until="drained")
    job = await desk.job(job_id)

    assert job.return_value == {"step": 2}
    assert job.progress == 0.5
    assert await desk.logs(job_id) == ["one"]


async def test_log_keeps_the_last_rows(desk: Desk) -> None:
    """A job's keep_logs bounds its log."""

    async def chatter(_: Job, ctx: Context) -> None:
        for number in range(5):
            await ctx.log(str(number))

    job_id = await desk.add(keep_logs=2)
    await desk.worker(chatter).run(until="drained")

    assert await desk.logs(job_id) == ["3", "4"]


async def test_log_records_name_their_job(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Records of the job logger carry queue, job and attempt, in coroutines and threads, without being told."""

    def helper() -> None:
        job_logger.warning("far below")

    async def on_loop(_: Job) -> None:
        helper()

    def in_thread(_: Job, ctx: ThreadContext) -> None:
        ctx.logger.warning("far below")

    ids = []
    for processor in (on_loop, in_thread):
        ids.append(await desk.add())
        await desk.worker(processor).run(until="drained")

    found = [record for record in caplog.records if record.name == "echomq.job"]
    assert [vars(record)["job_id"] for record in found] == ids
    assert {(vars(record)["queue"], vars(record)["attempt"]) for record in found} == {("work", 1)}


async def test_jobs_do_not_share_context_variables(desk: Desk) -> None:
    """What a job puts into a context variable is not seen by the next one, but what the host put there is."""
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen = []

    async def work(job: Job) -> None:
        seen.append(variable.get())
        variable.set(f"job {job.id}")

    variable.set("host")
    await desk.add_many(3)
    await desk.worker(work).run(until="drained")

    assert seen == ["host"] * 3


async def test_listeners_can_do_no_harm(desk: Desk) -> None:
    """What listeners of either kind raise is told as an error, and the job is completed."""

    def plain(*_: Any) -> None:
        raise RuntimeError("plain listener")

    async def awaited(*_: Any) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("async listener")

    async def work(job: Job) -> None:
        pass

    await desk.add()
    worker = desk.worker(work)
    worker.on("active", plain)
    worker.on("completed", awaited)
    errors = gathered(worker, "error", 2)
    await worker.run(until="drained")

    assert {str(error) for (error,) in await happens(errors)} == {"plain listener", "async listener"}
    assert await desk.counts() == {"completed": 1}


@pytest.mark.parametrize("error", [SystemExit("leaving"), asyncio.CancelledError("leaving")])
async def test_listener_that_leaves_takes_no_job_along(desk: Desk, error: BaseException) -> None:
    """A listener that calls sys.exit, or raises as if it was cancelled, ends neither the worker nor a job."""

    def leave(*_: Any) -> None:
        raise error

    await desk.add_many(2)
    worker = desk.worker(lambda _: None)
    for event in ("active", "completed"):
        worker.on(event, leave)
    errors = gathered(worker, "error", 4)
    await happens(worker.run(until="drained"))

    assert await desk.counts() == {"completed": 2}
    assert {str(told) for (told,) in await happens(errors)} == {"leaving"}


async def test_async_listener_that_leaves(desk: Desk) -> None:
    """The same of an async listener that calls sys.exit."""

    async def leave(*_: Any) -> None:
        sys.exit("leaving")

    await desk.add_many(2)
    worker = desk.worker(lambda _: None)
    worker.on("completed", leave)
    errors = gathered(worker, "error", 2)
    await happens(worker.run(until="drained"))

    assert await desk.counts() == {"completed": 2}
    assert len(await happens(errors)) == 2


async def test_jobs_of_a_scheduler_are_followed(desk: Desk) -> None:
    """Taking a job of a scheduler makes the next one, before the job runs."""
    from echomq.calls.schedulers import add_job_scheduler
    from echomq.options import Repeat, job_options

    runs: list[str] = []

    async def work(job: Job) -> None:
        runs.append(job.id)
        if len(runs) == 3:
            worker.stop()

    call = add_job_scheduler(
        desk.keys,
        "tick",
        Repeat(every=100),
        name="tick",
        data=None,
        options=job_options(),
        now_ms=time.time_ns() // 10**6,
    )
    assert call is not None
    await desk.connection.send(call)
    worker = desk.worker(work)
    await happens(worker.run())

    assert len(set(runs)) == 3
    assert await desk.counts() == {"completed": 3, "delayed": 1}


async def test_context_of_a_thread_refuses_the_loop(desk: Desk) -> None:
    """A plain function that returns a coroutine is awaited, but its blocking ctx cannot be used there, and says so."""

    async def late(ctx: ThreadContext) -> None:
        ctx.log("from the loop")

    job_id = await desk.add()
    await desk.worker(lambda _, ctx: late(ctx)).run(until="drained")

    assert "async def" in ((await desk.job(job_id)).failed_reason or "")


async def test_exit_in_a_job_does_not_end_the_worker(desk: Desk) -> None:
    """A job that calls sys.exit, on the loop or in a thread, has failed, and the worker goes on."""

    async def leave(_: Job) -> None:
        sys.exit("leaving")

    def leave_thread(_: Job) -> None:
        sys.exit("leaving")

    for processor in (leave, leave_thread):
        await desk.add_many(2)
        await happens(desk.worker(processor).run(until="drained"))
    counts = await desk.counts()

    assert counts == {"failed": 4}
