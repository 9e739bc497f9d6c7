"""The shell for asyncio."""

from .adding import add, add_bulk
from .connecting import connect
from .queue import Queue
from .worker import Worker

__all__ = ["Queue", "Worker", "add", "add_bulk", "connect"]
