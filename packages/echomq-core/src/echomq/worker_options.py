"""What a user may say about a worker, checked when it is made.

Source: protocol spec 05 section 4.1.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal, TypeAlias

import attrs

from .backoff import BackoffStrategy
from .checks import check_names, is_bool, is_text, is_whole, nested
from .errors import InvalidOption, JobSignal
from .moments import Duration, duration_ms
from .retention import Keep, remove_on_complete, remove_on_fail

__all__ = [
    "RUN_PLACES",
    "ErrorTypes",
    "Lifespan",
    "RateLimit",
    "RunIn",
    "WorkerOptions",
    "error_types",
    "no_context_manager",
    "worker_options",
]

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[Any] | AbstractContextManager[Any]]
"""Makes what is entered when a worker begins to work, and left when its last job has ended."""

ErrorTypes: TypeAlias = type[Exception] | Iterable[type[Exception]]
"""One class of errors, or several."""

RunIn: TypeAlias = Literal["loop", "thread", "process"]
RUN_PLACES: tuple[RunIn, ...] = ("loop", "thread", "process")
"""Where a processor may run."""


def _duration(value: Duration) -> int:
    return duration_ms("duration", value, minimum=1)


def _lock_duration(value: Duration) -> int:
    return duration_ms("lock_duration", value, minimum=1)


def _stalled_interval(value: Duration) -> int:
    return duration_ms("stalled_interval", value, minimum=1)


def _drain_delay(value: Duration) -> int:
    return duration_ms("drain_delay", value, minimum=1)


def _maximum_rate_limit_delay(value: Duration) -> int:
    return duration_ms("maximum_rate_limit_delay", value, minimum=1)


def _close_timeout(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("close_timeout", value)


def _timeout(value: Duration | Mapping[str, Duration] | None) -> int | Mapping[str, int] | None:
    if isinstance(value, Mapping):
        return {name: duration_ms(f"timeout[{name!r}]", limit, minimum=1) for name, limit in value.items()}
    return None if value is None else duration_ms("timeout", value, minimum=1)


def error_types(value: object) -> tuple[type[Exception], ...]:
    """Return classes of errors after which no attempt follows.

    Raises:
        InvalidOption: Something is no class of errors, or a signal, which steers already, or a class whose
            ``isinstance`` raises.
    """
    given = (value,) if isinstance(value, type) else tuple(value) if isinstance(value, Iterable) else (value,)
    for one in given:
        if not (isinstance(one, type) and issubclass(one, Exception)) or issubclass(one, JobSignal):
            raise InvalidOption("unrecoverable", f"expected classes of errors such as ValueError, not {one!r}")
        try:
            isinstance(Exception(), one)
        except Exception as error:
            problem = f"{one.__name__} cannot tell whether an error is one: it raised {type(error).__name__}: {error}"
            raise InvalidOption("unrecoverable", problem) from error
    return given


def _is_lifespan(_: object, __: object, value: Any) -> None:
    if value is not None and not callable(value):
        raise InvalidOption("lifespan", f"expected a function that makes a context manager, not {value!r}")


def no_context_manager(made: object, wanted: str) -> InvalidOption:
    """Return the error for a lifespan that made something else."""
    return InvalidOption("lifespan", f"it made {made!r}, which is no context manager; expected {wanted}")


def _is_place(_: object, __: object, value: object) -> None:
    if value is not None and value not in RUN_PLACES:
        raise InvalidOption("run_in", f"expected 'loop', 'thread' or 'process', not {value!r}")


@attrs.frozen
class RateLimit:
    """At most ``max`` jobs start in each ``duration``, over all workers of the queue.

    Attributes:
        max: Jobs in one window.
        duration: Length of the window in ms (or a ``timedelta``).
    """

    max: int = attrs.field(validator=is_whole(1))
    duration: int = attrs.field(converter=_duration)


def _limiter(value: RateLimit | Mapping[str, Any] | None) -> RateLimit | None:
    return nested(RateLimit, "limiter", value)


@attrs.frozen(kw_only=True)
class WorkerOptions:
    """How a worker works; everything has a default.

    Attributes:
        concurrency: Jobs at one time.
        name: Shown in lists of workers, and stored with the jobs it takes.
        lock_duration: A job whose worker is silent for so long (ms or ``timedelta``) may run elsewhere.
        stalled_interval: Look for such jobs this often.
        max_stalled_count: A job lost more often than this fails.
        skip_stalled_check: Leave the look-out to other workers.
        skip_lock_renewal: Never renew locks: each job must end within ``lock_duration``.
        drain_delay: Longest single wait for a job on an idle queue.
        limiter: Rate limit of this worker's queue.
        maximum_rate_limit_delay: Longest single sleep while rate limited.
        max_started_attempts: A job started more often than this fails; None for no limit.
        remove_on_complete: For jobs that say nothing themselves; None keeps all.
        remove_on_fail: The same for failed ones.
        metrics: Points (minutes) of history to keep; None counts nothing.
        backoff_strategies: Own backoff types: name -> function, see :func:`~echomq.backoff.next_delay_ms`.
        close_timeout: How long a close waits for running jobs. None: as the variable ``ECHOMQ_CLOSE_TIMEOUT`` says,
            such as ``25s``, or without end.
        timeout: Longest time for one attempt (ms or ``timedelta``), for all jobs or by their names; the option
            ``timeout`` of a job wins. What takes longer is stopped and fails with
            :class:`~echomq.errors.JobTimedOut`, which is retried as any failure. None: no limit.
        lifespan: Makes a context manager (``@asynccontextmanager``; a plain one also serves), entered when the worker
            begins to work and left when its last job has ended. What it gives is ``ctx.shared`` of each job.
        unrecoverable: Classes of errors after which no other attempt follows, as after
            :class:`~echomq.Unrecoverable`: those that another attempt would meet again.
        run_in: ``"loop"`` (``async def`` only), ``"thread"`` (plain functions only) or ``"process"`` (both; the
            function must be importable). None: ``async def`` on the loop, plain functions in threads.
        processes: Child processes of ``run_in="process"``; at least ``concurrency``, which it sets where
            that is not given. None: as many as ``concurrency``.
        max_jobs_per_child: A child process is replaced after so many jobs; None: never.

    Raises:
        InvalidOption: Names the field and the limit.

    Source: protocol spec 05 section 4.1.
    """

    concurrency: int = attrs.field(default=1, validator=is_whole(1))
    name: str | None = attrs.field(default=None, validator=is_text)
    lock_duration: int = attrs.field(default=30_000, converter=_lock_duration)
    stalled_interval: int = attrs.field(default=30_000, converter=_stalled_interval)
    max_stalled_count: int = attrs.field(default=1, validator=is_whole(0))
    skip_stalled_check: bool = attrs.field(default=False, validator=is_bool)
    skip_lock_renewal: bool = attrs.field(default=False, validator=is_bool)
    drain_delay: int = attrs.field(default=5_000, converter=_drain_delay)
    limiter: RateLimit | None = attrs.field(default=None, converter=_limiter)
    maximum_rate_limit_delay: int = attrs.field(default=30_000, converter=_maximum_rate_limit_delay)
    max_started_attempts: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    remove_on_complete: Keep | None = attrs.field(default=None, converter=remove_on_complete)
    remove_on_fail: Keep | None = attrs.field(default=None, converter=remove_on_fail)
    metrics: int | None = attrs.field(default=None, validator=is_whole(1, optional=True))
    backoff_strategies: Mapping[str, BackoffStrategy] = attrs.field(factory=dict, hash=False)
    close_timeout: int | None = attrs.field(default=None, converter=_close_timeout)
    timeout: int | Mapping[str, int] | None = attrs.field(default=None, converter=_timeout, hash=False)
    lifespan: Lifespan | None = attrs.field(default=None, validator=_is_lifespan)
    unrecoverable: tuple[type[Exception], ...] = attrs.field(default=(), converter=error_types)
    run_in: RunIn | None = attrs.field(default=None, validator=_is_place)
    processes: int | None = attrs.field(default=None, validator=is_whole(1, optional=True))
    max_jobs_per_child: int | None = attrs.field(default=None, validator=is_whole(1, optional=True))

    def __attrs_post_init__(self) -> None:
        """Check what concerns more than one field."""
        for name in ("processes", "max_jobs_per_child"):
            if getattr(self, name) is not None and self.run_in != "process":
                raise InvalidOption(name, "only goes with run_in='process'")
        if self.lifespan is not None and self.run_in == "process":
            raise InvalidOption("lifespan", "child processes share nothing; set up what jobs need in their module")
        if self.processes is not None and self.processes < self.concurrency:
            raise InvalidOption("processes", f"{self.processes} cannot run {self.concurrency} jobs at a time")


def worker_options(**given: Any) -> WorkerOptions:
    """Return the options a user named, checked.

    Args:
        **given: Fields of :class:`WorkerOptions`.

    Raises:
        UnknownOption: No option has that name; tells the nearest one.
        InvalidOption: A value is outside what its field allows.
    """
    check_names(WorkerOptions, given)
    if given.get("processes") is not None:
        given.setdefault("concurrency", given["processes"])
    return WorkerOptions(**given)
