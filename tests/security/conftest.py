"""A queue on each server in turn."""

from worker.conftest import desk

__all__ = ["desk"]
