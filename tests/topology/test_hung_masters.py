"""Masters that hang, their links open, and storms of all that servers may suffer."""

import random
from typing import Any

import pytest

from support.clusters import Cluster, kill_connections
from support.sentinels import Watched

from .load import under_load

pytestmark = pytest.mark.heavy

DEADLINE_MS = 2_000
STORM = 8
"""Evils of one storm."""


async def test_hung_master_of_a_cluster(cluster: Cluster, tagged: str) -> None:
    """A hung master costs no acknowledged job; who waits for it is freed by the deadline, in all drivers and shells."""
    urls = [cluster.url(f"{driver}+cluster", deadline_ms=DEADLINE_MS) for driver in ("redis", "valkey")]
    load = await under_load(urls, tagged, lambda: cluster.cut_off(cluster.master(tagged)), cluster.heal)
    load.account("master hangs, replica takes over", "cluster of six, deadline_ms=2000")

    assert load.longest_gap_s < 20


async def test_hung_master_of_sentinels(watched: Watched, prefix: str) -> None:
    """Behind sentinels, too (pain 15)."""
    urls = [watched.url(f"{driver}+sentinel", deadline_ms=DEADLINE_MS) for driver in ("redis", "valkey")]
    load = await under_load(urls, prefix, lambda: watched.cut_off(watched.master()), watched.heal)
    load.account("master hangs, replica takes over", "three sentinels, deadline_ms=2000")

    assert load.longest_gap_s < 20


@pytest.mark.timeout(400)
async def test_storm_on_a_cluster(cluster: Cluster, tagged: str) -> None:
    """Through deaths and hangs of masters, broken links and a moving slot, each job is done and counted once."""
    dice = random.Random(4)

    def move() -> None:
        slot, source = cluster.slot(tagged), cluster.master(tagged)
        cluster.move_slot(slot, source, cluster.another_master(source))

    def kill_all() -> None:
        for node in cluster.up:
            kill_connections(node)

    evils: list[Any] = [
        lambda: cluster.kill(cluster.master(tagged)),
        lambda: cluster.cut_off(cluster.master(tagged)),
        lambda: cluster.kill(cluster.another_master(cluster.master(tagged))),
        move,
        kill_all,
    ]
    urls = [cluster.url(f"{driver}+cluster", deadline_ms=DEADLINE_MS) for driver in ("redis", "valkey")]
    load = await under_load(urls, tagged, lambda: dice.choice(evils)(), cluster.heal, times=STORM)
    load.account("storm: masters die and hang, links break, the slot moves", "cluster of six, deadline_ms=2000")


@pytest.mark.timeout(400)
async def test_storm_behind_sentinels(watched: Watched, prefix: str) -> None:
    """The same where sentinels watch (pain 15)."""
    dice = random.Random(5)
    evils: list[Any] = [
        lambda: watched.kill(watched.master()),
        lambda: watched.cut_off(watched.master()),
        lambda: kill_connections(watched.master()),
    ]
    urls = [watched.url(f"{driver}+sentinel", deadline_ms=DEADLINE_MS) for driver in ("redis", "valkey")]
    load = await under_load(urls, prefix, lambda: dice.choice(evils)(), watched.heal, times=STORM)
    load.account("storm: masters die and hang, links break", "three sentinels, deadline_ms=2000")
