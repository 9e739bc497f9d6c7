"""Options of the simulation, and its server."""

import contextlib
import logging
from collections.abc import Iterator

import pytest

from support.servers import Server

from .crew import address_of
from .server import Wire


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long and from where to search; known when this folder is named on the command line."""
    parser.addoption("--simulation-seconds", type=float, help="length of the search with fresh seeds, in seconds")
    parser.addoption("--simulation-processes", type=int, help="search in so many processes; all processors by default")
    parser.addoption("--simulation-seed", type=int, help="run only this seed, and tell it whatever comes of it")


@pytest.fixture
def wire(server: Server, caplog: pytest.LogCaptureFixture) -> Iterator[Wire]:
    """A connection to an empty server; the workers' log is left out, since faults are what it is about."""
    caplog.set_level(logging.CRITICAL, "echomq.worker")
    with contextlib.closing(Wire(address_of(server))) as opened:
        yield opened
