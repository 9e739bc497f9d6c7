"""Outcomes that become known in the same turn of the loop, reported in one call.

Nothing waits for company: a batch is sent in the next turn, with what it holds
by then. Its reply releases its jobs and brings the next ones. Whatever goes
wrong, its jobs are reported one by one; see :mod:`echomq.scheduling.batching`.

Source: design.md section 5.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import attrs

from echomq.calls.batches import Done, Terms, finish_jobs
from echomq.clock import wall_ms
from echomq.driver import AsyncConnection
from echomq.errors import EchoMQError
from echomq.options import Keep
from echomq.scheduling.batching import is_plain, most_together, share
from echomq.scheduling.outcome import Completed, Outcome
from echomq.scheduling.settling import Settled

if TYPE_CHECKING:
    from .slots import Held, Slots

__all__ = ["Batches"]

Members: TypeAlias = "list[tuple[Held, Completed]]"


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
    _open: dict[Keep | None, Members] = attrs.field(init=False, factory=dict)

    def join(self, held: "Held", outcome: Outcome) -> bool:
        """Let a batch report an outcome, and release its job; False if the outcome has to go by itself."""
        slots = self.slots
        if len(slots.held) == 1 or held.lost or held.cut or held.given_up or not is_plain(outcome, held.job):
            return False
        keep = held.job.options.remove_on_complete or slots.options.remove_on_complete
        members = self._open.get(keep)
        if members is None or len(members) >= most_together(slots.options.concurrency):
            members = self._open[keep] = []
            held.task = slots.spawn(self._report(keep, members))
        else:
            held.task = members[0][0].task
        held.reporting = True
        members.append((held, outcome))
        return True

    async def _report(self, keep: Keep | None, members: Members) -> None:
        if self._open.get(keep) is members:
            del self._open[keep]
        task = members[0][0].task
        try:
            if len(members) > 1:
                await self._report_together(keep, members)
            else:
                await self.slots.report(*members[0])
        finally:
            for held, _ in members:
                if held.task is task:
                    self.slots.release(held, Settled())

    async def _report_together(self, keep: Keep | None, members: Members) -> None:
        done = [Done(held.job.id, held.take.token, outcome.value_json) for held, outcome in members]
        most = self.room_for(len(members))
        try:
            ended = await self.connection.send(finish_jobs(self.terms(keep), done, most=most, now_ms=wall_ms()))
        except EchoMQError as error:
            self.slots.complain(error)
        except asyncio.CancelledError:
            if any(held.given_up for held, _ in members):
                raise
        else:
            self.slots.answered()
            for (held, outcome), settled in zip(members, share(ended, most), strict=True):
                if settled is None:
                    self._report_alone(held, outcome)
                else:
                    self.slots.announce(held, outcome, settled)
                    self.slots.release(held, settled)
            return
        for held, outcome in members:
            # Never wrong where nothing was stored: then this report is the first.
            self._report_alone(held, outcome, is_repeated=True)

    def _report_alone(self, held: "Held", outcome: Completed, *, is_repeated: bool = False) -> None:
        held.reporting = False
        held.task = self.slots.spawn(self.slots.report(held, outcome, is_repeated=is_repeated))
