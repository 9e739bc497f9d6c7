"""What tests of events run on: both shells and both servers."""

from support.both_shells import queue, shell

__all__ = ["queue", "shell"]
