"""What tests of queues run on: both shells, both servers, and a plain client that looks at what is stored."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from echomq import Queue
from support.servers import Server
from support.shells import SHELLS, Shell
from support.stored import Stored


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> Shell:
    """Each shell in turn."""
    return SHELLS[request.param]


@pytest.fixture
async def queue(shell: Shell, server: Server, prefix: str) -> AsyncIterator[Queue]:
    """A queue of each shell on each server."""
    async with shell.queue("mail", server.url, prefix=prefix) as queue:
        yield queue


@pytest.fixture
def stored(server: Server, prefix: str) -> Iterator[Stored]:
    """What the server holds of that queue, read by a plain client."""
    with contextlib.closing(server.client(decode_responses=True)) as client:
        yield Stored(client, f"{prefix}:mail")
