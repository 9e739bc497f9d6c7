"""The thread that keeps locks alive, used by both shells.

It has a blocking connection of its own and shares nothing with the jobs' event
loop: a job that blocks the loop keeps its lock. All locks are renewed in one
call, four times in their life; a job that ends sooner costs nothing.

Source: design.md section 5; protocol spec 05 section 4.5.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import attrs

from echomq.calls.locks import extend_locks
from echomq.driver import Connection
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.scheduling.timing import renewal_ms

__all__ = ["Lease", "Renewal"]

_JOIN_S = 0.1
"""Longest wait for the thread; one that is just connecting ends by itself, and nothing of it matters any more."""


class Lease(Protocol):
    """A lock that a worker holds; a shell's own record of a job looks like this.

    Attributes:
        renewed_at_s: When the lock was taken or renewed, on the monotonic clock.
        reporting: True while a call that releases the lock is under way. It is renewed all the same, for a
            blocked event loop may hold the call back; that it is gone proves nothing then.
    """

    renewed_at_s: float
    reporting: bool

    @property
    def job_id(self) -> str:
        """Whose lock it is."""
        ...

    @property
    def token(self) -> str:
        """What the lock holds."""
        ...


@attrs.define(eq=False, kw_only=True)
class Renewal:
    """Renews the locks of one worker until it is stopped.

    All callables are called in the thread of the renewal.

    Attributes:
        keys: The queue.
        connection: Used by nobody else; closed by :meth:`stop`.
        lock_ms: Life of a lock.
        held: Gives the locks held at this moment; must be safe to call from a thread.
        lost: Told each lease whose lock is gone.
        renewed: Told the ids whose locks were renewed.
        failed: Told the first error of each outage.
        ticked: Called before each round.
    """

    keys: Keys
    connection: Connection
    lock_ms: int
    held: Callable[[], Sequence[Lease]]
    lost: Callable[[Lease], None]
    renewed: Callable[[list[str]], None]
    failed: Callable[[BaseException], None]
    ticked: Callable[[], None]
    _stopped: threading.Event = attrs.field(init=False, factory=threading.Event)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _failing: bool = attrs.field(init=False, default=False)

    def start(self) -> None:
        """Start the thread; it ends with the process, whatever it does."""
        self._thread = threading.Thread(target=self._work, name=f"echomq-locks-{self.keys.queue}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close its connection; a call under way is broken off."""
        self._stopped.set()
        self.connection.close()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _work(self) -> None:
        every_s = renewal_ms(self.lock_ms) / 1000
        while not self._stopped.wait(every_s):
            try:
                self.ticked()
                self._renew_older_than(time.monotonic() - every_s)
            except Exception as error:  # noqa: BLE001  # whatever it is, a dead thread would cost every job its lock
                self._complain(error)

    def _renew_older_than(self, at_s: float) -> None:
        due = [lease for lease in self.held() if lease.renewed_at_s <= at_s]
        if not due:
            return
        reporting = {id(lease) for lease in due if lease.reporting}
        now_s = time.monotonic()
        call = extend_locks(self.keys, [(lease.job_id, lease.token) for lease in due], self.lock_ms)
        try:
            lost = self.connection.send(call, deadline_ms=max(self.lock_ms // 2, 1))
        except EchoMQError as error:
            self._complain(error)
            return
        self._failing = False
        for lease in due:
            if lease.job_id not in lost:
                lease.renewed_at_s = now_s
            elif not (lease.reporting or id(lease) in reporting):
                self.lost(lease)
        self.renewed([lease.job_id for lease in due if lease.job_id not in lost])

    def _complain(self, error: BaseException) -> None:
        if not self._failing and not self._stopped.is_set():
            self.failed(error)
        self._failing = True
