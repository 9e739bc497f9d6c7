"""Fixtures for tests of what both shells do alike; a folder's ``conftest.py`` names those it uses."""

from collections.abc import AsyncIterator

import pytest

from echomq import Queue
from support.servers import Server
from support.shells import SHELLS, Shell

__all__ = ["queue", "shell"]


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]


@pytest.fixture
async def queue(shell: Shell, server: Server, prefix: str) -> AsyncIterator[Queue]:
    """A queue of each shell on each server."""
    async with shell.queue("mail", server.url, prefix=prefix) as queue:
        yield queue
