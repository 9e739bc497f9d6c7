"""Our scripts and the original ones answer alike and leave the same keyspace, whatever the sequence of calls."""

import pytest

from differential.search import failure_of, search
from differential.steps import Call, Command, Pack, printed
from differential.twin import Twin
from echomq.scripts import get_script

DEFAULT_SECONDS = 45.0
"""For each server."""


def test_random_sequences(twin: Twin, request: pytest.FixtureRequest) -> None:
    """Random sequences of valid and faulty calls show no difference that is not declared."""
    seconds = request.config.getoption("--differential-seconds", None) or DEFAULT_SECONDS
    seed = request.config.getoption("--differential-seed", None) or 1

    count, steps = search(twin, seed, seconds)

    assert not steps, f"after {count} steps from seed {seed}:\n{printed(steps)}\n{failure_of(twin, steps)}"
    assert count > seconds * 10, f"only {count} steps in {seconds} s"


def test_planted_difference_is_found(twin: Twin) -> None:
    """A script with a wrong figure in it is found, and shown by a few steps that can be pasted as they are printed."""

    def wrong(name: str) -> str:
        text = get_script(name).text
        return text.replace("priority == 0", "priority == 1") if name == "changePriority" else text

    twin.our_text = wrong
    _, steps = search(twin, seed=3, seconds=30)

    assert 0 < len(steps) < 6
    assert isinstance(steps[-1], Call)
    assert steps[-1].script == "changePriority"
    assert eval(printed(steps), {"Call": Call, "Command": Command, "Pack": Pack}) == steps  # noqa: S307  # our own text
