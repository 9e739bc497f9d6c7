"""Processes with BullMQ beside the server of the test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from support.peer import Peer, PeerObject, node_peer, python_peer
from support.servers import Server


@pytest_asyncio.fixture
async def node(server: Server, prefix: str) -> AsyncIterator[Peer]:
    """A Node process that works on the test's server with the test's prefix."""
    async with node_peer(server, prefix) as peer:
        yield peer


@pytest_asyncio.fixture
async def bullmq_python(server: Server, prefix: str) -> AsyncIterator[Peer]:
    """A process with BullMQ for Python on the test's server with the test's prefix."""
    async with python_peer(server, prefix) as peer:
        yield peer


@pytest_asyncio.fixture
async def events(node: Peer) -> PeerObject:
    """What Node hears of the queue ``mail``, from its first event on, whenever it begins to listen."""
    return await node.open("QueueEvents", "mail", {"lastEventId": "0-0"})
