"""What spans say of jobs and operations.

Source: protocol spec 05 section 8; OpenTelemetry semantic conventions, messaging.
"""

from typing import Any

from echomq.job import Job
from echomq.middleware import Operation

__all__ = ["of_job", "of_operation", "operation_name"]

SYSTEM = "bullmq"
"""What speaks to the server in all runtimes: the protocol."""

_NAMES = {"add_bulk": "addBulk", "add_flow": "addFlow", "upsert_job_scheduler": "add"}
_MOST_NAMES = 20
"""Names of jobs that the span of a bulk lists; it may hold thousands."""


def operation_name(operation: Operation) -> str:
    """Return the name of an operation's span, as in Node."""
    queue = operation.keys.queue
    scheduler = "" if operation.scheduler_id is None else f".{operation.scheduler_id}"
    return f"{_NAMES[operation.name]} {queue}{scheduler}"


def of_job(job: Job, operation: str, kind: str) -> dict[str, Any]:
    """Return what a span says of a job.

    Args:
        job: The job.
        operation: Name of what is done, ``"add"`` or ``"process"``.
        kind: Kind of operation as the semantic conventions name it, ``"send"`` or ``"process"``.
    """
    told = _destination(job.queue_name, operation, kind)
    if job.name:
        told["bullmq.job.name"] = job.name
    if job.id:
        told["bullmq.job.id"] = told["messaging.message.id"] = job.id
    if job.scheduler_id:
        told["bullmq.job.scheduler.id"] = job.scheduler_id
    if job.deduplication_id:
        told["bullmq.job.deduplication.key"] = job.deduplication_id
    if operation == "process":
        told["bullmq.job.attempts.made"] = job.attempts_made + 1
        if job.processed_by:
            told["bullmq.worker.name"] = job.processed_by
        if job.processed_on_ms is not None:
            told["bullmq.job.processed.timestamp"] = job.processed_on_ms
    return told


def of_operation(operation: Operation) -> dict[str, Any]:
    """Return what a span says of a bulk, a flow or the upsert of a scheduler."""
    jobs = operation.jobs
    told = _destination(operation.keys.queue, _NAMES[operation.name], "send")
    if operation.scheduler_id is not None:
        return {**told, "bullmq.job.scheduler.id": operation.scheduler_id}
    told["messaging.batch.message_count"] = len(jobs)
    if operation.name == "add_flow":
        return {**told, "bullmq.flow.name": jobs[0].name}
    return {
        **told,
        "bullmq.job.bulk.count": len(jobs),
        "bullmq.job.bulk.names": [job.name for job in jobs[:_MOST_NAMES]],
    }


def _destination(queue: str, operation: str, kind: str) -> dict[str, Any]:
    return {
        "messaging.system": SYSTEM,
        "messaging.destination.name": queue,
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "bullmq.queue.name": queue,
        "bullmq.queue.operation": operation,
    }
