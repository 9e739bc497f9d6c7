"""What a simulation does, from a seed: workers, jobs, and what goes wrong. All of it is data."""

import random
from typing import Any

import attrs

__all__ = ["FAULT_MS", "Fault", "Plan", "Work", "make_plan"]

FAULT_MS = 16_000
"""Everything that goes wrong begins within this time."""

_SPANS_MS = (4_000, 8_000, FAULT_MS)
"""Jobs are added within half of this, faults begin within all of it: close together or far between."""

_MOST_JOBS = (4, 8, 14)
"""Without children: what few jobs can show takes less time to find with few."""

_SKEWS_MS = (-8_000, 20_000, 400)
"""Some are longer than any lock, delay or rate limit; minutes would do the same, and only be waited for."""

_KINDS = {
    "kill": 3,
    "freeze": 3,
    "block": 2,
    "cut": 3,
    "lose request": 3,
    "lose reply": 5,
    "refuse": 2,
    "slow": 3,
    "jump": 1,
    "close": 2,
    "pause": 1,
    "restart server": 2,
    "freeze server": 2,
    "readonly": 1,
    "out of memory": 1,
    "unblock": 1,
}
"""Fault -> how often, relative to the others. Those that name no server happen to one process."""


@attrs.frozen
class Fault:
    """Something that goes wrong.

    Attributes:
        at_ms: When.
        kind: One of those above.
        who: Number of the process; the producer is the last.
        length_ms: For how long.
    """

    at_ms: int
    kind: str
    who: int
    length_ms: int


@attrs.frozen(kw_only=True)
class Work:
    """A job and what its code does.

    Attributes:
        id: Chosen by the producer, so that adding twice adds once.
        at_ms: When it is added.
        ms: How long it works.
        failures: Attempts that fail.
        attempts: How many it has.
        signal: What it raises the first time it runs: ``"delay"``, ``"wait"``, ``"limit"``; None: nothing.
        reports: It logs and reports progress.
        options: Further ones.
        children: Jobs that must end before.
    """

    id: str
    at_ms: int
    ms: int
    failures: int
    attempts: int
    signal: str | None
    reports: bool
    options: dict[str, Any]
    children: "tuple[Work, ...]" = ()

    @property
    def is_doomed(self) -> bool:
        """It fails in the end."""
        return self.failures >= self.attempts

    @property
    def attempts_made(self) -> int:
        """Attempts used when it has finished."""
        return min(self.failures + 1, self.attempts)

    def all(self) -> "list[Work]":
        """It, and all below it."""
        return [self, *(below for child in self.children for below in child.all())]


@attrs.frozen(kw_only=True)
class Plan:
    """A whole simulation.

    Attributes:
        seed: Where it comes from; also decides how long requests take.
        skews: For each worker, by how many ms its clock is ahead.
        options: Of the workers.
        works: Jobs to add.
        faults: What goes wrong.
        lingers: Idle workers stay until all faults have happened; else they close when all is done.
    """

    seed: int
    skews: tuple[int, ...]
    options: dict[str, Any]
    works: tuple[Work, ...]
    faults: tuple[Fault, ...]
    lingers: bool

    def all(self) -> "list[Work]":
        """All jobs, and all below them."""
        return [each for work in self.works for each in work.all()]


def _work(dice: random.Random, job_id: str, span_ms: int, depth: int = 0) -> Work:
    attempts = dice.choice([1, 1, 2, 3])
    options: dict[str, Any] = {}
    if dice.random() < 0.25:
        options["backoff"] = dice.choice([200, 1_000])
    if dice.random() < 0.2:
        options["priority"] = dice.choice([1, 5])
    elif dice.random() < 0.2:
        options["delay"] = dice.choice([300, 2_000, 6_000])
    children: tuple[Work, ...] = ()
    if depth < 2 and dice.random() < (0.15 if depth == 0 else 0.3):
        ids = [f"{job_id}-{number}" for number in range(dice.randint(1, 3))]
        children = tuple(_work(dice, child_id, span_ms, depth + 1) for child_id in ids)
    return Work(
        id=job_id,
        at_ms=dice.randrange(span_ms // 2),
        ms=dice.choice([0, 5, 50, 300, 900, 3_000]),
        # A doomed child would keep its parent waiting for ever, as it should.
        failures=dice.choice([0, 0, 0, 1, 2]) if depth == 0 else dice.randrange(attempts),
        attempts=attempts,
        signal=dice.choice(["delay", "wait", "limit"]) if dice.random() < 0.15 else None,
        reports=dice.random() < 0.3,
        options=options,
        children=children,
    )


def _fault(dice: random.Random, span_ms: int, processes: int) -> Fault:
    (kind,) = dice.choices(tuple(_KINDS), tuple(_KINDS.values()))
    length_ms = dice.choice([100, 700, 2_500, 6_000, 14_000])
    return Fault(dice.randrange(span_ms), kind, dice.randrange(processes), length_ms)


def make_plan(seed: int) -> Plan:
    """Return the simulation of a seed."""
    dice = random.Random(f"plan {seed}")
    workers, most, span_ms = dice.randint(1, 4), dice.choice(_MOST_JOBS), dice.choice(_SPANS_MS)
    options: dict[str, Any] = {
        "concurrency": dice.choice([1, 1, 2, 3, 5]),
        "lock_duration": dice.choice([1_000, 2_000, 5_000]),
        "stalled_interval": dice.choice([300, 1_000, 1_000, 2_500]),
        "drain_delay": dice.choice([500, 5_000]),
    }
    if dice.random() < 0.2:
        options["limiter"] = {"max": dice.choice([1, 3]), "duration": dice.choice([200, 1_000])}
    skews = tuple(dice.choice([0, 0, 0, *_SKEWS_MS]) for _ in range(workers))
    works = tuple(_work(dice, f"j{number}", span_ms) for number in range(dice.randint(1, most)))
    # A child that fails for having stalled too often would keep its parent waiting, too.
    has_flows = any(work.children for work in works)
    options["max_stalled_count"] = 1_000 if has_flows else dice.choice([1, 1_000])
    faults = tuple(_fault(dice, span_ms, workers + 1) for _ in range(dice.randint(0, 14)))
    return Plan(
        seed=seed,
        skews=skews,
        options=options,
        works=works,
        faults=tuple(sorted(faults, key=_at)),
        lingers=dice.random() < 0.2,
    )


def _at(fault: Fault) -> int:
    return fault.at_ms
