"""The limits of a queue that hold over all its workers, for asyncio.

Methods of :class:`~echomq.Queue`.

Source: protocol spec 03 section 2; 05 sections 4.4 and 10.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import plans
from echomq.calls import fetch
from echomq.calls import queue as queue_calls
from echomq.moments import duration_ms

if TYPE_CHECKING:
    from echomq.calls.queue import QueueMeta
    from echomq.moments import Duration
    from echomq.options import RateLimit

    from .queue import Queue

__all__ = [
    "get_global_concurrency",
    "get_global_rate_limit",
    "get_meta",
    "get_rate_limit_ttl",
    "rate_limit",
    "remove_rate_limit",
    "set_global_concurrency",
    "set_global_rate_limit",
]


async def rate_limit(self: Queue, duration: Duration) -> None:
    """Let no worker take a job for a while (ms or ``timedelta``)."""
    await self._send(queue_calls.rate_limit(self.keys, duration_ms("duration", duration, minimum=1)))


async def get_rate_limit_ttl(self: Queue, max_jobs: int = 0) -> int:
    """Return for how many ms workers must not take jobs; not above 0 if they may."""
    return await self._send(fetch.get_rate_limit_ttl(self.keys, max_jobs))


async def remove_rate_limit(self: Queue) -> None:
    """Forget the current rate limit window."""
    await self._send(queue_calls.remove_rate_limit(self.keys))


async def set_global_concurrency(self: Queue, concurrency: int | None) -> None:
    """Limit how many jobs may be active over all workers; None lifts the limit."""
    await self._send(plans.global_concurrency(self.keys, concurrency))


async def get_global_concurrency(self: Queue) -> int | None:
    """Return how many jobs may be active over all workers; None: any number."""
    return (await get_meta(self)).concurrency


async def set_global_rate_limit(self: Queue, limit: RateLimit | None) -> None:
    """Limit how many jobs may start in a time over all workers; None lifts the limit."""
    await self._send(plans.global_rate_limit(self.keys, limit))


async def get_global_rate_limit(self: Queue) -> RateLimit | None:
    """Return how many jobs may start in a time over all workers; None: any number."""
    return (await get_meta(self)).rate_limit


async def get_meta(self: Queue) -> QueueMeta:
    """Return the settings that all clients of the queue share, and which client wrote them last."""
    return await self._send(queue_calls.get_meta(self.keys))
