"""SIGTERM and Ctrl-C for blocking workers: the first ends gracefully, a second one forces.

Source: design.md section 5.
"""

import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from echomq.errors import UsageError

__all__ = ["on_interrupt"]


@contextmanager
def on_interrupt(listener: Callable[[bool], None]) -> Generator[None, None, None]:
    """Call a function at SIGTERM and Ctrl-C, for the length of a ``with`` block in the main thread.

    Args:
        listener: Called between any two steps of the main thread, so it must take no lock; its argument is
            False the first time, then True.

    Raises:
        UsageError: This is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("handle_signals: only the main thread can; pass False, and call worker.stop() from outside")
    count = 0

    def handle(_: int, __: FrameType | None) -> None:
        nonlocal count
        count += 1
        listener(count > 1)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
