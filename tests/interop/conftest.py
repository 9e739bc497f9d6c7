"""A Node process with BullMQ beside the server of the test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from support.peer import NodePeer, node_peer
from support.servers import Server


@pytest_asyncio.fixture
async def node(server: Server, prefix: str) -> AsyncIterator[NodePeer]:
    """A Node process that works on the test's server with the test's prefix."""
    async with node_peer(server, prefix) as peer:
        yield peer
