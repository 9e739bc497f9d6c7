"""bull-board in front of the queues ``mail`` and ``other`` of a test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from echomq import Queue
from support.board import Board
from support.board import board as opened_board
from support.servers import Server


@pytest_asyncio.fixture
async def board(redis_server: Server, prefix: str) -> AsyncIterator[Board]:
    """A dashboard of both queues."""
    async with opened_board(redis_server, prefix, "mail", "other") as opened:
        yield opened


@pytest_asyncio.fixture
async def queue(redis_server: Server, prefix: str) -> AsyncIterator[Queue]:
    """The queue ``mail``."""
    async with Queue("mail", redis_server.url, prefix=prefix) as opened:
        yield opened
