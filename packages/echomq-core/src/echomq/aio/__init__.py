"""The shell for asyncio."""

from .connecting import connect

__all__ = ["connect"]
