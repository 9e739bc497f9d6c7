"""The blocking shell."""

from .connecting import connect

__all__ = ["connect"]
