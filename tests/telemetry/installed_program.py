"""A program that only installed the plugin and set its providers, as users do; runs in an environment of its own.

Usage: ``python installed_program.py URL PREFIX``. Prints, as JSON, its spans and what the job saw in its child process.
"""

import json
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from echomq import Job
from echomq.sync import Queue, Worker


def process(_: Job) -> list[str]:
    """Tell the trace and the span that the job's code runs in."""
    context = trace.get_current_span().get_span_context()
    return [f"{context.trace_id:032x}", f"{context.span_id:016x}"]


def main(url: str, prefix: str) -> None:
    """Add a job, run it in a child process, tell of it."""
    queue = Queue("mail", url, prefix=prefix)  # before there is a provider
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    with queue:
        job = queue.add("welcome")
        Worker("mail", process, url, prefix=prefix, run_in="process", drain_delay=100).run("drained")
        done = queue.get_job(job.id)
    spans = exporter.get_finished_spans()
    told = [[span.name, *(f"{span.context.trace_id:032x} {span.context.span_id:016x}".split())] for span in spans]
    print(json.dumps({"spans": told, "child": done.return_value if done else None}))


if __name__ == "__main__":
    main(*sys.argv[1:])
