"""A plain connection to each server in turn."""

import contextlib
import os
from collections.abc import Callable, Iterator

import pytest

from support.servers import Server
from vectors.keyspace import RawClient

SERVER_NAMES = os.environ.get("ECHOMQ_TEST_SERVERS", "redis,redis-8.2,valkey-8.1,valkey,memory").split(",")
"""The last two versions of both kinds, since recorded calls are quick, and what the driver of ``memory://`` has in
their place; ``nox -s servers`` has older ones."""


@pytest.fixture(params=SERVER_NAMES)
def server(request: pytest.FixtureRequest, fresh_server: Callable[[str], Server]) -> Server:
    """A running, empty server of each kind and version in turn."""
    return fresh_server(request.param)


@pytest.fixture
def raw_client(server: Server) -> Iterator[RawClient]:
    """A connection to an empty server that hands out replies as they came."""
    with contextlib.closing(RawClient(server.url_as("redis"))) as client:
        yield client
