"""A clock that stands still until a test sets it."""

from __future__ import annotations

import sys
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from echomq import clock
from echomq.errors import UsageError
from echomq.moments import duration_ms

from .ageing import age, rouse

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from echomq.driver import ConnectionSource

__all__ = ["Clock", "is_stopped"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
_taken = threading.Lock()


class Clock:
    """The wall clock of EchoMQ in this process, stopped: a context manager.

    Delayed jobs are due by it, slots of schedulers pass by it, and jobs get their times from it. Servers in memory
    let keys expire by it (locks, deduplication, rate limits); on other servers the keys of the queues that
    :meth:`follow` names grow older by as much. What is measured rather than stored keeps to real time: limits of time
    of running jobs, waits for replies, the renewal of locks, and the pauses of a worker that has met a rate limit.

    Args:
        at: Where it begins to stand, with a time zone; None: at the present.

    Raises:
        UsageError: The time has no zone.
    """

    def __init__(self, at: datetime | None = None) -> None:
        self._now_ms = clock.wall_ms() if at is None else _ms(at)
        self._followed: list[tuple[ConnectionSource, str]] = []

    def __enter__(self) -> Self:
        """Stop the clock of the process.

        Raises:
            UsageError: Another such clock has stopped it.
        """
        if not _taken.acquire(blocking=False):
            raise UsageError("another Clock has stopped the time already; leave that one first")
        clock.set_wall(lambda: self._now_ms)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the time of the system count again."""
        clock.set_wall(None)
        _taken.release()
        _wake_memory_servers()

    @property
    def now(self) -> datetime:
        """What it shows, in UTC."""
        return _EPOCH + self._now_ms * _MILLISECOND

    @property
    def now_ms(self) -> int:
        """What it shows, in milliseconds since the Unix epoch."""
        return self._now_ms

    def advance(self, by: timedelta | int) -> datetime:
        """Set it forward.

        Args:
            by: How far, in milliseconds or as ``timedelta``; not below 0.

        Returns:
            What it shows now.

        Raises:
            InvalidOption: It is no duration.
        """
        by_ms = duration_ms("by", by)
        self._now_ms += by_ms
        for source, prefix in self._followed:
            age(source, prefix, by_ms)
            rouse(source, prefix)
        for url in _wake_memory_servers():
            rouse(url)
        return self.now

    def advance_to(self, at: datetime) -> datetime:
        """Set it forward to a moment.

        Raises:
            UsageError: The moment has passed, or has no time zone.
        """
        left_ms = _ms(at) - self._now_ms
        if left_ms < 0:
            raise UsageError(f"the clock shows {self.now.isoformat()} and goes forward only, not to {at.isoformat()}")
        return self.advance(left_ms)

    def follow(self, source: ConnectionSource, prefix: str) -> None:
        """Let keys on a real server grow older with every :meth:`advance`.

        Args:
            source: The server: a URL or options.
            prefix: Name space of the queues; nobody else may use it. Letters, digits and hyphens only.

        Raises:
            UsageError: The prefix has other characters.
        """
        if not prefix.replace("-", "").isalnum():
            raise UsageError(f"prefix {prefix!r}: letters, digits and hyphens only, for all its keys are looked for")
        self._followed.append((source, prefix))


def is_stopped() -> bool:
    """Tell whether the time stands still: nothing becomes due by itself."""
    return _taken.locked()


def _ms(at: datetime) -> int:
    if at.tzinfo is None:
        raise UsageError(f"{at.isoformat()} has no time zone; pass an aware datetime")
    return (at - _EPOCH) // _MILLISECOND


def _wake_memory_servers() -> list[str]:
    servers = sys.modules.get("echomq_memory.server")
    return [] if servers is None else list(servers.wake_all())  # nobody has imported it: there are none
