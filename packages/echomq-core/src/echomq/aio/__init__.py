"""The shell for asyncio."""

from .adding import add, add_bulk
from .connecting import connect
from .flow_producer import FlowProducer
from .manual import FetchedJob
from .queue import Queue
from .queue_events import QueueEvents, QueueEventsProducer
from .worker import Worker
from .worker_group import WorkerGroup

__all__ = [
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
]
