"""The worker command, and what system checks say of settings."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test.utils import override_settings

from echomq import sync
from echomq_django.framework import READY, SUCCESSFUL
from frameworks.shop import tasks
from support.limits import DEADLINE_S
from support.server_files import CHECKOUT

from .conftest import BACKEND, Site

MANAGE = Path(__file__).with_name("manage.py")


def test_database_connections(site: Site) -> None:
    """Around each task, connections that the settings call too old are closed, as around a request."""
    results = [tasks.where.enqueue() for _ in range(3)]
    site.work(concurrency=1)
    found = []
    for result in results:
        result.refresh()
        found.append(result.return_value)

    assert [place[1] for place in found if place] == [False, False, False]
    assert len({place[0] for place in found if place}) < 3, "a thread was used again"


def test_queues_of_a_worker(site: Site) -> None:
    """A worker takes the queues that it is told, all of the backend if it is told nothing."""
    mail, sum_ = tasks.welcome.enqueue("ada"), tasks.total.enqueue([1])
    site.work(queues=["emails=3"])
    mail.refresh()
    sum_.refresh()
    assert (mail.status, sum_.is_finished) == (SUCCESSFUL, False)
    site.work()
    sum_.refresh()
    assert sum_.status == SUCCESSFUL


def test_settings_of_a_worker(site: Site) -> None:
    """Options of workers come from the settings, and the command line wins; modules that they name are imported."""
    site.configure(worker={"concurrency": 3, "name": "ada"}, modules=["frameworks.shop.more"])
    sys.modules.pop("frameworks.shop.more", None)
    job = site.queue().add("frameworks.shop.more.double", {"args": [4]})
    first = tasks.total.enqueue([1])
    site.work()
    second = tasks.total.enqueue([1])
    site.work(name="grace")

    first.refresh()
    second.refresh()
    assert (first.worker_ids, second.worker_ids) == (["ada"], ["grace"])
    assert site.backend.get_result(f"default:{job.id}").return_value == 8


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"backend": "other"}, "TASKS has no 'other'; there are: default"),
        ({"queues": ["reports"]}, "has no queue 'reports'; its QUEUES: default, emails"),
        ({"concurrency": 0}, "concurrency"),
        ({"close_timeout": "soon"}, "--close-timeout"),
    ],
)
def test_mistakes_on_the_command_line(site: Site, options: dict[str, Any], problem: str) -> None:
    """What the command cannot do is said in one line, before it works."""
    with pytest.raises(CommandError, match=problem):
        site.work(**options)


def test_other_backends_have_no_worker(site: Site) -> None:
    """A backend of another kind is refused, and one without queues wants to be told which."""
    path = f"{type(site.backend).__mro__[1].__module__.rpartition('.')[0]}.dummy.DummyBackend"
    with override_settings(TASKS={"default": {"BACKEND": path}}), pytest.raises(CommandError, match="DummyBackend"):
        site.work()
    site.configure(queues=())
    with pytest.raises(CommandError, match="names no QUEUES; next step: pass --queue"):
        site.work()
    result = tasks.total.using(queue_name="anything").enqueue([1])
    site.work(queues=["anything"])
    result.refresh()
    assert result.status == SUCCESSFUL


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"OPTIONS": {"url": "redis://localhost", "prefx": "x"}}, r"E001.*OPTIONS.prefx.*prefix"),
        ({"OPTIONS": {"url": "redis://localhost", "job_options": {"delay": 5}}}, "E001.*'delay' is not among"),
        ({"OPTIONS": {"url": "redis://localhost", "job_options": {"attempts": "x"}}}, "E001.*attempts"),
        ({"OPTIONS": {"url": "redis://localhost", "worker": {"run_in": "process"}}}, "E001.*run in threads"),
        ({"OPTIONS": {"url": "redis://localhost", "worker": {"concurrency": 0}}}, "E001.*concurrency"),
        ({"OPTIONS": {"url": "redis://localhost", "enqueue_on_commit": "yes"}}, "E001.*enqueue_on_commit"),
        ({"OPTIONS": {"url": "redis://localhost", "modules": "shop.more"}}, "E001.*list of names"),
        ({"OPTIONS": {"url": "redis://localhost", "prefix": ""}}, "E001.*prefix"),
        ({"OPTIONS": ["url"]}, "E001.*mapping"),
        ({"OPTIONS": {"url": "redis://localhost"}, "QUEUES": ["a:b"]}, "E002.*'a:b'"),
        ({"OPTIONS": {}}, r"E003.*not said where the server is"),
        ({"OPTIONS": {"url": "nowhere://localhost"}}, "E004.*nowhere"),
    ],
)
def test_checks_of_settings(monkeypatch: pytest.MonkeyPatch, params: dict[str, Any], problem: str) -> None:
    """``manage.py check`` names what is wrong in the settings, and what helps."""
    monkeypatch.delenv("ECHOMQ_URL", raising=False)
    settings = override_settings(TASKS={"default": {"BACKEND": BACKEND, **params}})
    with settings, pytest.raises(CommandError, match=rf"(?s){problem}"):
        call_command("check")


def test_passwords_are_not_shown(site: Site) -> None:
    """Neither checks nor errors show the password of a URL."""
    site.configure(url="redis://:hunter2@nowhere:1/x?y=z")
    with pytest.raises(CommandError) as caught:
        call_command("check")

    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(site.backend.__dict__.get("settings"))


# -- in a process of its own --------------------------------------------------------------------


@pytest.fixture
def start(site: Site, tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Starts ``manage.py echomq_worker``."""
    started: list[subprocess.Popen[str]] = []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(CHECKOUT / "tests"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONUNBUFFERED": "1",
        "SHOP_URL": site.url,
        "SHOP_PREFIX": site.prefix,
    }

    def begin(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, str(MANAGE), "echomq_worker", *arguments]
        process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)


def until(happened: Callable[[], Any], within_s: float = DEADLINE_S) -> Any:
    """Wait until something is true, and return it."""
    limit = time.monotonic() + within_s
    while not (value := happened()):
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.02)
    return value


@pytest.mark.usefixtures("site")
def test_sigterm_lets_tasks_end(start: Callable[..., Any], tmp_path: Path) -> None:
    """SIGTERM lets the running task end and store its result; no other is cut off."""
    first, second = tasks.linger.enqueue(str(tmp_path)), tasks.total.enqueue([1])
    worker = start("--concurrency", "1", "--name", "ada")
    until((tmp_path / "running").exists)
    worker.send_signal(signal.SIGTERM)
    (tmp_path / "may-end").touch()
    printed, _ = worker.communicate(timeout=DEADLINE_S)
    first.refresh()
    second.refresh()

    assert (worker.returncode, first.status, first.return_value) == (0, SUCCESSFUL, "ended")
    assert second.status in (READY, SUCCESSFUL)  # it may have begun before the signal was heard
    assert printed.splitlines()[0].startswith("Working queues default, emails of 'default', 1 at a time; quit with")


def test_second_signal_gives_tasks_back(site: Site, start: Callable[..., Any], tmp_path: Path) -> None:
    """A second signal gives the running task back at once, without using an attempt."""
    result = tasks.linger.enqueue(str(tmp_path))
    worker = start()
    until((tmp_path / "running").exists)
    worker.send_signal(signal.SIGINT)
    worker.send_signal(signal.SIGTERM)  # not the same: two at once may be heard as one
    worker.communicate(timeout=DEADLINE_S)
    (tmp_path / "may-end").touch()
    site.work()
    result.refresh()

    assert (result.status, result.attempts) == (SUCCESSFUL, 1)


@pytest.mark.usefixtures("site")
def test_reload(start: Callable[..., Any], tmp_path: Path) -> None:
    """When code changes the worker starts anew, and what ran then is run again by the next, in the same attempt."""
    changing = tmp_path / "sitecustomize.py"
    changing.write_text("")
    result = tasks.linger.enqueue(str(tmp_path))
    start("--reload", "--concurrency", "1")
    running = tmp_path / "running"
    first = until(lambda: running.exists() and running.read_text())
    stamp = time.time() + 10
    until(lambda: _touch_and_look(changing, stamp, running, first))
    (tmp_path / "may-end").touch()
    until((tmp_path / "ended").exists)
    result = until(lambda: finished(result))

    assert (result.status, result.attempts) == (SUCCESSFUL, 1)


def finished(result: Any) -> Any:
    """Return a result as it is now, if it is at its end."""
    result.refresh()
    return result if result.is_finished else None


def _touch_and_look(changing: Path, stamp: float, running: Path, first: str) -> bool:
    """Change a file, again and again since the reloader looks once a second, until another process runs the task."""
    os.utime(changing, (time.time() + 10, stamp + time.monotonic()))
    return running.read_text() not in ("", first)


def test_drained_worker_ends(site: Site, start: Callable[..., Any]) -> None:
    """``--until-drained`` works what there is and ends."""
    result = tasks.total.enqueue([1, 2])
    worker = start("--until-drained")
    worker.communicate(timeout=DEADLINE_S)
    result.refresh()

    assert (worker.returncode, result.return_value) == (0, 3)
    assert isinstance(site.queue(), sync.Queue)
