"""Local events: what a worker tells the code around it, in the same process.

A listener can do no harm: what it raises is logged (and told to the listeners
of ``error``), never thrown into the worker or a job.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

import attrs

from echomq.errors import UnknownOption

__all__ = ["Listeners"]

_log = logging.getLogger("echomq.worker")


@attrs.define(eq=False)
class Listeners:
    """Who listens to what.

    Attributes:
        events: Names of the events there are.
    """

    events: tuple[str, ...]
    _by_event: dict[str, tuple[Callable[..., Any], ...]] = attrs.field(init=False, factory=dict)
    _tasks: "set[asyncio.Task[None]]" = attrs.field(init=False, factory=set)

    def add(self, event: str, listener: Callable[..., Any]) -> None:
        """Call a listener, a plain or an ``async`` function, at each event of that name.

        Raises:
            UnknownOption: There is no such event; tells the nearest name.
        """
        if event not in self.events:
            raise UnknownOption(event, next(iter(get_close_matches(event, self.events, n=1)), None))
        self._by_event[event] = (*self._by_event.get(event, ()), listener)

    def remove(self, event: str, listener: Callable[..., Any]) -> None:
        """Forget a listener; one that is not known is no error."""
        self._by_event[event] = tuple(known for known in self._by_event.get(event, ()) if known is not listener)

    def call(self, event: str, *args: Any) -> None:
        """Call the listeners of an event, in the order they were added."""
        for listener in self._by_event.get(event, ()):
            try:
                answer = listener(*args)
            except Exception as error:  # noqa: BLE001  # a listener must not take the worker down
                self._failed(event, error)
            else:
                if inspect.isawaitable(answer):
                    self._start(event, answer)

    def _start(self, event: str, answer: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(event, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, event: str, answer: Any) -> None:
        try:
            await answer
        except Exception as error:  # noqa: BLE001  # as in call
            self._failed(event, error)

    def _failed(self, event: str, error: Exception) -> None:
        _log.error("a listener of %r raised", event, exc_info=error)
        if event != "error":
            self.call("error", error)

    async def settle(self) -> None:
        """Wait for the ``async`` listeners that are still at work."""
        while self._tasks:
            await asyncio.wait(self._tasks)
