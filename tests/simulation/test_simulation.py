"""Fleets of workers in virtual time, with faults: nothing is lost, nothing finishes twice, everything ends."""

import itertools
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from echomq import Job, Queue
from echomq.call import Command
from echomq.calls.fetch import NO_LOCK, Take
from echomq.calls.finish import complete
from echomq.scheduling import settling
from support.servers import Server, given_url

from .crew import search_together
from .fleet import LOOK_EVERY, simulate
from .plans import make_plan
from .search import Finding, looked_into, search, told
from .server import Wire

FIXED = range(24)
"""Seeds of each run, and those that have found something; a new find goes here."""
FOUND: tuple[int, ...] = ()

DEFAULT_SECONDS = 1.5
"""With fresh seeds, for each server."""

FAR = 10**18
"""Score of a delayed job that is not due for ages."""


def test_known_seeds(wire: Wire, request: pytest.FixtureRequest) -> None:
    """Fleets that die, freeze, lose replies and are refused finish every job once, whatever their clocks say."""
    if request.config.getoption("--simulation-seed", None) is not None:
        pytest.skip("one seed was asked for")
    done = search(wire, itertools.chain(FOUND, FIXED), 60)

    assert done.seed is None, told(looked_into(wire, done.seed))
    assert done.count == len(FIXED) + len(FOUND)


def test_fresh_seeds(wire: Wire, server: Server, request: pytest.FixtureRequest) -> None:
    """So do fleets that nobody has seen before; the seed is printed."""
    seed = request.config.getoption("--simulation-seed", None)
    if seed is not None:
        outcome = simulate(make_plan(seed), wire)
        print(told(Finding(make_plan(seed), outcome)))
        assert outcome.violation is None
        return
    first = random.SystemRandom().randrange(1_000, 10**9)
    seconds = request.config.getoption("--simulation-seconds", None)
    print(f"seeds from {first}")
    if seconds is None or given_url(server.name):  # a server from outside is one for all
        done = search(wire, itertools.count(first), seconds or DEFAULT_SECONDS)
    else:
        processes = request.config.getoption("--simulation-processes", None) or os.cpu_count() or 1
        done = search_together(server.name, first, seconds, processes)
    print(f"{done.count} simulations, {done.count / (seconds or DEFAULT_SECONDS) * 60:.0f} a minute")

    assert done.seed is None, told(looked_into(wire, done.seed))
    assert done.count > (seconds or DEFAULT_SECONDS) / 4


@pytest.mark.parametrize("seed", [3, 7])
def test_seed_repeats_itself(wire: Wire, seed: int) -> None:
    """The same seed does the same again, step by step, however often all keys are looked at."""
    first, second, seldom = (simulate(make_plan(seed), wire, look_every) for look_every in (1, 1, LOOK_EVERY))

    assert first.trace == second.trace == seldom.trace
    assert first.requests > 50


def test_planted_fault_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that reports without regard to its lock is found out; what is told of it is short and names the seed."""

    def regardless(job: Any, value: str, **more: Any) -> Any:
        return complete(job, value, **{**more, "take": Take(token=NO_LOCK, lock_ms=more["take"].lock_ms)})

    monkeypatch.setattr(settling, "complete", regardless)
    done = search(wire, range(100), 60)

    assert done.seed is not None
    found = looked_into(wire, done.seed)
    assert "lock" in str(found.outcome.violation)
    assert len(found.plan.faults) <= 3
    assert f"--simulation-seed {done.seed}" in told(found)


def test_passing_fault_is_found(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is wrong only between two requests is found within 100 seeds, and the story names the request."""
    real, begun = Queue.add, set[str]()

    async def in_two_steps(queue: Queue, name: str, data: Any, **options: Any) -> Job:
        job_id = options["job_id"]
        if "delay" in options and job_id not in begun:
            begun.add(job_id)
            await queue.connection.send(Command(parts=("ZADD", queue.keys.delayed, FAR, job_id), decode=int))
        return await real(queue, name, data, **options)

    def once_more() -> Iterator[int]:
        for seed in range(100):
            begun.clear()
            yield seed

    monkeypatch.setattr(Queue, "add", in_two_steps)
    done = search(wire, once_more(), 60)

    assert done.seed is not None
    begun.clear()
    outcome = simulate(make_plan(done.seed), wire)
    assert "has no hash" in str(outcome.violation)
    verdict = next(at for at, line in enumerate(outcome.trace) if "VIOLATION" in line)
    assert "ZADD" in outcome.trace[verdict - 1]
