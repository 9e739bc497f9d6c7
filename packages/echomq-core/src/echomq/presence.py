"""Tells of a worker while it runs; what both shells do.

Source: :mod:`echomq.calls.presence`.
"""

import os
import socket
import time
from collections.abc import Iterable
from uuid import uuid4

import attrs

from .call import Batch
from .calls.presence import EVERY_MS, RunningNote, WorkerDetails, forget_worker, tell_worker
from .clock import wall_ms
from .job import Job
from .keys import Keys
from .version import __version__

__all__ = ["DEADLINE_MS", "LAST_WORD_MS", "Presence"]

DEADLINE_MS = 5_000
"""Longest wait for the server: in an outage the next round comes soon enough."""

LAST_WORD_MS = 200
"""The same at the end, which must not be held up: what is not taken back expires."""


@attrs.define(eq=False)
class Presence:
    """One run of a worker.

    Attributes:
        keys: The queue.
        name: Of the worker.
        id: Of this run.
        is_told: The server may know of it.
    """

    keys: Keys
    name: str | None
    id: str = attrs.field(init=False, factory=lambda: uuid4().hex)
    is_told: bool = attrs.field(init=False, default=False)
    _started_ms: int = attrs.field(init=False, factory=wall_ms)
    _due_at_s: float = attrs.field(init=False, default=0.0)

    def is_due(self) -> bool:
        """Tell whether it is time to tell again, and if so, note that it is done."""
        now_s = time.monotonic()
        if now_s < self._due_at_s:
            return False
        self._due_at_s = now_s + EVERY_MS / 1000
        return True

    def telling(self, concurrency: int, jobs: Iterable[Job]) -> Batch:
        """Return what tells the server of the worker and the jobs it runs."""
        self.is_told = True
        notes = [RunningNote(id=job.id, name=job.name, since_ms=job.processed_on_ms or 0) for job in jobs]
        details = WorkerDetails(
            id=self.id,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            started_ms=self._started_ms,
            seen_ms=wall_ms(),
            concurrency=concurrency,
            running_count=len(notes),
            running=tuple(sorted(notes, key=lambda note: note.since_ms)),
        )
        return tell_worker(self.keys, details)

    def leaving(self) -> Batch:
        """Return what takes it back."""
        return forget_worker(self.keys, self.id)
