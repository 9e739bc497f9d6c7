"""Fleets of workers in virtual time, with faults: nothing is lost, nothing finishes twice, everything ends."""

import itertools
import random
from typing import Any

import pytest

from echomq.calls.fetch import NO_LOCK, Take
from echomq.calls.finish import complete
from echomq.scheduling import settling

from .fleet import simulate
from .plans import make_plan
from .search import Finding, search, told
from .server import Wire

FIXED = range(16)
"""Seeds of each run, and those that have found something; a new find goes here."""
FOUND: tuple[int, ...] = ()

DEFAULT_SECONDS = 1.5
"""With fresh seeds, for each server."""


def test_known_seeds(wire: Wire, request: pytest.FixtureRequest) -> None:
    """Fleets that die, freeze, lose replies and are refused finish every job once, whatever their clocks say."""
    if request.config.getoption("--simulation-seed", None) is not None:
        pytest.skip("one seed was asked for")
    count, found = search(wire, itertools.chain(FOUND, FIXED), 60)

    assert found is None, told(found)
    assert count == len(FIXED) + len(FOUND)


def test_fresh_seeds(wire: Wire, request: pytest.FixtureRequest) -> None:
    """So do fleets that nobody has seen before; the seed is printed."""
    seed = request.config.getoption("--simulation-seed", None)
    if seed is not None:
        outcome = simulate(make_plan(seed), wire)
        print(told(Finding(make_plan(seed), outcome)))
        assert outcome.violation is None
        return
    first = random.SystemRandom().randrange(1_000, 10**9)
    seconds = request.config.getoption("--simulation-seconds", None) or DEFAULT_SECONDS
    print(f"seeds from {first}")
    count, found = search(wire, itertools.count(first), seconds)
    print(f"{count} simulations, {count / seconds * 60:.0f} a minute")

    assert found is None, told(found)
    assert count > seconds / 4


def test_seed_repeats_itself(wire: Wire) -> None:
    """The same seed does the same again, step by step, so that what it found can be looked at."""
    first, second = (simulate(make_plan(7), wire) for _ in range(2))

    assert first.trace == second.trace
    assert first.requests > 50


def test_planted_fault_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that reports without regard to its lock is found out; what is told of it is short and names the seed."""

    def regardless(job: Any, value: str, **more: Any) -> Any:
        return complete(job, value, **{**more, "take": Take(token=NO_LOCK, lock_ms=more["take"].lock_ms)})

    monkeypatch.setattr(settling, "complete", regardless)
    _, found = search(wire, itertools.count(), 30)

    assert found is not None
    assert "lock" in str(found.outcome.violation)
    assert len(found.plan.faults) <= 3
    assert f"--simulation-seed {found.plan.seed}" in told(found)
