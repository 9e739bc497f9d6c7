"""What ``OPTIONS`` of a backend may say, and what may be said about the jobs of one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import attrs

from echomq.checks import check_names
from echomq.errors import InvalidOption, UsageError
from echomq.keys import DEFAULT_PREFIX, Keys
from echomq.options import job_options as checked_job_options
from echomq.options import worker_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from echomq.moments import Duration
    from echomq.options import Backoff, Keep

__all__ = ["BackendOptions", "TaskJobKeywords", "job_options", "options_of_task"]

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__echomq_job_options__"
_NOT_HERE = {"run_in", "processes", "max_jobs_per_child"}
"""Options of workers that make no sense for one that has Django's connections in its threads."""


class TaskJobKeywords(TypedDict, total=False):
    """What may be said about the jobs of tasks; meanings in :class:`~echomq.options.JobOptions`."""

    attempts: int | None
    backoff: Backoff | Duration | Mapping[str, Any] | None
    timeout: Duration | None
    size_limit: int | None
    keep_logs: int | None
    stack_trace_limit: int | None
    remove_on_complete: Keep | bool | int | Mapping[str, int] | None
    remove_on_fail: Keep | bool | int | Mapping[str, int] | None


def _checked(field: str, options: object) -> Mapping[str, Any]:
    if not isinstance(options, Mapping):
        raise InvalidOption(field, f"expected a mapping of names to values, not {options!r}")
    known = TaskJobKeywords.__annotations__
    for name in options:
        if name not in known:
            raise InvalidOption(field, f"{name!r} is not among what tasks may say: {', '.join(sorted(known))}")
    checked_job_options(**options)
    return dict(options)


def job_options(**options: Unpack[TaskJobKeywords]) -> Callable[[F], F]:
    """Say how often the jobs of a task are tried, how long they may take, and how long they are kept.

    Goes below ``@task``, on the function itself. What is said here wins over ``OPTIONS["job_options"]``.

    Args:
        **options: ``attempts``, ``backoff``, ``timeout``, ``size_limit``, ``keep_logs``, ``stack_trace_limit``,
            ``remove_on_complete``, ``remove_on_fail``; see :class:`~echomq.options.JobOptions`.

    Raises:
        UsageError: There is no such option, a value is not acceptable, or this stands above ``@task``.
    """
    checked = _checked("job_options", options)

    def mark(function: F) -> F:
        if not hasattr(function, "__code__"):
            raise UsageError(f"@job_options goes below @task, on the function itself, not on {function!r}")
        setattr(function, _MARK, checked)
        return function

    return mark


def options_of_task(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return what :func:`job_options` said about a task's function."""
    said: Mapping[str, Any] = getattr(function, _MARK, {})
    return said


def _job_options(value: object) -> Mapping[str, Any]:
    return _checked("OPTIONS.job_options", value)


def _worker(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidOption("OPTIONS.worker", f"expected a mapping of names to values, not {value!r}")
    if refused := _NOT_HERE & value.keys():
        raise InvalidOption("OPTIONS.worker", f"{', '.join(sorted(refused))}: tasks of Django run in threads")
    worker_options(**value)
    return dict(value)


def _prefix(_: object, __: object, value: str) -> None:
    Keys("queue", value)


def _flag(_: object, __: object, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidOption("OPTIONS.enqueue_on_commit", f"expected True or False, not {value!r}")


def _modules(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, list | tuple | set):
        raise InvalidOption("OPTIONS.modules", f"expected a list of names of modules, not {value!r}")
    return tuple(value)


@attrs.frozen(kw_only=True)
class BackendOptions:
    """``OPTIONS`` of a backend.

    Attributes:
        url: The server: a URL, options, a ready client or an open connection; None: as ``ECHOMQ_URL`` says.
        prefix: Name space of the queues.
        enqueue_on_commit: Jobs are added when the transactions that are open then are committed.
        job_options: How often jobs are tried, and so on; see :func:`job_options`.
        worker: Options of ``echomq_worker``; see :class:`~echomq.options.WorkerOptions`.
        modules: Further modules with tasks, beside ``tasks.py`` of each application.
    """

    url: Any = attrs.field(default=None, repr=False)
    prefix: str = attrs.field(default=DEFAULT_PREFIX, validator=_prefix)
    enqueue_on_commit: bool = attrs.field(default=True, validator=_flag)
    job_options: Mapping[str, Any] = attrs.field(factory=dict, converter=_job_options)
    worker: Mapping[str, Any] = attrs.field(factory=dict, converter=_worker)
    modules: tuple[str, ...] = attrs.field(default=(), converter=_modules)

    @classmethod
    def read(cls, options: object) -> BackendOptions:
        """Return what a project's settings say.

        Raises:
            UsageError: They say something that is not acceptable; names it.
        """
        if not isinstance(options, Mapping):
            raise InvalidOption("OPTIONS", f"expected a mapping of names to values, not {options!r}")
        check_names(cls, options, "OPTIONS.")
        return cls(**options)
