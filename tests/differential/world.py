"""What a generator of steps sees: the keyspace as it is, the time, and a seeded source of choices."""

import random
from typing import Any

import attrs

from vectors.keyspace import Keyspace

__all__ = ["QUEUES", "START_MS", "World"]

QUEUES = ("bull:q", "bull:r", "{t}:q")
START_MS = 1_700_000_000_000

_STATES = ("wait", "active", "delayed", "prioritized", "waiting-children", "completed", "failed", "paused")


@attrs.define
class World:
    """A view of the keyspace that hands out ids worth calling scripts with."""

    rng: random.Random
    state: Keyspace = attrs.field(factory=dict)
    now_ms: int = START_MS

    def tick(self) -> int:
        """Let time pass, and return it; now and then until the next delayed job is due."""
        self.now_ms += self.rng.choice((0, 1, 7, 500, 1_000, 4_000))
        if self.chance(0.1):
            due = [float(score) // 4096 for queue in QUEUES for _, score in self.value(f"{queue}:delayed", [])]
            self.now_ms = max(self.now_ms, int(min(due, default=0)))
        return self.now_ms

    def chance(self, share: float) -> bool:
        """True in that share of the cases."""
        return self.rng.random() < share

    def pick(self, *options: Any) -> Any:
        """One of the options."""
        return self.rng.choice(options)

    def queue(self) -> str:
        """Qualified name of a queue; the first is used most."""
        return self.rng.choices(QUEUES, (6, 3, 1))[0]

    def value(self, key: str, default: Any) -> Any:
        """Value of a key."""
        return self.state[key]["value"] if key in self.state else default

    def ids(self, queue: str, state: str) -> list[str]:
        """Ids in a state, in order."""
        return [item if isinstance(item, str) else item[0] for item in self.value(f"{queue}:{state}", [])]

    def jobs(self, queue: str) -> list[str]:
        """Ids of all jobs that have a hash, and a few that have none."""
        head = f"{queue}:"
        return [
            key[len(head) :]
            for key, entry in self.state.items()
            if key.startswith(head) and entry["type"] == "hash" and "timestamp" in entry["value"]
        ]

    def job(self, queue: str, *states: str) -> str:
        """An id, mostly one in one of these states; now and then any other, or none that exists."""
        found = [job_id for state in states for job_id in self.ids(queue, state)]
        if found and self.chance(0.92):
            return str(self.rng.choice(found))
        others = self.jobs(queue)
        return str(self.rng.choice(others)) if others and self.chance(0.9) else "ghost"

    def find(self, *states: str) -> tuple[str, str]:
        """A queue and an id of it, mostly one in one of these states."""
        queues = [queue for queue in QUEUES if any(self.ids(queue, state) for state in states)]
        queue = self.rng.choice(queues) if queues and self.chance(0.95) else self.queue()
        return queue, self.job(queue, *states)

    def fields(self, queue: str, job_id: str) -> dict[str, str]:
        """Hash of a job."""
        found: dict[str, str] = self.value(f"{queue}:{job_id}", {})
        return found

    def state_name(self) -> str:
        """Name of a state."""
        return str(self.rng.choice(_STATES))
