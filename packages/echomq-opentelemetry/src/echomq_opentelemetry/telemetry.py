"""Spans and measurements around what EchoMQ does, as a plugin.

Names follow what BullMQ for Node exports (``bullmq.*``), so that one view shows
both, and the semantic conventions for messaging (``messaging.*``). Data and
results of jobs are never exported; messages of errors are.

Source: protocol spec 05 section 8; OpenTelemetry semantic conventions, messaging.
"""

import time
from collections.abc import Generator
from contextvars import ContextVar
from typing import Any

import attrs
from opentelemetry import context as contexts
from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider, get_tracer, set_span_in_context

from echomq.hookspecs import hookimpl
from echomq.job import Job
from echomq.middleware import Middleware, Operation
from echomq.options import JobOptions
from echomq.version import __version__

from .attributes import of_job, of_operation, operation_name
from .carrier import context_of, metadata_of
from .measures import Measures, fate_of, steers

__all__ = ["Telemetry"]

_OUTERMOST = -1_000


@attrs.define(eq=False)
class _Shared:
    """What the jobs of one bulk or flow share.

    Attributes:
        metadata: The context that they carry.
    """

    metadata: str | None
    _options: dict[int, tuple[JobOptions, JobOptions]] = attrs.field(init=False, factory=dict)

    def carrying(self, job: Job) -> Job:
        """Return the job with the context; jobs with the same options still share them, as sending is faster so."""
        options = job.options
        if self.metadata is None or not _may_carry(options):
            return job
        found = self._options.get(id(options))
        if found is None:
            found = self._options[id(options)] = options, options.carrying(self.metadata)
        return job.with_options(found[1])


_operation: ContextVar[_Shared | None] = ContextVar("echomq_opentelemetry_operation", default=None)
"""The bulk or flow that adds jobs now."""


class Telemetry:
    """The plugin; register one of your own for other providers than those that the program has set.

    Args:
        tracer_provider: Makes the spans; None: the one that the program has set, now or later.
        meter_provider: Takes the measurements; None: as above.
        max_job_names: Measurements tell so many names of jobs apart; further ones count as ``"other"``.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        max_job_names: int = 100,
    ) -> None:
        self._tracer = get_tracer("echomq", __version__, tracer_provider)
        self._measures = Measures(get_meter("echomq", __version__, meter_provider), max_job_names)

    @hookimpl
    def echomq_register_middleware(self) -> Middleware:
        """Bring the layers that make spans, around those of other plugins."""
        return Middleware(
            around_add=self._add,
            around_operation=self._operate,
            around_processing=self._process,
            for_child=_present,
            in_child=_continue,
            order=_OUTERMOST,
        )

    @hookimpl
    def echomq_job_completed(self, job: Job) -> None:
        """Count a stored result."""
        self._measures.completed(job)

    @hookimpl
    def echomq_job_failed(self, job: Job, error: BaseException) -> None:
        """Count an attempt that failed."""
        self._measures.failed(job, error)

    # -- adding ---------------------------------------------------------------------------------

    def _add(self, job: Job) -> Generator[Job, Job, None]:
        shared = _operation.get()
        if shared is not None:
            added = yield shared.carrying(job)
            self._measures.added(added)
            return
        span = self._tracer.start_span(f"add {job.queue_name}.{job.name}", kind=SpanKind.PRODUCER)
        try:
            if span.is_recording():
                span.set_attributes(of_job(job, "add", "send"))
            added = yield _Shared(metadata_of(set_span_in_context(span))).carrying(job)
            span.set_attributes({"bullmq.job.id": added.id, "messaging.message.id": added.id})
            self._measures.added(added)
        except Exception as error:
            _fail(span, error)
            raise
        finally:
            span.end()

    def _operate(self, operation: Operation) -> Generator[None, Any, None]:
        name = operation_name(operation)
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=of_operation(operation))
        token = _operation.set(_Shared(metadata_of(set_span_in_context(span))))
        try:
            made = yield
            if isinstance(made, Job):
                span.set_attributes({"bullmq.job.id": made.id, "messaging.message.id": made.id})
        except Exception as error:
            _fail(span, error)
            raise
        finally:
            span.end()
            _operation.reset(token)

    # -- processing -----------------------------------------------------------------------------

    def _process(self, job: Job) -> Generator[Job, Any, None]:
        context = context_of(job.options.telemetry_metadata, contexts.get_current())
        span = self._tracer.start_span(f"process {job.queue_name}", context, kind=SpanKind.CONSUMER)
        context = set_span_in_context(span, context)
        token = contexts.attach(context)
        began_s, fate, is_steered = time.perf_counter(), "completed", False
        try:
            if span.is_recording():
                span.set_attributes(of_job(job, "process", "process"))
            yield job
            span.add_event("job completed")
        except Exception as error:
            fate, is_steered = fate_of(job, error), steers(error)
            if not is_steered:
                _fail(span, error)
                span.add_event("job failed")
            raise
        except BaseException as error:  # cancelled: by a limit of time, by a user, or since its worker ends
            fate = "cancelled"
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, "cancelled"))
            raise
        finally:
            span.set_attribute("bullmq.job.state", fate)
            self._measures.ended(job, fate, (time.perf_counter() - began_s) * 1_000, is_steered=is_steered)
            contexts.detach(token)
            span.end()


def _present() -> str | None:
    """Return the context of the attempt for the child process that runs it."""
    return metadata_of(contexts.get_current())


def _continue(job: Job, handed: str | None) -> Generator[Job, Any, None]:
    """In a child process: make the span of the attempt, which lives in the worker, the present one."""
    token = contexts.attach(context_of(handed, contexts.get_current()))
    try:
        yield job
    finally:
        contexts.detach(token)


def _may_carry(options: JobOptions) -> bool:
    """Tell whether the producer leaves it to us what a job carries."""
    return not options.omit_context and options.telemetry_metadata is None


def _fail(span: Span, error: BaseException) -> None:
    kind = type(error).__qualname__
    span.record_exception(error)
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR, kind))
