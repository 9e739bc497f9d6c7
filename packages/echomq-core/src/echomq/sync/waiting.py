"""The blocking read by which an idle worker waits for jobs, on a connection of its own."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from echomq import replies
from echomq.call import Command
from echomq.calls.fetch import has_unstarted, set_marker, wait_marker
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import EchoMQError
from echomq.exchange import ask_server
from echomq.keys import Keys
from echomq.scheduling.messages import Marked

__all__ = ["Waiting"]

_log = logging.getLogger("echomq.worker")

_WAKE_MS = 150
"""How long an ended wait is made up for; an idle worker closes within 200 ms."""


@attrs.define(eq=False, kw_only=True)
class Waiting:
    """The waits of one run of a worker, one at a time.

    Attributes:
        keys: The queue.
        name: Of the worker.
        connection: Whose server it is; of itself never held up.
        start: Runs a function in another thread.
        ended: Told what a wait found, and what tells whether it is still wanted.
        failed: Told why it failed, and the same.
        complain: Told about errors that are no wait's.
    """

    keys: Keys
    name: str | None
    connection: Connection
    start: Callable[[Callable[[], object]], None]
    ended: Callable[[Marked, Callable[[], bool]], None]
    failed: Callable[[EchoMQError, Callable[[], bool]], None]
    complain: Callable[[BaseException], None]
    _link: Connection = attrs.field(init=False)
    _is_over: bool = attrs.field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Make the connection; it is opened by its first request."""
        self._link = self._new_link()

    def _new_link(self) -> Connection:
        return self.connection.dedicated(name=self.keys.client_name(self.name))

    def _is_current(self, link: Connection) -> bool:
        return link is self._link and not self._is_over

    def appear(self) -> None:
        """Open the connection at once: others list workers by it, and a busy one may never wait."""
        self.start(partial(self._greet, self._link, is_first=True))

    def _greet(self, link: Connection, *, is_first: bool) -> None:
        look: Command[Any] = Command(parts=("EXISTS", self.keys.marker), decode=replies.nothing, repeatable=True)
        try:
            link.send(look)
        except EchoMQError as error:
            if self._is_current(link):
                self.complain(error)
        else:
            if is_first:
                self._warn_of_eviction(link)

    def _warn_of_eviction(self, link: Connection) -> None:
        """Warn once of a server that may throw away jobs; one that does not tell is no reason for a word."""
        try:
            # Not by the other connection, where jobs would wait for it.
            server = link.send(ask_server(self.keys)) if link.is_cluster else link.server()
            risk = server.eviction_risk
        except EchoMQError as error:
            _log.debug("worker of queue %s: the server does not tell how it evicts: %s", self.keys.queue, error)
            return
        if risk is not None:
            _log.warning("worker of queue %s: %s", self.keys.queue, risk)

    def wait(self, timeout_ms: int) -> None:
        """Wait for a job in another thread."""
        self.start(partial(self._wait, self._link, timeout_ms))

    def _wait(self, link: Connection, timeout_ms: int) -> None:
        is_wanted = partial(self._is_current, link)
        try:
            score = link.send(wait_marker(self.keys, timeout_ms))
        except EchoMQError as error:
            self.failed(error, is_wanted)
        else:
            self.ended(Marked(score, wall_ms()), is_wanted)

    def stop(self, *, is_last: bool) -> None:
        """End the wait; what it finds is not wanted.

        Args:
            is_last: No other wait follows.
        """
        link, self._link = self._link, self._new_link()
        link.close()
        self.wake_others()
        if not is_last:
            self.start(partial(self._greet, self._link, is_first=False))

    def wake_others(self) -> None:
        """Make up for a marker that was popped and led to no take."""
        self.start(partial(self._wake_others, self._link))

    def _wake_others(self, link: Connection) -> None:
        # By the connection that nobody else needs just now: what is not answered in time ends it.
        try:
            if link.send(has_unstarted(self.keys), deadline_ms=_WAKE_MS):
                link.send(set_marker(self.keys), deadline_ms=_WAKE_MS)
        except EchoMQError:
            return  # nobody can be woken then, and waits are bounded

    def close(self) -> None:
        """Let go of the connection."""
        self._is_over = True
        self._link.close()
