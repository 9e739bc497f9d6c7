"""What tests of job schedulers run on: both shells and both servers."""

from support.both_shells import queue, shell

__all__ = ["queue", "shell"]
