"""What is wrong with a queue and its server, and putting it right, blocking.

Methods of :class:`~echomq.Queue`.

Source: issue "Operations", ``doctor``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from echomq import diagnosis
from echomq.clock import wall_ms

if TYPE_CHECKING:
    from echomq.diagnosis import Diagnosis, Repair

    from .queue import Queue

__all__ = ["diagnose", "repair"]


def diagnose(self: Queue, *, budget: int = diagnosis.BUDGET) -> Diagnosis:
    """Say what is wrong with the queue and its server, in plain words; only reads.

    Args:
        budget: Most ids of jobs to look at, and ten times as many keys of the server.

    Raises:
        InvalidOption: The budget is not at least 1.
    """
    plan = diagnosis.diagnose_queue(self.keys, now_ms=wall_ms(), budget=budget)
    return self._perform(diagnosis.diagnose_server(self.keys)) + self._perform(plan)


def repair(self: Queue, wanted: Repair) -> int:
    """Carry out the repair that a finding of :meth:`diagnose` brings; safe while workers run.

    Returns:
        How many things were put right; fewer than were found if they changed meanwhile.
    """
    return self._perform(diagnosis.repair(wanted))
