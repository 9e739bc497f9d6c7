"""What the tools for tests are tested on: a server in memory, and a real one."""

from collections.abc import Iterator

import pytest

from echomq_testing import TestServer, start_server


@pytest.fixture(scope="session", params=["memory", "embedded"])
def echomq_server(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    """Each kind of server in turn, in place of the one that the plugin would choose."""
    with start_server(request.param) as server:
        yield server
