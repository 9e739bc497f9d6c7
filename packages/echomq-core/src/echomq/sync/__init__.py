"""The blocking shell: for Django, Flask and scripts. No event loop, no hidden threads."""

from .adding import add, add_bulk
from .connecting import connect
from .queue import Queue

__all__ = ["Queue", "add", "add_bulk", "connect"]
