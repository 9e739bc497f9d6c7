"""Django's tasks on a queue: enqueued, worked, and read again."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from django.core.management import call_command
from django.test.utils import override_settings

from echomq import EchoMQError, JobTimedOut, UsageError
from echomq_django import job_options
from echomq_django.framework import (
    FAILED,
    READY,
    RUNNING,
    SUCCESSFUL,
    InvalidTask,
    TaskResultDoesNotExist,
    task,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from frameworks.shop import tasks
from support.servers import Server

from .conftest import Site


def test_django_accepts_it(site: Site) -> None:
    """The backend has all features of the interface, and Django's system checks find nothing wrong (pain 35)."""
    backend = site.backend

    call_command("check")
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_task_from_start_to_end(make_site: Callable[[Server], Site], server: Server) -> None:
    """A task is ready until a worker has run it, and then its result can be read anywhere (pain 35)."""
    site = make_site(server)

    result = tasks.total.enqueue([1, 2], discount=1)
    ready = tasks.total.get_result(result.id)
    site.work(name="ada")
    result.refresh()

    assert (ready.status, ready.is_finished, ready.attempts, ready.started_at) == (READY, False, 0, None)
    assert (ready.args, ready.kwargs, ready.enqueued_at) == ([[1, 2]], {"discount": 1}, result.enqueued_at)
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 2, 1)
    assert (result.worker_ids, result.errors, result.backend) == (["ada"], [], "default")
    assert result.enqueued_at is not None
    assert result.started_at is not None
    assert result.last_attempted_at is not None
    assert result.finished_at is not None
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at


async def test_asynchronous_interface(site: Site) -> None:
    """The same from code on an event loop, with a task that is a coroutine function."""
    result = await tasks.welcome.aenqueue("ada")
    with ThreadPoolExecutor(1) as other:
        other.submit(site.work, queues=["emails"]).result(30)
    await result.arefresh()
    again = await tasks.welcome.aget_result(result.id)

    value: Any = again.return_value  # the backport's types take it for the coroutine
    assert (result.status, value, again.task.queue_name) == (SUCCESSFUL, "mail to ada", "emails")


def test_context(site: Site) -> None:
    """A task that takes the context sees its attempt, and is running for itself and for everybody else."""
    result = tasks.look.enqueue("here")
    site.work(name="ada")
    result.refresh()

    assert result.return_value == {
        "word": "here",
        "attempt": 1,
        "status": RUNNING,
        "stored": RUNNING,
        "started": True,
        "workers": ["ada"],
    }


def test_priorities(site: Site) -> None:
    """Tasks run by priority, 100 first, and in order of arrival within one."""
    tasks.ORDER_OF_RUNS.clear()
    for priority in (-100, 0, 100, 1, 0, -1):
        enqueued = tasks.note.using(priority=priority).enqueue(f"{priority}")
        assert tasks.note.get_result(enqueued.id).task.priority == priority
    site.queue().add(tasks.note.module_path, {"args": ["another producer's"]})
    site.work(concurrency=1)

    assert tasks.ORDER_OF_RUNS == ["another producer's", "100", "1", "0", "0", "-1", "-100"]


def test_run_after(site: Site) -> None:
    """A task does not run before its moment."""
    soon = datetime.now(timezone.utc) + timedelta(milliseconds=400)
    tomorrow = soon + timedelta(days=1)
    past = tasks.total.using(run_after=soon - timedelta(days=1)).enqueue([1])
    first, second = tasks.total.using(run_after=soon).enqueue([1]), tasks.total.using(run_after=tomorrow).enqueue([2])
    site.work()
    for result in (past, first, second):
        result.refresh()

    assert first.started_at is not None
    assert first.started_at >= soon.replace(microsecond=soon.microsecond // 1_000 * 1_000)
    assert (past.status, first.status, second.status) == (SUCCESSFUL, SUCCESSFUL, READY)
    stored = tasks.total.get_result(second.id).task.run_after
    assert stored is not None
    assert abs(stored - tomorrow) < timedelta(milliseconds=2)


@pytest.mark.usefixtures("site")
def test_naive_moments_without_time_zones() -> None:
    """Where a project has no time zones, its moments are naive, in its own zone, both ways."""
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        moment = datetime.now() + timedelta(hours=1)  # noqa: DTZ005  # what such projects write
        result = tasks.total.get_result(tasks.total.using(run_after=moment).enqueue([1]).id)

    assert result.task.run_after is not None
    assert abs(result.task.run_after - moment) < timedelta(milliseconds=2)
    assert result.enqueued_at is not None
    assert result.enqueued_at.tzinfo is None


def test_failure(site: Site) -> None:
    """A task that raises is tried as often as it says, and tells of each attempt: class, traceback, worker."""
    result = tasks.charge.enqueue(5)
    site.work(name="ada")
    result.refresh()

    assert (result.status, result.attempts, result.worker_ids) == (FAILED, 3, ["ada"] * 3)
    assert [error.exception_class for error in result.errors] == [tasks.Declined] * 3
    assert all(error.traceback.startswith("Traceback") for error in result.errors)
    assert all("in charge" in error.traceback for error in result.errors)
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_failure_then_success(site: Site) -> None:
    """A task that fails once and then succeeds is successful, in its second attempt, with one error."""
    result = tasks.second_time.enqueue()
    site.work()
    result.refresh()

    assert (result.status, result.return_value, result.attempts, len(result.errors)) == (SUCCESSFUL, 2, 2, 1)
    assert result.started_at is not None
    assert result.last_attempted_at is not None
    assert result.started_at < result.last_attempted_at


def test_steering(site: Site) -> None:
    """What tasks raise to steer works as in any job: some use no attempt, one fails at once."""
    postponed, hopeless = tasks.later.enqueue(), tasks.hopeless.enqueue()
    site.work()
    postponed.refresh()
    hopeless.refresh()

    assert (postponed.return_value, postponed.attempts, postponed.errors) == ("done", 1, [])
    assert (hopeless.status, hopeless.attempts) == (FAILED, 1)
    assert hopeless.errors[0].exception_class_path == "echomq.signals.Unrecoverable"


def test_time_limit(site: Site) -> None:
    """A task that takes longer than it may has failed, with that as its error."""
    result = tasks.slow.enqueue()
    site.work()
    result.refresh()

    assert (result.status, [error.exception_class for error in result.errors]) == (FAILED, [JobTimedOut])
    assert "longer than 50 ms" in result.errors[0].traceback


def test_cancelled_task(site: Site) -> None:
    """A task that somebody cancels before it starts has failed, without an attempt, with the reason."""
    result = tasks.total.enqueue([1])
    site.queue().cancel(result.id.partition(":")[2], "not needed")
    result.refresh()

    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 0, 1)
    assert "not needed" in result.errors[0].traceback
    assert issubclass(result.errors[0].exception_class, EchoMQError)


def test_reading_leaves_nothing_behind(site: Site, redis_server: Server) -> None:
    """An id that somebody made up does not make a queue, even where a backend has queues of any name."""
    site.configure(queues=())
    with pytest.raises(TaskResultDoesNotExist):
        tasks.total.get_result("made-up:1")

    assert redis_server.client().keys(f"{site.prefix}*") == []


def test_result_that_is_no_json(site: Site) -> None:
    """A task whose result has no JSON form has failed."""
    result = tasks.nothing_json.enqueue()
    site.work()
    result.refresh()

    assert (result.status, result.errors[0].exception_class_path) == (FAILED, "echomq.errors.NotEncodable")


def test_signals(site: Site) -> None:
    """Django's signals are sent: once when a task is enqueued, at each start, and once when it is at its end."""
    heard: list[tuple[str, str, int]] = []
    kinds: list[type[BaseException] | None] = []
    done: list[Any] = []

    def listen(kind: str) -> Callable[..., None]:
        def receiver(task_result: Any, **_: object) -> None:
            heard.append((kind, task_result.status, task_result.attempts))
            if kind == "finished":
                kinds.append(sys.exc_info()[0])
                done.append(task_result._return_value)
                assert task_backends["default"].get_result(task_result.id).status == task_result.status

        return receiver

    receivers = {signal: listen(name) for name, signal in SIGNALS.items()}
    for signal, receiver in receivers.items():
        signal.connect(receiver)
    try:
        tasks.second_time.enqueue()
        site.work()
        tasks.charge.enqueue(5)
        site.work()
    finally:
        for signal, receiver in receivers.items():
            signal.disconnect(receiver)

    first = [("enqueued", READY, 0), ("started", RUNNING, 1), ("started", RUNNING, 2), ("finished", SUCCESSFUL, 2)]
    starts = [("started", RUNNING, attempt) for attempt in (1, 2, 3)]
    assert heard == [*first, ("enqueued", READY, 0), *starts, ("finished", FAILED, 3)]
    assert (kinds, done) == ([None, tasks.Declined], [2, None])


SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}


def test_failure_that_is_not_kept(site: Site) -> None:
    """Also where failed jobs are removed at once, Django hears of the end, with the error."""
    site.configure(job_options={"remove_on_fail": True})
    heard: list[Any] = []

    def receiver(task_result: Any, **_: object) -> None:
        heard.append((task_result.status, task_result.errors[-1].exception_class_path))

    task_finished.connect(receiver)
    try:
        result = tasks.hopeless.enqueue()
        site.work()
    finally:
        task_finished.disconnect(receiver)

    assert heard == [(FAILED, "echomq.signals.Unrecoverable")]
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


@pytest.mark.parametrize("wrong", [{"prices": {1, 2}}, {"prices": object()}, {"prices": [float("nan")]}])
def test_arguments_are_json(site: Site, wrong: Any) -> None:
    """Arguments that have no JSON form are refused where the task is enqueued, and nothing is sent."""
    with pytest.raises((TypeError, ValueError)):
        tasks.total.enqueue(**wrong)
    with pytest.raises((TypeError, ValueError)):
        tasks.total.enqueue([1], discount=wrong)

    assert site.queue().count() == 0


def test_what_no_worker_would_find(site: Site) -> None:
    """A task is refused if its queue is none of the backend's, or if its path does not lead to it."""
    with pytest.raises(InvalidTask, match="Queue 'nowhere'"):
        tasks.total.using(queue_name="nowhere").enqueue([1])
    with pytest.raises(InvalidTask, match="workers would not find it"):
        renamed.enqueue()

    assert site.queue().count() == 0


def plain() -> None:
    """Be no task."""


renamed = task(plain)


def test_job_options_of_a_task(site: Site) -> None:
    """Options of a task win over those of the backend; what has no place there is refused, with a reason."""
    site.configure(job_options={"attempts": 7, "keep_logs": 3})
    charged, added = tasks.charge.enqueue(1), tasks.total.enqueue([1])
    jobs = [site.queue().get_job(result.id.partition(":")[2]) for result in (charged, added)]

    assert [(job.options.attempts, job.options.keep_logs) for job in jobs if job] == [(3, 3), (7, 3)]
    untyped: Any = job_options
    with pytest.raises(UsageError, match="'delay' is not among"):
        untyped(delay=5)
    with pytest.raises(UsageError, match="attempts"):
        untyped(attempts="many")
    with pytest.raises(UsageError, match="below @task"):
        untyped(attempts=2)(tasks.total)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("id", ["", "default", "default:", ":1", "default:17", "reports:1", "default:a:b", "1"])
def test_no_such_result(id: str) -> None:  # noqa: A002  # what Django calls it
    """An id that is none, and one of another backend's queue, is a result that does not exist."""
    with pytest.raises(TaskResultDoesNotExist):
        tasks.total.get_result(id)


@pytest.mark.usefixtures("site")
def test_result_of_another_task() -> None:
    """A task does not give the result of another."""
    result = tasks.total.enqueue([1])

    with pytest.raises(Exception, match="Task does not match"):
        tasks.pack.get_result(result.id)


def test_other_producers(site: Site) -> None:
    """A producer in any language adds a task by its path, and Django can read the result."""
    job = site.queue().add("frameworks.shop.tasks.total", {"args": [[3, 4]]})
    site.work()

    result = tasks.total.get_result(f"default:{job.id}")
    assert (result.status, result.return_value, result.kwargs) == (SUCCESSFUL, 7, {})


def test_connections(site: Site, redis_server: Server) -> None:
    """However many threads enqueue, and however many backends Django makes for them, there is one connection."""
    before = len(redis_server.client().client_list())

    def produce(number: int) -> int:
        tasks.total.enqueue([number])
        return id(task_backends["default"])

    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8, initializer=barrier.wait) as threads:
        backends = set(threads.map(produce, range(40)))

    assert site.queue().count() == 40
    assert len(backends) > 1
    assert len(redis_server.client().client_list()) - before <= 2  # ours, and that of the client which asks


@pytest.mark.parametrize("backend", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_without_a_server(backend: str) -> None:
    """Tests of a project put one of Django's own backends in the place of this one, and need no server (pain 35)."""
    path = f"{task_enqueued_module()}.backends.{backend}"
    with override_settings(TASKS={"default": {"BACKEND": path, "QUEUES": ["default", "emails"]}}):
        result = tasks.total.enqueue([1, 2])

    assert result.status == (SUCCESSFUL if "Immediate" in backend else READY)


def task_enqueued_module() -> str:
    """Return the name of the framework that is in use."""
    return type(task_backends).__module__


def test_in_memory(site: Site) -> None:
    """With the driver for tests, tasks and the worker command need no server either (pain 35)."""
    site.configure(url=f"memory://{site.prefix}")
    result, failed = tasks.total.enqueue([1, 2]), tasks.charge.enqueue(5)
    site.work()
    result.refresh()
    failed.refresh()

    assert (result.return_value, failed.status, failed.attempts) == (3, FAILED, 3)
