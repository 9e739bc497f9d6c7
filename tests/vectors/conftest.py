"""A plain connection to each server in turn."""

import contextlib
from collections.abc import Iterator

import pytest

from support.servers import Server
from vectors.keyspace import RawClient


@pytest.fixture
def raw_client(server: Server) -> Iterator[RawClient]:
    """A connection to an empty server that hands out replies as they came."""
    with contextlib.closing(RawClient(server.url)) as client:
        yield client
