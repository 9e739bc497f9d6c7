"""Which function runs a job, and what runs around it, blocking.

Source: design.md sections 2 and 7; protocol spec 05 section 4.7.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import attrs

from echomq import middleware
from echomq.current import bind_context
from echomq.errors import UsageError
from echomq.job import Job
from echomq.middleware import Layer, Report
from echomq.processors import (
    Processor,
    Processors,
    check_processor,
    is_coroutine_function,
    no_processor,
    takes_context,
)

from .context import Context

__all__ = ["JobRunner", "job_runner", "surrounded"]

JobRunner: TypeAlias = Callable[[Job, Context], Any]
"""Runs a job in the present thread and returns its result."""


def job_runner(processors: Processors) -> JobRunner:
    """Return what runs the jobs of a worker.

    Raises:
        UsageError: A processor cannot be called here, or there is none.
    """
    return _bound(_Routing(processors) if isinstance(processors, Mapping) else _runner(processors))


def _bound(run: JobRunner) -> JobRunner:
    def call(job: Job, context: Context) -> Any:
        bind_context(context)
        return run(job, context)

    return call


def _runner(function: Processor) -> JobRunner:
    check_processor(function)
    if is_coroutine_function(function):
        raise UsageError(f"processor: {function!r} is an async def, and this worker has no event loop; {_ELSEWHERE}")
    return partial(_call, function, takes_context(function))


_ELSEWHERE = "run it by echomq.Worker, or make it a plain function"


def _call(function: Callable[..., Any], with_context: bool, job: Job, context: Context) -> Any:
    result = function(job, context) if with_context else function(job)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise UsageError(
            f"the processor returned {result!r}, which nobody awaits: there is no event loop; {_ELSEWHERE}"
        )
    return result


@attrs.define(eq=False)
class _Routing:
    """Runs each job by the processor of its name; names only choose, nothing is ever imported by them.

    Attributes:
        processors: By name of the job; read while the worker runs, so more may come.
    """

    processors: Mapping[str, Processor]
    _runners: dict[str, JobRunner] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        """Look at each processor once, early."""
        if not self.processors:
            raise UsageError("processor: expected one for each name of a job, but there is none")
        for name, function in self.processors.items():
            self._runners[name] = _runner(function)

    def __call__(self, job: Job, context: Context) -> Any:
        run = self._runners.get(job.name)
        if run is None:
            if job.name not in self.processors:
                raise no_processor(job, self.processors)
            run = self._runners[job.name] = _runner(self.processors[job.name])
        return run(job, context)


def surrounded(run: JobRunner, layers: tuple[Layer, ...], report: Report) -> JobRunner:
    """Return what runs jobs through the layers of plugins.

    Args:
        run: Runs them.
        layers: From the outermost.
        report: Told what goes wrong in a layer.
    """

    def call(job: Job, context: Context) -> Any:
        bind_context(context)

        def inner(changed: Job) -> Any:
            context.replace_job(changed)
            return run(changed, context)

        return middleware.process_plainly(layers, job, report, inner)

    return call
