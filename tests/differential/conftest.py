"""Options and the two databases of the differential test."""

import contextlib
from collections.abc import Iterator

import pytest

from differential.original import original_scripts
from differential.twin import Twin
from support.servers import Server
from vectors.keyspace import RawClient


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long and from where to search; known when this folder is named on the command line."""
    parser.addoption("--differential-seconds", type=float, help="length of the search, in seconds")
    parser.addoption("--differential-seed", type=int, help="start of the search")


@pytest.fixture
def twin(server: Server) -> Iterator[Twin]:
    """The original scripts on one database of a server, ours on another."""
    original_scripts()
    with (
        contextlib.closing(RawClient(f"{server.url}/1")) as original,
        contextlib.closing(RawClient(server.url)) as ours,
    ):
        yield Twin(original, ours)
