"""The shell for asyncio."""

from .connecting import connect
from .queue import Queue, add, add_bulk
from .worker import Worker

__all__ = ["Queue", "Worker", "add", "add_bulk", "connect"]
