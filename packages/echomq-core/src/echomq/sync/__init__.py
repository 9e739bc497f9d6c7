"""The blocking shell: for Django, Flask and scripts. No event loop, no hidden threads."""

from .connecting import connect
from .queue import Queue, add, add_bulk

__all__ = ["Queue", "add", "add_bulk", "connect"]
