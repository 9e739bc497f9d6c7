"""The option names of jobs and workers, for type checkers.

The attrs classes of :mod:`echomq.options` are what runs; this mirror lets
``add(..., delay=5_000)`` complete and check in an editor. A test keeps the two
sets of names equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .backoff import BackoffStrategy
    from .moments import Duration, Moment
    from .options import Backoff, Deduplication, Keep, Parent, RateLimit
    from .worker_options import ErrorTypes, Lifespan, RunIn

__all__ = ["JobKeywords", "WorkerKeywords"]


class JobKeywords(TypedDict, total=False):
    """What may be said about a job when it is added; meanings in :class:`~echomq.options.JobOptions`."""

    job_id: str | None
    delay: Duration | None
    priority: int | None
    attempts: int | None
    backoff: Backoff | Duration | Mapping[str, Any] | None
    lifo: bool | None
    timestamp: Moment | None
    remove_on_complete: Keep | bool | int | Mapping[str, int] | None
    remove_on_fail: Keep | bool | int | Mapping[str, int] | None
    keep_logs: int | None
    stack_trace_limit: int | None
    size_limit: int | None
    timeout: Duration | None
    deduplication: Deduplication | str | Mapping[str, Any] | None
    parent: Parent | Mapping[str, str] | None
    fail_parent_on_failure: bool | None
    continue_parent_on_failure: bool | None
    ignore_dependency_on_failure: bool | None
    remove_dependency_on_failure: bool | None
    telemetry_metadata: str | None
    omit_context: bool | None
    extra: Mapping[str, object] | None


class WorkerKeywords(TypedDict, total=False):
    """What may be said about a worker; meanings in :class:`~echomq.options.WorkerOptions`."""

    concurrency: int
    name: str | None
    lock_duration: Duration
    stalled_interval: Duration
    max_stalled_count: int
    skip_stalled_check: bool
    skip_lock_renewal: bool
    drain_delay: Duration
    limiter: RateLimit | Mapping[str, Any] | None
    maximum_rate_limit_delay: Duration
    max_started_attempts: int | None
    remove_on_complete: Keep | bool | int | Mapping[str, int] | None
    remove_on_fail: Keep | bool | int | Mapping[str, int] | None
    metrics: int | None
    backoff_strategies: Mapping[str, BackoffStrategy]
    close_timeout: Duration | None
    timeout: Duration | Mapping[str, Duration] | None
    lifespan: Lifespan | None
    unrecoverable: ErrorTypes
    run_in: RunIn | None
    processes: int | None
    max_jobs_per_child: int | None
