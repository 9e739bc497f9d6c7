"""Outcomes that become known in the same moment, reported in one call; the twin of :mod:`echomq.aio.batches`.

Nothing waits for company. One thread at a time reports: the first that has nothing
else to begin, or that fills a batch. What ends while its call is under way goes
with the next one. The reply lets a thread go on for each job, as its own would.
Whatever goes wrong, the jobs are reported one by one; see
:mod:`echomq.scheduling.batching`.

Source: design.md section 5.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import attrs

from echomq.calls.batches import Ended, Terms, finish_jobs
from echomq.calls.fetch import Taken
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.options import Keep
from echomq.scheduling.batching import is_plain, most_together
from echomq.scheduling.outcome import Completed, Outcome
from echomq.scheduling.settling import Settled

from .threads import Task

if TYPE_CHECKING:
    from .held import Held
    from .slots import Slots

__all__ = ["Batches"]


@attrs.define(eq=False, kw_only=True)
class Batches:
    """The batches of one run of a worker.

    Attributes:
        slots: Whose jobs they are.
        connection: For the calls.
        terms: How jobs are taken and ended, for each rule of keeping them.
        room_for: Tells how many jobs may come along when so many end.
        start: Lets a thread do something.
        go_on: Tells of a job's end, releases it and works on what came along.
        report: Reports a job by itself, then does the same; told whether a batch may have reported it already.
    """

    slots: "Slots"
    connection: Connection
    terms: Callable[[Keep | None], Terms]
    room_for: Callable[[int], int]
    start: Callable[[Task], None]
    go_on: "Callable[[Held, Outcome, Settled], object]"
    report: "Callable[[Held, Outcome, bool], object]"
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _open: "dict[Keep | None, list[tuple[Held, Completed]]]" = attrs.field(init=False, factory=dict)
    _is_sending: bool = attrs.field(init=False, default=False)

    def join(self, held: "Held", outcome: Outcome) -> bool:
        """Let a batch report an outcome; False if the outcome has to go by itself."""
        slots = self.slots
        if len(slots.held) == 1 or held.lost or held.cut or not is_plain(outcome, held.job):
            return False
        keep = held.job.options.remove_on_complete or slots.options.remove_on_complete
        with self._lock:
            batch = self._open.setdefault(keep, [])
            batch.append((held, outcome))
            is_full = len(batch) >= self._most
        if is_full:
            self.send()
        return True

    @property
    def _most(self) -> int:
        return most_together(self.slots.options.concurrency)

    def is_due(self) -> bool:
        """Tell whether something is to be reported, and nobody is at it."""
        return bool(self._open) and not self._is_sending

    def send(self) -> None:
        """Report a batch of what has ended by now, unless another thread does."""
        with self._lock:
            if not self.is_due():
                return
            self._is_sending = True
            keep, batch = next(iter(self._open.items()))
            members = batch[: self._most]
            del batch[: self._most]
            if not batch:
                del self._open[keep]
        then: list[Task] = []
        try:
            with self.slots.insisting.turn:
                then = self._sent(keep, members)
        finally:
            self._is_sending = False
        for task in then:
            self.start(task)

    def _sent(self, keep: Keep | None, members: "list[tuple[Held, Completed]]") -> list[Task]:
        """Report a batch; returns how each of its jobs goes on."""
        ours = [(held, outcome) for held, outcome in members if self.slots.insisting.begins(held)]
        then: list[Task] = [
            partial(self.go_on, held, outcome, Settled()) for held, outcome in members if not held.reporting
        ]
        if not ours:
            return then
        done = [(held.job.id, held.token, outcome.value_json) for held, outcome in ours]
        most = self.room_for(len(done))
        try:
            ended: Ended = self.connection.send(finish_jobs(self.terms(keep), done, most=most, now_ms=wall_ms()))
        except BaseException as error:  # noqa: BLE001  # whatever it is, each slot must be free again
            self.slots.complain(error)
            # Never wrong where nothing was stored: then this report is the first.
            return [*then, *(self._alone(held, outcome, is_repeated=True) for held, outcome in ours)]
        for (held, outcome), settled in zip(ours, _shared(ended, most), strict=True):
            if settled is None:
                then.append(self._alone(held, outcome))
            else:
                then.append(partial(self.go_on, held, outcome, settled))
        return then

    def _alone(self, held: "Held", outcome: Completed, *, is_repeated: bool = False) -> Task:
        held.reporting = False
        return partial(self.report, held, outcome, is_repeated)


def _shared(ended: Ended, most: int) -> Iterator[Settled | None]:
    """Return what became of each job of a batch; None: it is to be reported by itself.

    Args:
        ended: The reply.
        most: How many jobs were asked for.
    """
    jobs = iter(ended.found.jobs)
    for stored in ended.stored:
        if not stored:
            yield None
        elif most <= 0:
            yield Settled()
        else:
            most -= 1
            job = next(jobs, None)
            yield Settled(taken=ended.found.rest if job is None else Taken(job=job))
