"""Which function runs a job, and what runs around it.

Source: design.md sections 2 and 7.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import attrs

from echomq import middleware
from echomq.current import bind_context
from echomq.errors import UsageError
from echomq.job import Job
from echomq.middleware import Layer, Report
from echomq.options import WorkerOptions
from echomq.processes.pool import ProcessPool
from echomq.processors import Processor, Processors, no_processor
from echomq.worker_options import RunIn

from .context import Context, Host, ThreadContext
from .processing import JobRunner, Processing

__all__ = ["Routing", "Surrounded", "job_runner"]


def job_runner(processors: Processors, options: WorkerOptions) -> JobRunner:
    """Return what runs the jobs of a worker.

    Raises:
        UsageError: A processor cannot be called, or not where it shall run, or there is none.
    """
    if isinstance(processors, Mapping) and not processors:
        raise UsageError("processor: expected one for each name of a job, but there is none")
    if options.run_in == "process":
        pool = ProcessPool(processors, options.max_jobs_per_child)
        return Processing(pool.run, "thread", pool.close)
    if isinstance(processors, Mapping):
        return Routing(processors, options.run_in)
    return Processing(processors, options.run_in)


@attrs.define(eq=False)
class Routing:
    """Runs each job by the processor of its name; names only choose, nothing is ever imported by them.

    Attributes:
        processors: By name of the job; read while the worker runs, so more may come.
        run_in: Where they shall run; None: by their kind.
    """

    processors: Mapping[str, Processor]
    run_in: RunIn | None = None
    _runners: dict[str, Processing] = attrs.field(init=False, factory=dict)
    _unknown: Processing = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look at each processor once, early."""
        for name in self.processors:
            self._runner(name)
        self._unknown = Processing(self._refuse)

    def _runner(self, name: str) -> Processing:
        runner = self._runners.get(name)
        if runner is None:
            if name not in self.processors:
                return self._unknown
            runner = self._runners[name] = Processing(self.processors[name], self.run_in)
        return runner

    async def _refuse(self, job: Job) -> None:
        raise no_processor(job, self.processors)

    def context(self, job: Job, token: str, host: Host) -> Context | ThreadContext:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        return self._runner(job.name).context(job, token, host)

    def call(self, job: Job, context: Context | ThreadContext) -> Awaitable[Any]:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        return self._runner(job.name).call(job, context)

    def close(self) -> None:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        for runner in self._runners.values():
            runner.close()


@attrs.define(eq=False)
class Surrounded:
    """Runs jobs through the layers of plugins.

    Attributes:
        runner: Runs them.
        layers: From the outermost.
        report: Told what goes wrong in a layer.
    """

    runner: JobRunner
    layers: tuple[Layer, ...]
    report: Report

    def context(self, job: Job, token: str, host: Host) -> Context | ThreadContext:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        return self.runner.context(job, token, host)

    async def call(self, job: Job, context: Context | ThreadContext) -> Any:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        bind_context(context)
        run: Callable[[Job], Awaitable[Any]] = partial(self._run, context)
        return await middleware.process(self.layers, job, self.report, run)

    def _run(self, context: Context | ThreadContext, job: Job) -> Awaitable[Any]:
        context.replace_job(job)
        return self.runner.call(job, context)

    def close(self) -> None:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        self.runner.close()
