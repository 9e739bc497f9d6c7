"""A queue on each server for the tests of the workers, and each worker in turn."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from echomq import Worker
from support.blocking import Awaited
from support.desk import Desk, at_desk
from support.servers import Server

WORKERS: dict[str, Callable[..., Any]] = {"asyncio": Worker, "blocking": Awaited}

ASYNCIO_ONLY = frozenset(
    {
        # They are about the event loop, or about coroutines.
        "test_async_listener_that_leaves",
        "test_blocked_loop_keeps_locks_and_is_warned_of",
        "test_close_waits_for_a_report_of_many",
        "test_callables_of_all_kinds",
        "test_cancel_while_the_loop_is_blocked",
        "test_cancelled_run_gives_jobs_back",
        "test_scope_that_cancels_again_and_again",
        "test_context_of_a_coroutine",
        "test_context_of_a_thread_refuses_the_loop",
        "test_fetch_in_two_loops",
        "test_job_that_a_take_brings_to_a_cancelled_run_waits_again",
        "test_listener_as_decorator_and_removed",
        "test_listener_may_not_wait_for_its_worker",
        "test_listeners_can_do_no_harm",
        "test_loop_in_a_loop",
        "test_nothing_works_before_run",
        "test_program_that_ends_gives_jobs_back",
        "test_steering_from_another_thread",
        "test_stop_from_another_thread",
        "test_strategies_may_be_sync_or_async",
        "test_strategy_that_waits_when_the_worker_ends",
        "test_stubborn_coroutine_is_cancelled_again",
        "test_thread_cannot_interrupt_its_worker",
        "test_time_left_is_told_while_closing",
        # Signals need the main thread, which runs the loop of the tests; they are sent to processes instead.
        "test_first_signal_ends_gracefully",
        "test_second_signal_forces",
        "test_signals_can_be_left_to_the_host",
        "test_group_that_ends_before_the_beginning",  # it takes both by itself
        "test_job_or_listener_may_not_wait_for_its_group",
        # Those of the blocking worker are in test_without_loop.py.
        "test_closed_connection_ends_the_run",
        "test_connections_are_few_and_go_away",
        "test_connections_of_all_kinds",
        "test_job_may_stop_its_worker_but_not_wait_for_it",
        "test_leaving_by_an_exception_gives_jobs_back",
        "test_own_connection_is_left_open",
    }
)
"""Tests that say nothing of the blocking worker."""


SLOW = frozenset(
    {
        "test_long_plain_function_keeps_its_lock",
        "test_many_jobs_due_together_run_once_each",
        "test_many_locks_are_renewed_in_one_call",
        "test_short_outage_costs_no_job",
        "test_silence_of_the_server_shows",
    }
)
"""Tests that take seconds and come to the same code in both shells; for the blocking one only in the heavy run."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Test the blocking worker on one server, and where that makes sense."""
    left_out = [item for item in items if _is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    for item in items:
        if _is_blocking(item) and _function(item) in SLOW:
            item.add_marker(pytest.mark.heavy)


def _is_left_out(item: pytest.Item) -> bool:
    return _is_blocking(item) and (_params(item).get("server", "redis") != "redis" or _function(item) in ASYNCIO_ONLY)


def _is_blocking(item: pytest.Item) -> bool:
    return bool(_params(item).get("make_worker") == "blocking")


def _params(item: pytest.Item) -> dict[str, Any]:
    params: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    return params


def _function(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))


@pytest.fixture(params=list(WORKERS))
def make_worker(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """The worker for asyncio, and the blocking one in its shape."""
    return WORKERS[request.param]


@pytest_asyncio.fixture
async def desk(server: Server, prefix: str, make_worker: Callable[..., Any]) -> AsyncIterator[Desk]:
    """An empty queue, on each server in turn."""
    async with at_desk(server.url, prefix, make_worker) as opened:
        yield opened
