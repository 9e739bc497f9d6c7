"""Clusters and watched masters of each kind, and who connects to them."""

import pytest

from support.clusters import Cluster
from support.sentinels import Watched
from support.server_files import CHOSEN
from support.shells import SHELLS, Shell

EACH = [CHOSEN[0], *(pytest.param(name, marks=pytest.mark.heavy) for name in CHOSEN[1:])]
"""Each kind in turn, all but the first in the long run only."""


@pytest.fixture(params=CHOSEN)
def cluster(request: pytest.FixtureRequest, clusters: dict[str, Cluster]) -> Cluster:
    """A cluster of six, of each kind in turn, with nothing broken; other tests' keys may be in it."""
    found = clusters[request.param]
    found.heal()
    return found


@pytest.fixture(params=EACH)
def watched(request: pytest.FixtureRequest, watched_masters: dict[str, Watched]) -> Watched:
    """A master with a replica and three sentinels, of each kind in turn, with nothing broken."""
    found = watched_masters[request.param]
    found.heal()
    return found


@pytest.fixture(params=["redis", "valkey"])
def driver(request: pytest.FixtureRequest) -> str:
    """Each driver in turn; a URL's scheme chooses it."""
    return str(request.param)


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]


@pytest.fixture
def tagged(prefix: str) -> str:
    """A prefix of the test's own, whose queues share a slot."""
    return f"{{{prefix}}}"
