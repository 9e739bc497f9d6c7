"""Collects what faults did to queues: rows of the table in ``docs/guarantees.md``.

``nox -s faults`` names a file by ``ECHOMQ_FAULTS_FILE``; without it nothing is kept.
It lets each fault strike ``ECHOMQ_FAULT_STRIKES`` times, else once suffices.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import attrs

__all__ = ["STRIKES", "Row", "record"]

STRIKES = int(os.environ.get("ECHOMQ_FAULT_STRIKES", "1"))
"""How often a fault strikes in each test, at least."""


@attrs.frozen(kw_only=True)
class Row:
    """What one fault did.

    Attributes:
        fault: In words, ``"worker killed"``.
        topology: ``"single, AOF always"``, ``"cluster of six"``.
        driver: ``"redis"`` or ``"valkey"``.
        workers: ``"asyncio"``, ``"blocking"``, or ``"both"``: their shell.
        jobs: How many adds were acknowledged.
        lost: How many of those had no record at the end.
        twice: How many finished more than once.
        recoveries_ms: For each time the fault struck, how long until work went on afterwards.
    """

    fault: str
    topology: str
    driver: str
    workers: str
    jobs: int
    lost: int
    twice: int
    recoveries_ms: Sequence[float]


def record(row: Row) -> None:
    """Keep a row for the table."""
    path = os.environ.get("ECHOMQ_FAULTS_FILE")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(attrs.asdict(row)) + "\n")
