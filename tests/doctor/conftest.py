"""A queue on each server in turn, and the doctor for it."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from echomq import diagnosis
from echomq.diagnosis import Diagnosis, Finding
from echomq.driver import Connection
from echomq.keys import Keys
from echomq.sync import connect
from echomq.sync.run import perform
from support.servers import Server
from support.stored import Stored
from vectors.conftest import raw_client

__all__ = ["Doctor", "doctor", "raw_client"]


class Doctor:
    """Looks at one queue.

    Attributes:
        keys: The queue.
        connection: To its server.
        stored: What the server holds of it, for a plain client.
    """

    def __init__(self, keys: Keys, connection: Connection, stored: Stored) -> None:
        self.keys, self.connection, self.stored = keys, connection, stored

    def look(self, budget: int = diagnosis.BUDGET) -> Diagnosis:
        """Diagnose the queue."""
        now_ms = time.time_ns() // 1_000_000
        return perform(self.connection, diagnosis.diagnose_queue(self.keys, now_ms=now_ms, budget=budget))

    def found(self, code: str) -> Finding | None:
        """The finding of that code, if there is one."""
        return next((finding for finding in self.look().findings if finding.code == code), None)

    def repair(self, code: str) -> int:
        """Carry out the repair of a finding and return how many things were put right."""
        finding = self.found(code)
        assert finding is not None, code
        assert finding.repair is not None, code
        return perform(self.connection, diagnosis.repair(finding.repair))


@pytest.fixture
def doctor(server: Server, prefix: str) -> Iterator[Doctor]:
    """A doctor for an empty queue."""
    with closing(connect(server.url)) as connection, closing(server.client(decode_responses=True)) as client:
        yield Doctor(Keys("work", prefix), connection, Stored(client, f"{prefix}:work"))
