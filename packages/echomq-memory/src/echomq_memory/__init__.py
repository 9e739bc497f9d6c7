"""EchoMQ without a server: the driver for queues in the memory of one process."""

from .server import MemoryServer, memory_server, wake_all

__all__ = ["MemoryServer", "memory_server", "wake_all"]
