"""What jobs name is never imported or called: it only chooses among the tasks that are there."""

import sys
from typing import Any

import pytest

from echomq_django.framework import FAILED, SUCCESSFUL, TaskResultDoesNotExist
from echomq_django.records import StoredError
from frameworks.shop import tasks

from .conftest import Site

HOSTILE = [
    *("os.system", "builtins.eval", "this.d", "antigravity.fly", "", ".", "total", "..tasks.total"),
    *("frameworks.shop.tasks.undecorated", "frameworks.shop.tasks.Declined", "frameworks.shop.tasks.time.sleep"),
    *("frameworks.shop.tasks.total.func", "frameworks.shop.tasks.total.__class__", "frameworks.shop.tasks."),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_only_tasks_are_found(site: Site, name: str) -> None:
    """A job with the name of something else fails alone, with a clear reason, and imports nothing (pain 57)."""
    queue = site.queue()
    job = queue.add(name or "-", {"args": ["echo hurt"]})
    good = tasks.total.enqueue([1])
    site.work()
    good.refresh()
    stored = queue.get_job(job.id)

    assert stored is not None
    assert stored.failed_reason is not None
    assert stored.failed_reason.startswith(f"no task {name or '-'!r} is imported here; tasks are found in tasks.py")
    assert (queue.get_job_state(job.id), good.status) == ("failed", SUCCESSFUL)
    assert not {"this", "antigravity"} & sys.modules.keys()
    with pytest.raises(TaskResultDoesNotExist, match="no task"):
        site.backend.get_result(f"default:{job.id}")


@pytest.mark.parametrize(
    "data",
    [None, 5, "text", [], {"args": {}}, {"kwargs": []}, {"args": [], "func": "os.system"}, {"args": None}],
    ids=repr,
)
def test_data_of_strangers(site: Site, data: Any) -> None:
    """A job whose data are no arguments fails alone, whatever attempts are left."""
    queue = site.queue()
    job = queue.add("frameworks.shop.tasks.total", data, attempts=5)
    good = tasks.total.enqueue([1])
    site.work()
    good.refresh()
    stored = queue.get_job(job.id)

    assert stored is not None
    assert stored.failed_reason is not None
    assert "the data of job" in stored.failed_reason
    assert (stored.attempts_made, good.status) == (1, SUCCESSFUL)


@pytest.mark.parametrize(
    "failures",
    [5, [5], [{"attempt": 1}], [{"attempt": True, "exception": "a", "worker": "b", "started_ms": 1}], {"1": 2}],
    ids=repr,
)
def test_forged_failures(site: Site, failures: Any) -> None:
    """What strangers write about failed attempts is left aside where it is nonsense."""
    job = site.queue().add("frameworks.shop.tasks.charge", {"args": [5], "failures": failures})
    site.work()

    result = tasks.charge.get_result(f"default:{job.id}")
    assert (result.status, [error.exception_class for error in result.errors]) == (FAILED, [tasks.Declined])


def test_moment_beyond_the_calendar(site: Site) -> None:
    """A moment that no calendar holds is read as none."""
    far = {"attempt": 1, "exception": "a.B", "worker": "w", "started_ms": 2**60}
    job = site.queue().add("frameworks.shop.tasks.total", {"failures": [far]}, delay=2**52)

    result = tasks.total.get_result(f"default:{job.id}")
    assert (result.task.run_after, result.started_at) == (None, None)


def test_classes_of_errors_are_not_imported() -> None:
    """The class of a stored error is looked up among what is imported, and must be an exception (pain 57)."""

    def error(path: str) -> StoredError:
        return StoredError(exception_class_path=path, traceback="")

    assert error("builtins.ValueError").exception_class is ValueError
    assert error("frameworks.shop.tasks.Declined").exception_class is tasks.Declined
    assert error("email.errors.MessageError").exception_class.__name__ == "MessageError"
    for path in ("this.d", "antigravity.X", "nowhere", "", "builtins.Nothing"):
        with pytest.raises(ImportError, match="import its module first"):
            _ = error(path).exception_class
    for path in ("os.system", "builtins.int", "frameworks.shop.tasks.total"):
        with pytest.raises(ValueError, match="valid exception"):
            _ = error(path).exception_class
    assert not {"this", "antigravity"} & sys.modules.keys()
