"""SIGTERM and Ctrl-C for workers: the first ends gracefully, a second one forces.

All workers of one event loop share the two handlers, which are installed with
the first worker and put back with the last. Never SIGALRM: time limits work
without signals, also outside the main thread and on Windows.

Source: design.md section 5.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeAlias

import attrs

from echomq.errors import UsageError

__all__ = ["on_interrupt"]

_Interrupted: TypeAlias = Callable[[bool], None]


@attrs.define(eq=False)
class _Interrupts:
    """The handlers of one loop.

    Attributes:
        loop: Where the workers live.
        listeners: Told whether to force.
        count: Signals so far.
        before: What was there before.
    """

    loop: asyncio.AbstractEventLoop
    listeners: list[_Interrupted] = attrs.field(factory=list)
    count: int = 0
    before: dict[signal.Signals, Any] = attrs.field(factory=dict)

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.before[number] = signal.getsignal(number)
            try:
                self.loop.add_signal_handler(number, self.interrupted)
            except NotImplementedError:  # Windows
                signal.signal(number, self._handler)

    def restore(self) -> None:
        for number, handler in self.before.items():
            with suppress(NotImplementedError):
                self.loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)

    def _handler(self, _: int, __: FrameType | None) -> None:
        self.loop.call_soon_threadsafe(self.interrupted)

    def interrupted(self) -> None:
        self.count += 1
        for listener in tuple(self.listeners):
            listener(self.count > 1)


_installed: dict[asyncio.AbstractEventLoop, _Interrupts] = {}


@contextmanager
def on_interrupt(listener: _Interrupted) -> Generator[None, None, None]:
    """Call a function at SIGTERM and Ctrl-C, for the length of a ``with`` block in the main thread.

    Args:
        listener: Called in the loop; its argument is False the first time, then True.

    Raises:
        UsageError: This is not the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("handle_signals: only the main thread can; pass False, and call worker.stop() from outside")
    loop = asyncio.get_running_loop()
    interrupts = _installed.get(loop)
    if interrupts is None:
        interrupts = _installed[loop] = _Interrupts(loop)
        interrupts.install()
    interrupts.listeners.append(listener)
    try:
        yield
    finally:
        interrupts.listeners.remove(listener)
        if not interrupts.listeners:
            del _installed[loop]
            interrupts.restore()
