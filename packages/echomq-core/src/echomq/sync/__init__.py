"""The blocking shell: for Django, Flask and scripts.

No event loop, and no threads but those in which a worker runs jobs and renews locks.
"""

from .adding import add, add_bulk
from .connecting import connect
from .context import Context, current_context
from .flow_producer import FlowProducer
from .manual import FetchedJob
from .queue import Queue
from .queue_events import QueueEvents, QueueEventsProducer
from .worker import Worker
from .worker_group import WorkerGroup

__all__ = [
    "Context",
    "FetchedJob",
    "FlowProducer",
    "Queue",
    "QueueEvents",
    "QueueEventsProducer",
    "Worker",
    "WorkerGroup",
    "add",
    "add_bulk",
    "connect",
    "current_context",
]
