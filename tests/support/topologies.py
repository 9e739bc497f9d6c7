"""Fixtures of servers that are more than one: a cluster and a watched master of each kind, shared by all tests."""

from collections.abc import Iterator

import pytest

from support.clusters import Cluster, start_cluster
from support.sentinels import Watched, start_sentinels

__all__ = ["clusters", "watched_masters"]


@pytest.fixture(scope="session")
def clusters() -> Iterator[dict[str, Cluster]]:
    """Clusters that tests share, by name of the server, filled as they are asked for."""
    started = _Clusters()
    yield started
    for cluster in started.values():
        cluster.close()


@pytest.fixture(scope="session")
def watched_masters() -> Iterator[dict[str, Watched]]:
    """Masters with sentinels that tests share, by name of the server, filled as they are asked for."""
    started = _Watched()
    yield started
    for watched in started.values():
        watched.close()


class _Clusters(dict[str, Cluster]):
    def __missing__(self, name: str) -> Cluster:
        self[name] = start_cluster(name)
        return self[name]


class _Watched(dict[str, Watched]):
    def __missing__(self, name: str) -> Watched:
        self[name] = start_sentinels(name)
        return self[name]
