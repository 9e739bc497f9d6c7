"""Our scripts and the original ones answer alike and leave the same keyspace, whatever the sequence of calls."""

import pytest

from differential.search import failure_of, search
from differential.steps import printed
from differential.twin import Twin

DEFAULT_SECONDS = 45.0
"""For each server."""


def test_random_sequences(twin: Twin, request: pytest.FixtureRequest) -> None:
    """Random sequences of valid and faulty calls show no difference that is not declared."""
    seconds = request.config.getoption("--differential-seconds", None) or DEFAULT_SECONDS
    seed = request.config.getoption("--differential-seed", None) or 1

    count, steps = search(twin, seed, seconds)

    assert not steps, f"after {count} steps from seed {seed}:\n{printed(steps)}\n{failure_of(twin, steps)}"
    assert count > seconds * 10, f"only {count} steps in {seconds} s"
