"""What a server holds of a queue, read and changed by a plain client: nothing of EchoMQ looks at it."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import attrs

from support.limits import DEADLINE_S

__all__ = ["Stored", "until"]


@attrs.frozen
class Stored:
    """The keys of one queue.

    Attributes:
        client: A plain client that decodes.
        base: Prefix and name of the queue.
    """

    client: Any
    base: str

    def key(self, suffix: str) -> str:
        """Name of a key of the queue."""
        return f"{self.base}:{suffix}"

    def job(self, job_id: str) -> dict[str, str]:
        """Hash of a job."""
        found: dict[str, str] = self.client.hgetall(self.key(job_id))
        return found

    def options(self, job_id: str) -> Any:
        """Options stored with a job."""
        return json.loads(self.job(job_id)["opts"])

    def ids(self, suffix: str) -> list[str]:
        """Ids in a list or sorted set, in the order in which they are stored."""
        key = self.key(suffix)
        if self.client.type(key) == "zset":
            return list(self.client.zrange(key, 0, -1))
        return list(self.client.lrange(key, 0, -1))

    def meta(self) -> dict[str, str]:
        """The queue's settings."""
        return dict(self.client.hgetall(self.key("meta")))

    def events(self) -> list[dict[str, str]]:
        """The queue's events, oldest first."""
        return [fields for _, fields in self.client.xrange(self.key("events"))]

    def left(self) -> set[str]:
        """All keys of the queue, without its name."""
        return {key.removeprefix(f"{self.base}:") for key in self.client.scan_iter(f"{self.base}:*", count=10_000)}

    def finish(self, job_id: str, state: str, at_ms: int) -> None:
        """Let a waiting job look as if a worker had finished it."""
        self.client.lrem(self.key("wait"), 1, job_id)
        result = {"returnvalue": "null"} if state == "completed" else {"failedReason": "no"}
        self.client.hset(self.key(job_id), mapping={"finishedOn": at_ms, "atm": 1, **result})
        self.client.zadd(self.key(state), {job_id: at_ms})

    def activate(self, job_id: str, token: str = "") -> None:
        """Let a waiting job look as if a worker ran it; with a token it holds the lock."""
        self.client.lrem(self.key("wait"), 1, job_id)
        self.client.lpush(self.key("active"), job_id)
        if token:
            self.client.set(self.key(f"{job_id}:lock"), token, px=30_000)


async def until(holds: Callable[[], bool]) -> None:
    """Wait, without holding up the event loop, until something holds.

    Raises:
        TimeoutError: It did not in time.
    """

    def wait() -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            if time.monotonic() > deadline:
                raise TimeoutError(f"does not hold after {DEADLINE_S} s")
            time.sleep(0.002)

    await asyncio.to_thread(wait)
