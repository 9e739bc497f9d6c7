"""A queue on each server in turn."""

from collections.abc import AsyncIterator

import pytest_asyncio

from support.desk import Desk, at_desk
from support.servers import Server


@pytest_asyncio.fixture
async def desk(server: Server, prefix: str) -> AsyncIterator[Desk]:
    """An empty queue, on each server in turn."""
    async with at_desk(server.url, prefix) as opened:
        yield opened
