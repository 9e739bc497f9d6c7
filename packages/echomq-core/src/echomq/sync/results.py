"""Wait for the results of jobs, blocking; the twin of :mod:`echomq.aio.results`.

Each thread that waits reads the event log itself, through a connection that the
next one takes over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from echomq.calls.events import newest_id, read_events
from echomq.clock import mono_ms
from echomq.endings import CHECK_MS, as_ending, find_ending, value_of
from echomq.errors import ConnectionClosed, ConnectionLost, ResultTimeout
from echomq.moments import duration_ms

from .run import perform

if TYPE_CHECKING:
    from echomq.driver import Connection
    from echomq.endings import Ending
    from echomq.keys import Keys
    from echomq.moments import Duration

    from .queue import Queue

__all__ = ["Results", "result"]


def result(self: Queue, job_id: str, *, timeout: Duration | None = None) -> Any:
    """Wait until a job has ended, and return its result.

    It may have ended long before, and retention may have removed it: as long as the
    event log tells of its end, the result is known.

    Args:
        job_id: The job.
        timeout: Longest wait, in ms or as ``timedelta``; None: as long as it takes.

    Raises:
        InvalidOption: That is no id of a job.
        JobFailed: It failed, and no attempt is left; tells why.
        JobRemoved: It does not exist, and nothing is known of its end.
        ResultTimeout: It did not end in time.
        DriverError: The server was not reached within the connection's deadline, or refused.
    """
    self.keys.job_named(job_id)
    limit_ms = None if timeout is None else duration_ms("timeout", timeout, minimum=1)
    found = self._results.ending(job_id, limit_ms)
    if found is None:
        raise ResultTimeout(self.name, job_id, limit_ms or 0)
    return value_of(self.keys, found)


@attrs.define(eq=False)
class Results:
    """The connections by which threads wait for jobs of a queue.

    Attributes:
        keys: The queue.
        connection: Of the queue; itself never held up.
    """

    keys: Keys
    connection: Connection
    _idle: list[Connection] = attrs.field(init=False, factory=list)
    _all: list[Connection] = attrs.field(init=False, factory=list)
    _is_closed: bool = attrs.field(init=False, default=False)

    def ending(self, job_id: str, limit_ms: int | None) -> Ending | None:
        """Wait for the end of a job; None if it did not come in time.

        Raises:
            EchoMQError: As :func:`result`, but for the timeout.
        """
        link = self._take()
        due = None if limit_ms is None else mono_ms() + limit_ms
        try:
            return _Wait(self.keys, link, job_id, due).ending()
        except ConnectionClosed:
            raise
        except ConnectionLost:
            if due is None or mono_ms() < due:
                raise
            return None
        finally:
            self._idle.append(link)

    def _take(self) -> Connection:
        if self._is_closed:
            raise ConnectionClosed(f"queue {self.keys.queue!r} is closed; make another one")
        try:
            return self._idle.pop()
        except IndexError:
            link = self.connection.dedicated()
            self._all.append(link)
            return link

    def close(self) -> None:
        """End all waits with ``ConnectionClosed``."""
        self._is_closed = True
        for link in self._all:
            link.close()


@attrs.frozen
class _Wait:
    """One wait.

    Attributes:
        keys: The queue.
        link: A connection of its own.
        job_id: The job.
        due: When it is over, on the monotonic clock, in ms; None: never.
    """

    keys: Keys
    link: Connection
    job_id: str
    due: int | None

    def ending(self) -> Ending | None:
        last_id = self.link.send(newest_id(self.keys), deadline_ms=self._left_ms())
        check_at = 0
        while True:
            if mono_ms() >= check_at:
                found = perform(self.link, find_ending(self.keys, self.job_id), deadline_ms=self._left_ms())
                if found is not None:
                    return found
                check_at = mono_ms() + CHECK_MS
            left_ms = self._left_ms()
            if left_ms is not None and left_ms <= 1:
                return None
            block_ms = min(CHECK_MS, left_ms or CHECK_MS)
            # A frozen server may not hold the wait up either: little more than the time that is left.
            deadline_ms = None if left_ms is None else max(100, left_ms - block_ms)
            for event in self.link.send(read_events(self.keys, last_id, block_ms), deadline_ms=deadline_ms):
                last_id = event.id
                ending = as_ending(event)
                if ending is not None and ending.job_id == self.job_id:
                    return ending

    def _left_ms(self) -> int | None:
        return None if self.due is None else max(1, self.due - mono_ms())
