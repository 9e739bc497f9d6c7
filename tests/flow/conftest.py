"""What tests of flows run on: both shells and both servers."""

from collections.abc import AsyncIterator

import pytest

from echomq import FlowProducer
from support.both_shells import queue, shell
from support.servers import Server
from support.shells import Shell

__all__ = ["flows", "queue", "shell"]


@pytest.fixture
async def flows(shell: Shell, server: Server, prefix: str) -> AsyncIterator[FlowProducer]:
    """A producer of flows of each shell on each server."""
    async with shell.flows(server.url, prefix=prefix) as flows:
        yield flows
