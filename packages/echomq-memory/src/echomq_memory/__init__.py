"""EchoMQ without a server: the driver for queues in the memory of one process."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .server import MemoryServer, memory_server, wake_all

__all__ = ["MemoryServer", "memory_server", "wake_all"]


def __getattr__(name: str) -> Any:
    """Import the engine when it is needed: every program that looks for drivers imports this package."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import server

    return getattr(server, name)
