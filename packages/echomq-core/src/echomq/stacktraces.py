"""The stack trace of a job's error, as its user wants to read it: from the user's code on.

An error passes a dozen frames of the worker before it comes out of a processor.
They are the same for each job and tell nothing, so they are left out.
"""

import traceback
from types import TracebackType

from .errors import EchoMQError

__all__ = ["RaisedElsewhere", "in_users_code", "stack_trace"]

_MACHINERY = frozenset({"echomq", "asyncio", "concurrent"})


class RaisedElsewhere(Exception):  # no error of its own: as the cause of one, it carries its stack trace
    """Where an error was raised in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


def in_users_code(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that begins in the user's code; None if nothing of it lies there."""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _MACHINERY:
            return trace
        trace = trace.tb_next
    return None


def stack_trace(error: BaseException) -> str:
    """Return the stack trace of what a processor raised, or of what the worker says about it.

    That of a child process is as it was there. An error of this library that passed no code of the user, as of a
    process that died, is told without a trace; any other keeps the whole one.
    """
    if isinstance(error.__cause__, RaisedElsewhere):
        return str(error.__cause__.args[0])
    trace = in_users_code(error.__traceback__)
    if trace is None and not isinstance(error, EchoMQError):
        trace = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, trace))
