"""Adds and tasks that wait for the commit of Django's databases."""

import threading
import unittest
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.test import TestCase

import echomq
from echomq import UsageError, sync
from echomq_django import on_commit, on_commit_of
from echomq_django.framework import READY, SUCCESSFUL, TaskResultDoesNotExist
from frameworks.shop import tasks
from frameworks.shop.models import Order

from .conftest import Site


def names(queue: sync.Queue) -> list[str]:
    """Return the names of the jobs, oldest first."""
    return [job.name for job in queue.get_jobs("waiting", ascending=True)]


def test_worker_sees_the_row(site: Site) -> None:
    """A task that is enqueued in a transaction is sent with its commit, so a fast worker finds the row (pain 34)."""
    with transaction.atomic():
        order = Order.objects.create(item="lamp")
        result = tasks.pack.enqueue(order.pk)
        assert (result.enqueued_at, result.status) == (None, READY)
        with pytest.raises(TaskResultDoesNotExist):
            tasks.pack.get_result(result.id)
        in_another_thread(site.work)
        assert site.queue().count() == 0
    site.work()

    assert result.enqueued_at is not None
    result.refresh()
    order.refresh_from_db()
    assert (result.return_value, order.is_packed) == ("lamp", True)


def in_another_thread(work: Any) -> None:
    """Run something in a thread of its own, to its end."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_rollback_sends_nothing(site: Site) -> None:
    """A rolled back transaction, or savepoint, sends nothing, and outside a transaction tasks go at once (pain 34)."""
    with suppress(ZeroDivisionError), transaction.atomic():
        lost = tasks.pack.enqueue(1)
        on_commit(site.queue().add, "lost")
        _ = 1 / 0
    with transaction.atomic():
        with suppress(ZeroDivisionError), transaction.atomic():
            tasks.pack.enqueue(2)
            _ = 1 / 0
        with transaction.atomic():
            tasks.pack.enqueue(3)
    at_once = tasks.pack.enqueue(4)

    with pytest.raises(TaskResultDoesNotExist):
        lost.refresh()
    assert [job.data["args"] for job in site.queue().get_jobs("prioritized", ascending=True)] == [[3], [4]]
    assert at_once.enqueued_at is not None


def test_mistakes_are_seen_before_the_commit(site: Site) -> None:
    """What cannot be a job is refused where it is enqueued, not when the transaction is committed."""
    site.configure(job_options={"size_limit": 20})
    with transaction.atomic():
        with pytest.raises(ValueError, match="nan"):
            tasks.note.enqueue([float("nan")])  # type: ignore[arg-type]  # the mistake under test
        with pytest.raises(UsageError, match="size_limit"):
            tasks.welcome.enqueue("a long name" * 10)

    assert site.queue().count() == 0


def test_at_once_if_settings_say_so(site: Site) -> None:
    """With ``enqueue_on_commit`` off a task is sent at once, whatever becomes of the transaction."""
    site.configure(enqueue_on_commit=False)
    with suppress(ZeroDivisionError), transaction.atomic():
        result = tasks.total.enqueue([1])
        _ = 1 / 0
    site.work()
    result.refresh()

    assert result.status == SUCCESSFUL


def test_several_databases(site: Site) -> None:
    """A task waits for every transaction that is open, and is dropped with any of them; a hook may wait for one."""
    add = site.queue().add
    with transaction.atomic(using="audit"):
        with transaction.atomic():
            on_commit(add, "both")
            on_commit_of("default", add, "one")
        assert names(site.queue()) == ["one"]
    assert names(site.queue()) == ["one", "both"]
    with transaction.atomic(), suppress(ZeroDivisionError), transaction.atomic(using="audit"):
        on_commit(add, "dropped with the other")
        on_commit_of("default", add, "kept", {"n": 1}, priority=0)
        _ = 1 / 0
    with suppress(ZeroDivisionError), transaction.atomic():
        with transaction.atomic(using="audit"):
            on_commit(add, "dropped with this one")
        _ = 1 / 0

    assert names(site.queue()) == ["one", "both", "kept"]


def test_manual_transactions_are_refused(site: Site) -> None:
    """Where a project begins and ends transactions by itself, Django has no hooks, and says so."""
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError):
            tasks.total.enqueue([1])
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)

    assert site.queue().count() == 0


async def test_adds_that_nobody_awaits_are_refused(site: Site) -> None:
    """An ``async def`` is refused, since nothing awaits it at a commit."""
    async with echomq.Queue("default", site.url, prefix=site.prefix) as queue:
        with pytest.raises(UsageError, match="async def"):
            on_commit(queue.add, "welcome")
        with pytest.raises(UsageError, match="async def"):
            on_commit_of("default", partial(queue.add, "welcome"))


def test_hooks_in_django_test_cases(site: Site) -> None:
    """A project's ``TestCase``, which rolls everything back, sees what would be sent by capturing the hooks."""

    class Orders(TestCase):
        """A user's test."""

        def test_order(self) -> None:
            """Enqueue within the transaction of the test."""
            with self.captureOnCommitCallbacks(execute=True) as callbacks, transaction.atomic():
                result = tasks.total.enqueue([1])
            assert len(callbacks) == 1
            assert result.enqueued_at is not None

    outcome = unittest.TestResult()
    unittest.TestSuite([Orders("test_order")]).run(outcome)
    assert outcome.wasSuccessful(), outcome.errors + outcome.failures
    assert site.queue().count() == 1
