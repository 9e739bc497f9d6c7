"""Takes jobs for a worker: one call at a time, in a task that the worker can let go of."""

from collections.abc import Callable, Coroutine
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import attrs

from echomq.calls.batches import Terms, take_jobs
from echomq.calls.fetch import Take, move_to_active
from echomq.chance import dice
from echomq.clock import wall_ms
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.options import Keep, WorkerOptions
from echomq.scheduling.batching import fetched
from echomq.scheduling.messages import Adopted, Failed, Fetched, Happened
from echomq.scheduling.settling import LetGo, stray_jobs

from .run import perform

if TYPE_CHECKING:
    import asyncio

__all__ = ["Fetching"]


@attrs.define(eq=False, kw_only=True)
class Fetching:
    """The takes of one run of a worker, and its searches for lost replies.

    Attributes:
        keys: The queue.
        options: The worker's.
        connection: For all calls but the blocking ones.
        start: Runs a coroutine in a task of the worker's.
        happened: Told what came of a call.
        answered: Told before that when the server has answered.
        held: Gives the ids of the jobs held.
        terms: How jobs are taken and ended, for each rule of keeping them.
    """

    keys: Keys
    options: WorkerOptions
    connection: AsyncConnection
    start: "Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]"
    happened: Callable[[Happened], None]
    answered: Callable[[], None]
    held: Callable[[], set[str]]
    terms: "Callable[[Keep | None], Terms]" = attrs.field(init=False)
    _owner: str = attrs.field(init=False, factory=lambda: f"{uuid4()}:")
    _takes: int = attrs.field(init=False, default=0)
    _task: "asyncio.Task[None] | None" = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        """Begin with nothing under way."""
        self.terms = lru_cache(maxsize=64)(self._new_terms)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let this be what is under way: :meth:`take`, or what ends in it."""
        self._task = self.start(work)

    def search(self) -> None:
        """Look for jobs that are locked for this worker and that it does not hold."""
        self.begin(self._search())

    def stop(self) -> None:
        """Wait no longer for the call that is under way."""
        if self._task is not None:
            self._task.cancel()
        self.happened(Failed(LetGo(), True, dice()))

    def take(self, count: int) -> Coroutine[Any, Any, None]:
        """Take the next jobs, so many at most."""
        takes = [self._new_take() for _ in range(count)]
        return self._take_jobs(takes) if count > 1 else self._take_one(takes[0])

    async def _take_one(self, take: Take) -> None:
        try:
            taken = await self.connection.send(move_to_active(self.keys, take, wall_ms()))
        except EchoMQError as error:
            self._failed(error)
        else:
            self.answered()
            self.happened(Fetched(take, taken, wall_ms()))

    async def _take_jobs(self, takes: list[Take]) -> None:
        call = take_jobs(self.terms(None), [take.token for take in takes], wall_ms())
        try:
            found = await self.connection.send(call)
        except EchoMQError as error:
            self._failed(error)
        else:
            self.answered()
            self.happened(fetched(takes, found, wall_ms()))

    def _failed(self, error: EchoMQError) -> None:
        self.happened(Failed(error, getattr(error, "may_have_run", False), dice()))

    async def _search(self) -> None:
        try:
            found = await perform(self.connection, stray_jobs(self.keys, self._owner, self.held))
        except EchoMQError as error:
            self.happened(Failed(error, False, dice()))
        else:
            self.happened(Adopted(tuple((job, self._new_take(token)) for job, token in found)))

    def _new_take(self, token: str | None = None) -> Take:
        if token is None:
            token = f"{self._owner}{self._takes}"
            self._takes += 1
        options = self.options
        return Take(token=token, lock_ms=options.lock_duration, limiter=options.limiter, worker_name=options.name)

    def _new_terms(self, keep: Keep | None) -> Terms:
        return Terms(keys=self.keys, take=self._new_take(""), keep=keep, metrics_points=self.options.metrics)
