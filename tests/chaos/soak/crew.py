"""The workers of a soak: of both drivers and both shells, one with a wrong clock, one of a limited queue."""

import asyncio
import contextlib
import json
import random
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Any

import attrs

from .places import Evil, Place

__all__ = ["Crew"]

OPTIONS: Any = {
    "concurrency": 10,
    "sleep_ms": 40,
    "lock_duration": 2_000,
    "stalled_interval": 500,
    "max_stalled_count": 1_000,
    "drain_delay": 500,
}
KINDS: tuple[dict[str, Any], ...] = (
    {"shell": "asyncio"},
    {"shell": "blocking"},
    {"shell": "asyncio", "skew_ms": 120_000},
    {"queue": "limited", "limiter": {"max": 20, "duration": 500}},
)
"""Workers, by what they differ in. Of several prefixes each goes without another one of the first three."""

_PROGRAM = Path(__file__).parents[1] / "process.py"
_READY_WITHIN_S = 120
_ENDS_WITHIN_S = 30
_TOLD = 4_000


@attrs.define(eq=False, kw_only=True)
class _Worker:
    """One worker process, and the next one when it was killed."""

    command: tuple[str, ...]
    said: IO[bytes] = attrs.field(factory=tempfile.TemporaryFile)
    process: asyncio.subprocess.Process | None = None
    is_ready: bool = False

    async def start(self) -> None:
        self.is_ready = False
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, *self.command, stdout=asyncio.subprocess.PIPE, stderr=self.said
        )

    async def ready(self) -> None:
        """Wait until it works: on a busy machine a new one takes seconds, in which it hears no signal."""
        assert self.process is not None
        assert self.process.stdout is not None
        if not self.is_ready:
            assert await asyncio.wait_for(self.process.stdout.readline(), _READY_WITHIN_S), "a worker did not begin"
            self.is_ready = True

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    async def end(self) -> None:
        """Wait until it has ended, as told; nothing else may have ended it before."""
        assert self.process is not None
        code = await asyncio.wait_for(self.process.wait(), _ENDS_WITHIN_S)
        if code:
            self.said.seek(0)
            raise RuntimeError(f"a worker ended with {code}: {self.command}\n{self.said.read()[-_TOLD:].decode()}")


@attrs.define(eq=False, kw_only=True)
class Crew:
    """All workers.

    Attributes:
        place: Where their queues are.
        dice: Decides who is struck.
        notes: URL of the server where each run is noted.
    """

    place: Place
    dice: random.Random
    notes: str
    _workers: list[_Worker] = attrs.field(factory=list)

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Workers for the length of a ``with`` block; all must be there at its end, and end when told to."""
        self._workers = [_Worker(command=command) for command in self._commands()]
        try:
            for worker in self._workers:
                await worker.start()
            await self._all_ready()
            yield
            await self._all_ready()
            for worker in self._workers:
                worker.send(signal.SIGTERM)
            for worker in self._workers:
                await worker.end()
        finally:
            for worker in self._workers:
                if worker.process is not None:
                    worker.send(signal.SIGKILL)
                    await worker.process.wait()
                worker.said.close()

    async def _all_ready(self) -> None:
        await asyncio.gather(*(worker.ready() for worker in self._workers))

    def evils(self) -> Mapping[str, Evil]:
        """What may happen to them."""
        return {"worker killed": self._kill, "worker frozen": self._freeze}

    def _commands(self) -> list[tuple[str, ...]]:
        prefixes = self.place.prefixes
        return [
            (
                str(_PROGRAM),
                self.place.urls[(at // 2 + which) % 2],
                prefix,
                json.dumps({**OPTIONS, **kind, "notes": self.notes}),
            )
            for which, prefix in enumerate(prefixes)
            for at, kind in enumerate(KINDS)
            if len(prefixes) == 1 or at != which
        ]

    async def _kill(self) -> None:
        worker = self.dice.choice(self._workers)
        assert worker.process is not None
        worker.send(signal.SIGKILL)
        await worker.process.wait()
        await worker.start()

    async def _freeze(self) -> None:
        worker = self.dice.choice(self._workers)
        worker.send(signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(0.5, 4))
        worker.send(signal.SIGCONT)
