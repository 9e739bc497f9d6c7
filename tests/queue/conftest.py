"""What tests of queues run on: both shells, both servers, and a plain client that looks at what is stored."""

import contextlib
from collections.abc import Iterator

import pytest

from support.both_shells import queue, shell
from support.servers import Server
from support.stored import Stored

__all__ = ["queue", "shell", "stored"]


@pytest.fixture
def stored(server: Server, prefix: str) -> Iterator[Stored]:
    """What the server holds of that queue, read by a plain client."""
    with contextlib.closing(server.client(decode_responses=True)) as client:
        yield Stored(client, f"{prefix}:mail")
