"""Local events: what a worker tells the code around it, in the same process.

A listener can do no harm: what it raises is logged (and told to the listeners
of ``error``), never thrown into the worker or a job.
"""

import inspect
import logging
import threading
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import attrs

from .errors import UnknownOption

__all__ = ["EVENTS", "Listening"]

_log = logging.getLogger("echomq.worker")

EVENTS = {
    "ready": "(): the server has answered",
    "active": "(job): a job is about to run",
    "completed": "(job, result): its result is stored",
    "failed": "(job, error): an attempt failed, the last one or not",
    "progress": "(job, progress): job code reported progress",
    "stalled": "(job_id): a job of a worker that went silent waits again",
    "drained": "(): a take found nothing",
    "paused": "(): this worker takes no jobs",
    "resumed": "(): it does again",
    "closing": "(): it takes no more jobs",
    "closed": "(): its run has ended",
    "error": "(error): something went wrong that is no job's fault",
    "lock_lost": "(job_id, worker_name): the job may run elsewhere; it was cancelled here, its result is not stored",
    "locks_renewed": "(job_ids): their locks live on",
}
"""Local events -> what listeners are called with, and what it means."""


@attrs.define(eq=False)
class Listening:
    """Who listens to what.

    Attributes:
        events: Names of the events there are.
        awaited: Given the event and what an ``async`` listener answered, to be awaited.
    """

    events: tuple[str, ...]
    awaited: Callable[[str, Any], None]
    _by_event: dict[str, tuple[Callable[..., Any], ...]] = attrs.field(init=False, factory=dict)
    _lock: threading.RLock = attrs.field(init=False, factory=threading.RLock)
    """Listeners may come and go in any thread; who calls them needs no lock."""

    def add(self, event: str, listener: Callable[..., Any]) -> None:
        """Call a listener at each event of that name.

        Raises:
            UnknownOption: There is no such event; tells the nearest name.
        """
        if event not in self.events:
            raise UnknownOption(event, next(iter(get_close_matches(event, self.events, n=1)), None), self.events)
        with self._lock:
            self._by_event[event] = (*self._by_event.get(event, ()), listener)

    def remove(self, event: str, listener: Callable[..., Any]) -> None:
        """Forget a listener; one that is not known is no error."""
        with self._lock:
            self._by_event[event] = tuple(known for known in self._by_event.get(event, ()) if known is not listener)

    def call(self, event: str, *args: Any) -> None:
        """Call the listeners of an event, in the order they were added."""
        for listener in self._by_event.get(event, ()):
            try:
                answer = listener(*args)
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # noqa: BLE001  # it must take neither the worker down nor a job along
                self.failed(event, error)
            else:
                if answer is not None and inspect.isawaitable(answer):
                    self.awaited(event, answer)

    def failed(self, event: str, error: BaseException) -> None:
        """Tell that a listener raised."""
        _log.error("a listener of %r raised", event, exc_info=error)
        if event != "error":
            self.call("error", error)
