"""Outcomes that become known in the same turn of the loop, reported in one call.

Nothing waits for company: a batch is sent as soon as it is full, so that the
server works while other jobs end, or in the next turn with what it holds by then.
Its reply releases its jobs and brings the next ones. Whatever goes
wrong, its jobs are reported one by one; see :mod:`echomq.scheduling.batching`.

Source: design.md section 5.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import attrs

from echomq.call import ScriptCall
from echomq.calls.batches import Ended, Terms, finish_jobs
from echomq.clock import wall_ms
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.options import Keep
from echomq.scheduling.batching import is_plain, most_together
from echomq.scheduling.outcome import Completed, Outcome
from echomq.scheduling.settling import Settled

from .lane import Lane

if TYPE_CHECKING:
    from .held import Held
    from .slots import Slots

__all__ = ["Batches"]


@attrs.define(eq=False)
class Batch:
    """Outcomes that are reported together.

    Attributes:
        full: So many outcomes go at once.
        members: Whose they are.
        task: Waits for the reply.
        ended: The reply to come, if the batch was full before its task began.
    """

    full: int
    members: "list[tuple[Held, Completed]]" = attrs.field(factory=list)
    task: "asyncio.Task[None] | None" = None
    ended: Coroutine[Any, Any, Ended] | None = None


def begun(connection: AsyncConnection, call: ScriptCall[Ended]) -> Coroutine[Any, Any, Ended]:
    """Put a call on its way, at once where the connection can, so that the server works meanwhile."""
    if not isinstance(connection, Lane):
        return connection.send(call)
    try:
        return connection.begin(call)
    except EchoMQError as error:
        return _failed(error)


async def _failed(error: EchoMQError) -> Ended:
    raise error


@attrs.define(eq=False, kw_only=True)
class Batches:
    """The batches of one run of a worker.

    Attributes:
        slots: Whose jobs they are.
        connection: For the calls.
        terms: How jobs are taken and ended, for each rule of keeping them.
        room_for: Tells how many jobs may come along when so many end.
    """

    slots: "Slots"
    connection: AsyncConnection
    terms: Callable[[Keep | None], Terms]
    room_for: Callable[[int], int]
    _open: dict[Keep | None, Batch] = attrs.field(init=False, factory=dict)

    def join(self, held: "Held", outcome: Outcome) -> bool:
        """Let a batch report an outcome, and release its job; False if the outcome has to go by itself."""
        slots, job = self.slots, held.job
        if not is_plain(outcome, job) or held.lost or held.cut or held.given_up or len(slots.held) == 1:
            return False
        keep = job.options.remove_on_complete or slots.options.remove_on_complete
        batch = self._open.get(keep)
        if batch is None:
            batch = self._open[keep] = Batch(most_together(slots.options.concurrency))
            batch.task = slots.spawn(self._report(keep, batch))
        held.task, held.reporting = batch.task, True
        members = batch.members
        members.append((held, outcome))
        if len(members) == batch.full:
            batch.ended = self._send(keep, batch)
        return True

    def _send(self, keep: Keep | None, batch: Batch) -> Coroutine[Any, Any, Ended]:
        """Put a batch on its way, and let the next outcome begin another."""
        del self._open[keep]
        done = [(held.job.id, held.take.token, outcome.value_json) for held, outcome in batch.members]
        most = self.room_for(len(done))
        return begun(self.connection, finish_jobs(self.terms(keep), done, most=most, now_ms=wall_ms()))

    async def _report(self, keep: Keep | None, batch: Batch) -> None:
        members, task = batch.members, batch.task
        try:
            if len(members) > 1:
                await self._report_together(members, batch.ended or self._send(keep, batch))
            else:
                del self._open[keep]
                await self.slots.report(*members[0])
        except BaseException:
            for held, _ in members:
                if held.task is task:
                    self.slots.release(held, Settled())
            raise

    async def _report_together(
        self, members: "list[tuple[Held, Completed]]", reply: Coroutine[Any, Any, Ended]
    ) -> None:
        try:
            ended = await reply
        except EchoMQError as error:
            self.slots.complain(error)
        except asyncio.CancelledError:
            if any(held.given_up for held, _ in members):
                raise
        else:
            self._share_out(members, ended)
            return
        for held, outcome in members:
            # Never wrong where nothing was stored: then this report is the first.
            self._report_alone(held, outcome, is_repeated=True)

    def _share_out(self, members: "list[tuple[Held, Completed]]", ended: Ended) -> None:
        """Tell of each stored result, and let the jobs that came along take the slots."""
        slots, stored = self.slots, []
        slots.answered()
        for (held, outcome), is_stored in zip(members, ended.stored, strict=True):
            if is_stored:
                stored.append(held)
                slots.tell_completed(held, outcome)
            else:
                self._report_alone(held, outcome)
        slots.release_all(stored, ended.found)

    def _report_alone(self, held: "Held", outcome: Completed, *, is_repeated: bool = False) -> None:
        held.reporting = False
        held.task = self.slots.spawn(self.slots.report(held, outcome, is_repeated=is_repeated))
