"""Takes jobs for a blocking worker: one call at a time, in another thread than the one that runs the worker."""

from collections.abc import Callable
from functools import partial
from uuid import uuid4

import attrs

from echomq.calls.batches import Terms, take_jobs
from echomq.calls.fetch import Take, move_to_active
from echomq.chance import dice
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.options import WorkerOptions
from echomq.scheduling.batching import fetched
from echomq.scheduling.messages import Adopted, Failed, Fetched, Happened
from echomq.scheduling.settling import LetGo, stray_jobs

from .run import perform

__all__ = ["Fetching"]


@attrs.define(eq=False, kw_only=True)
class Fetching:
    """The takes of one run of a worker, and its searches for lost replies.

    Attributes:
        keys: The queue.
        options: The worker's.
        connection: For all calls but the blocking ones.
        start: Runs a function in another thread.
        ended: Told what came of a call, and what tells, once, whether it was still waited for.
        held: Gives the ids of the jobs held and the tokens of their slots.
    """

    keys: Keys
    options: WorkerOptions
    connection: Connection
    start: Callable[[Callable[[], object]], None]
    ended: Callable[[Happened, Callable[[], bool]], None]
    held: Callable[[], tuple[set[str], set[str]]]
    _owner: str = attrs.field(init=False, factory=lambda: f"{uuid4()}:")
    _takes: int = attrs.field(init=False, default=0)
    _under_way: object = attrs.field(init=False, default=None)

    def fetch(self, count: int) -> None:
        """Take the next jobs, so many at most."""
        takes = [self.take() for _ in range(count)]
        self._begin(lambda: self._taken(takes))

    def search(self) -> None:
        """Look for jobs that are locked for this worker and that it does not hold."""
        self._begin(self._found)

    def stop(self) -> None:
        """Wait no longer for the call that is under way."""
        self.ended(Failed(LetGo(), True, dice()), partial(self._claim, self._under_way))

    def _begin(self, call: Callable[[], Happened]) -> None:
        mark = self._under_way = object()
        self.start(partial(self._call, call, partial(self._claim, mark)))

    def _claim(self, mark: object) -> bool:
        if mark is None or self._under_way is not mark:
            return False
        self._under_way = None
        return True

    def _call(self, call: Callable[[], Happened], claim: Callable[[], bool]) -> None:
        try:
            event = call()
        except EchoMQError as error:
            event = Failed(error, getattr(error, "may_have_run", False), dice())
        self.ended(event, claim)

    def take(self, token: str | None = None) -> Take:
        """Return how to take a job, with a new token unless one is given."""
        if token is None:
            token = f"{self._owner}{self._takes}"
            self._takes += 1
        options = self.options
        return Take(token=token, lock_ms=options.lock_duration, limiter=options.limiter, worker_name=options.name)

    def _taken(self, takes: list[Take]) -> Fetched:
        if len(takes) == 1:
            taken = self.connection.send(move_to_active(self.keys, takes[0], wall_ms()))
            return Fetched(takes[0], taken, wall_ms())
        terms = Terms(keys=self.keys, take=takes[0], metrics_points=self.options.metrics)
        found = self.connection.send(take_jobs(terms, [take.token for take in takes], wall_ms()))
        return fetched(takes, found, wall_ms())

    def _found(self) -> Adopted:
        tokens: set[str] = set()

        def held() -> set[str]:
            ids, used = self.held()
            tokens.update(used)
            return ids

        found = perform(self.connection, stray_jobs(self.keys, self._owner, held))
        # A slot whose report is under way has the lock of the job that comes along, and will hold it.
        return Adopted(tuple((job, self.take(token)) for job, token in found if token not in tokens))
