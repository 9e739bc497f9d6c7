"""The hooks a plugin may implement, and the markers for them.

A plugin is a module named by an entry point of the group ``echomq``. It marks
its functions with :data:`hookimpl`, and takes of the arguments what it needs.
Workers without an event loop leave out what is ``async``, and say so.

Source: design.md section 7.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

from .backoff import BackoffStrategy
from .driver import DriverPlugin
from .job import Job
from .keys import Keys
from .middleware import Middleware

if TYPE_CHECKING:
    from typer import Typer

__all__ = [
    "PROJECT",
    "echomq_before_add",
    "echomq_job_completed",
    "echomq_job_failed",
    "echomq_job_stalled",
    "echomq_lock_lost",
    "echomq_register_backoffs",
    "echomq_register_commands",
    "echomq_register_driver",
    "echomq_register_middleware",
    "hookimpl",
]

PROJECT = "echomq"
"""Name of the entry-point group, and prefix of every hook."""

_hookspec = pluggy.HookspecMarker(PROJECT)

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a plugin's implementation of a hook."""

# A specification has no body, hence what is ignored below.


@_hookspec
def echomq_register_driver() -> DriverPlugin:  # type: ignore[empty-body]
    """Tell what driver this plugin brings.

    Must not import the client library: discovery runs for every program, whatever driver it then uses.

    Returns:
        Name, URL schemes and openers.
    """


@_hookspec
def echomq_register_middleware() -> Middleware | Sequence[Middleware]:  # type: ignore[empty-body]
    """Tell what code runs around adding and around processing, in all queues and workers of the process."""


@_hookspec
def echomq_register_backoffs() -> Mapping[str, BackoffStrategy]:  # type: ignore[empty-body]
    """Tell what backoff types this plugin brings.

    Returns:
        Name -> strategy; workers' own ``backoff_strategies`` of the same name win.
    """


@_hookspec
def echomq_register_commands(app: "Typer") -> None:
    """Add commands to the command line ``echomq``.

    Args:
        app: Its Typer application.
    """


@_hookspec
def echomq_before_add(job: Job) -> Job | None:
    """Look at a job before it is sent; on the event loop this must not block.

    Jobs that a scheduler makes on the server do not pass here.

    Args:
        job: As it will be added; it has no id yet unless the caller chose one.

    Returns:
        Another job to add in its place, or None.
    """


@_hookspec
def echomq_job_completed(job: Job, result: Any) -> None:
    """Hear that a job's result is stored, in the worker that ran it; may be ``async def``."""


@_hookspec
def echomq_job_failed(job: Job, error: BaseException) -> None:
    """Hear that an attempt failed, the last one or not, in the worker that ran it; may be ``async def``."""


@_hookspec
def echomq_job_stalled(keys: Keys, job_id: str) -> None:
    """Hear that a job waits again because its worker went silent; may be ``async def``.

    Args:
        keys: Of the queue.
        job_id: The job.
    """


@_hookspec
def echomq_lock_lost(keys: Keys, job_id: str) -> None:
    """Hear that a job of this worker lost its lock and was cancelled; may be ``async def``.

    Args:
        keys: Of the queue.
        job_id: The job.
    """
