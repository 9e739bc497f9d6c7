"""Looks for a simulation that goes wrong, makes it small, and tells it."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs

from .fleet import LOOK_EVERY, Outcome, simulate
from .plans import Plan, Work, make_plan
from .server import Wire

__all__ = ["Finding", "Search", "looked_into", "search", "shrink", "told"]

_TRIES = 300
"""Most simulations to make a failing one smaller."""


@attrs.frozen
class Search:
    """What a search came to.

    Attributes:
        count: How many simulations were run.
        seed: One that goes wrong, or None.
    """

    count: int
    seed: int | None = None


@attrs.frozen
class Finding:
    """A simulation that goes wrong, as small as it could be made.

    Attributes:
        plan: What to do.
        outcome: What comes of it.
    """

    plan: Plan
    outcome: Outcome


def search(wire: Wire, seeds: Iterable[int], seconds: float, is_over: Callable[[], object] = bool) -> Search:
    """Simulate one seed after another until one goes wrong, time is up, or it is over."""
    end, count = time.monotonic() + seconds, 0
    with _collecting_seldom():
        for seed in seeds:
            if time.monotonic() > end or is_over():
                break
            count += 1
            if simulate(make_plan(seed), wire, LOOK_EVERY).violation is not None:
                return Search(count, seed)
    return Search(count)


@contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Let the collector of cycles run a hundred times less often, and leave alone what is there already."""
    before = gc.get_threshold()
    gc.set_threshold(before[0] * 100, *before[1:])
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def looked_into(wire: Wire, seed: int) -> Finding:
    """Return what went wrong with a seed, as small as may be, with a look at all keys after each request."""
    plan = make_plan(seed)
    outcome = simulate(plan, wire)
    if outcome.violation is None:  # only the luck of the looks, or of the machine, shows it
        return Finding(plan, simulate(plan, wire, LOOK_EVERY))
    smallest = shrink(plan, lambda plan: simulate(plan, wire).violation is not None)
    return Finding(smallest, simulate(smallest, wire))


def shrink(plan: Plan, is_wrong: Callable[[Plan], bool]) -> Plan:
    """Leave out faults and jobs as long as it still goes wrong."""
    tries = 0
    is_smaller = True
    while is_smaller and tries < _TRIES:
        is_smaller = False
        for smaller in _smaller(plan):
            tries += 1
            if is_wrong(smaller):
                plan, is_smaller = smaller, True
                break
            if tries >= _TRIES:
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Go through plans that leave one thing out, large things first."""
    faults, works = plan.faults, plan.works
    for half in (faults[: len(faults) // 2], faults[len(faults) // 2 :]) if len(faults) > 3 else ():
        yield attrs.evolve(plan, faults=half)
    for half_of_works in (works[: len(works) // 2], works[len(works) // 2 :]) if len(works) > 3 else ():
        yield attrs.evolve(plan, works=half_of_works)
    for at in range(len(faults)):
        yield attrs.evolve(plan, faults=faults[:at] + faults[at + 1 :])
    for at in range(len(works)) if len(works) > 1 else ():
        yield attrs.evolve(plan, works=works[:at] + works[at + 1 :])
    for at, work in enumerate(works):
        if work.children:
            yield attrs.evolve(plan, works=(*works[:at], attrs.evolve(work, children=()), *works[at + 1 :]))


def told(finding: Finding) -> str:
    """What went wrong, for people: the seed, what was left of its plan, and what happened."""
    plan, outcome = finding.plan, finding.outcome
    return "\n".join(
        [
            outcome.violation or "Nothing is wrong.",
            f"Again: pytest tests/simulation --simulation-seed {plan.seed}",
            f"{len(plan.skews)} workers, clocks ahead by {plan.skews} ms, {plan.options}",
            *(f"  fault at {fault.at_ms / 1000:.3f} s: {fault.kind}, process {fault.who}" for fault in plan.faults),
            *(f"  job {_told_work(work)}" for work in plan.works),
            *(outcome.trace or ("(it does not happen again)",)),
        ]
    )


def _told_work(work: Work) -> str:
    below = f", children: {', '.join(child.id for child in work.children)}" if work.children else ""
    return f"{work.id} at {work.at_ms / 1000:.3f} s: {work.ms} ms, {work.failures} of {work.attempts} fail{below}"
