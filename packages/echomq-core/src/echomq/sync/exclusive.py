"""What one thread does at a time, and the next one can do whatever broke it off.

A signal handler may raise between any two steps of the main thread: Ctrl-C, a
limit of time by SIGALRM. A plain lock that is acquired with a timeout stays
taken if that happens before the ``try`` that would release it, and everything
after it waits for ever. A reentrant lock knows whose it is, so that it can be
released without knowing whether it was acquired.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from echomq.errors import UsageError

__all__ = ["Exclusive"]

T = TypeVar("T")


@attrs.define(eq=False)
class Exclusive:
    """Lets one thread at a time do something.

    Attributes:
        is_used: Some thread is at it.
    """

    # What follows each call of the lock is in C or in one bytecode, where no signal is looked at; so no ``with``
    # of Python code, and no helper, stands between the lock and its ``finally``.
    _lock: Any = attrs.field(init=False, factory=threading.RLock)
    is_used: bool = attrs.field(init=False, default=False)

    def do(self, work: Callable[[], T], *, wait_s: float, late: Callable[[], Exception]) -> T:
        """Do something that no other thread does meanwhile.

        Args:
            work: What.
            wait_s: Longest wait for the others.
            late: Makes the error for who has waited so long.

        Raises:
            UsageError: This thread does it already, and was interrupted.
        """
        lock = self._lock
        try:
            if not lock.acquire(timeout=max(0.0, wait_s)):
                raise late()
            return self._alone(work)
        finally:
            try:  # noqa: SIM105  # see above
                lock.release()
            except RuntimeError:
                pass  # it was not acquired

    def do_if_free(self, work: Callable[[], object]) -> None:
        """Do something now if nobody does anything, else not at all."""
        lock = self._lock
        try:
            if lock.acquire(blocking=False) and not self.is_used:
                work()
        finally:
            try:  # noqa: SIM105  # see above
                lock.release()
            except RuntimeError:
                pass  # it was not acquired

    def _alone(self, work: Callable[[], T]) -> T:
        if self.is_used:
            raise UsageError(
                "a signal handler, or a finalizer, wants to use what its own thread was just using; let it set a flag, "
                "or use another connection"
            )
        self.is_used = True
        try:
            return work()
        finally:
            self.is_used = False
