"""What is wrong with a queue and its server, in plain words, and what can be done about it.

Facts are read by plans that only read (:mod:`~echomq.diagnosis.gathering`), judged
by functions of values (:mod:`~echomq.diagnosis.judging_server`,
:mod:`~echomq.diagnosis.judging_queue`), and told as findings. A finding may
bring a :class:`Repair`, which is safe while workers run.

Source: issue "Operations", ``doctor``.
"""

from echomq.checks import whole
from echomq.keys import Keys
from echomq.plans import Plan

from .facts import QueueFacts, ServerFacts
from .findings import Diagnosis, Finding, Repair, Severity, repair
from .gathering import find_queues, look_at_queue, look_at_server
from .judging_cluster import judge_cluster
from .judging_queue import judge_queue
from .judging_server import judge_server
from .nodes import find_masters

__all__ = [
    "BUDGET",
    "Diagnosis",
    "Finding",
    "QueueFacts",
    "Repair",
    "ServerFacts",
    "Severity",
    "diagnose_queue",
    "diagnose_server",
    "find_queues",
    "repair",
]

BUDGET = 10_000
"""Ids of jobs that are looked at in one queue, and ten times as many keys, unless told otherwise."""


def diagnose_server(keys: Keys) -> Plan[Diagnosis]:
    """Say what is wrong with a server, or with each master of a cluster and with all of them together.

    Args:
        keys: A queue of it, in whose key space rights are tried out (nothing is written).
    """
    layout = yield from find_masters()
    if layout is None:
        return Diagnosis.of(judge_server((yield from look_at_server(keys))), ())
    told: dict[str, ServerFacts] = {}
    for master in layout.masters:
        told[master.near] = yield from look_at_server(keys, master)
    return Diagnosis.of(judge_cluster(layout, told.values()), (f"looked at {len(told)} masters of a cluster",))


def diagnose_queue(keys: Keys, *, now_ms: int, budget: int = BUDGET) -> Plan[Diagnosis]:
    """Say what is wrong with a queue.

    Args:
        keys: The queue.
        now_ms: The present.
        budget: Most ids to look at, and ten times as many keys.

    Raises:
        InvalidOption: The budget is not at least 1.
    """
    whole("budget", budget, 1)
    facts = yield from look_at_queue(keys, now_ms=now_ms, budget=budget)
    return Diagnosis.of(judge_queue(facts), tuple(_coverage(facts)))


def _coverage(facts: QueueFacts) -> list[str]:
    seen, there = sum(facts.looked_at.values()), sum(facts.counts.values())
    name = facts.keys.queue
    told = [f"{name}: looked at {seen:,} of {there:,} ids" + ("" if seen >= there else "; a larger budget sees more")]
    if not facts.scanned_all:
        told.append(f"{name}: not all keys of the server were gone through; a larger budget sees more")
    return told
