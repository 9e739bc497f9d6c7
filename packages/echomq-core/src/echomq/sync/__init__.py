"""The blocking shell: for Django, Flask and scripts. No event loop, no hidden threads."""

from .adding import add, add_bulk
from .connecting import connect
from .flow_producer import FlowProducer
from .queue import Queue
from .queue_events import QueueEvents, QueueEventsProducer

__all__ = ["FlowProducer", "Queue", "QueueEvents", "QueueEventsProducer", "add", "add_bulk", "connect"]
