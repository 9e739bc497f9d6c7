"""The shell for asyncio."""

from .adding import add, add_bulk
from .connecting import connect
from .queue import Queue
from .queue_events import QueueEvents, QueueEventsProducer
from .worker import Worker

__all__ = ["Queue", "QueueEvents", "QueueEventsProducer", "Worker", "add", "add_bulk", "connect"]
