"""OpenTelemetry's SDK with exporters that keep everything in memory, and an easy look at it."""

from collections.abc import Mapping
from typing import Any

import attrs
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Tracer

__all__ = ["Exported", "Span"]


@attrs.frozen
class Span:
    """A span that was exported.

    Attributes:
        name: Its name.
        kind: ``"PRODUCER"``, ``"CONSUMER"`` and others.
        trace: Its trace, in hexadecimal.
        id: Its own id, in hexadecimal.
        parent: Id of its parent, if it has one.
        attributes: What it says.
        status: ``"UNSET"`` or ``"ERROR"``.
        events: Names of its events.
    """

    name: str
    kind: str
    trace: str
    id: str
    parent: str | None
    attributes: Mapping[str, Any]
    status: str
    events: tuple[str, ...]


class Exported:
    """Providers of a program, and what they were given."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def tracer(self) -> Tracer:
        """For spans of the program's own."""
        return self.tracer_provider.get_tracer("program")

    def spans(self, beginning: str = "") -> list[Span]:
        """Return the spans that have ended, in the order of their ends, those whose name begins like this."""
        return [_span(span) for span in self._spans.get_finished_spans() if span.name.startswith(beginning)]

    def span(self, beginning: str) -> Span:
        """Return the only span whose name begins like this."""
        [found] = self.spans(beginning)
        return found

    def measured(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Return what a measurement has now: values of its labels, ordered by their names, to sum, value or count."""
        data = self._reader.get_metrics_data()
        metrics = (
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        )
        return {
            tuple(value for _, value in sorted((point.attributes or {}).items())): getattr(
                point, "count", getattr(point, "value", None)
            )
            for metric in metrics
            for point in metric.data.data_points
        }

    def close(self) -> None:
        """End the providers."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()


def _span(span: ReadableSpan) -> Span:
    context = span.get_span_context()
    assert context is not None
    return Span(
        name=span.name,
        kind=span.kind.name,
        trace=f"{context.trace_id:032x}",
        id=f"{context.span_id:016x}",
        parent=None if span.parent is None else f"{span.parent.span_id:016x}",
        attributes=dict(span.attributes or {}),
        status=span.status.status_code.name,
        events=tuple(event.name for event in span.events),
    )
