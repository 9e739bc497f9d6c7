"""Local events of asyncio workers: those of :mod:`echomq.listening`, whose listeners may be ``async`` here."""

import asyncio
from collections.abc import Callable
from typing import Any

import attrs

from echomq.listening import Listening

__all__ = ["Listeners"]


@attrs.define(eq=False)
class Listeners:
    """Who listens to what.

    Attributes:
        events: Names of the events there are.
        call: See :meth:`Listening.call`.
    """

    events: tuple[str, ...]
    call: Callable[..., None] = attrs.field(init=False)
    _listening: Listening = attrs.field(init=False)
    _tasks: "set[asyncio.Task[None]]" = attrs.field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        """Begin with nobody."""
        self._listening = Listening(self.events, self._start)
        self.call = self._listening.call

    def add(self, event: str, listener: Callable[..., Any]) -> None:
        """See :meth:`Listening.add`."""
        self._listening.add(event, listener)

    def remove(self, event: str, listener: Callable[..., Any]) -> None:
        """See :meth:`Listening.remove`."""
        self._listening.remove(event, listener)

    def _start(self, event: str, answer: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._finish(event, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, event: str, answer: Any) -> None:
        try:
            await answer
        except (Exception, SystemExit) as error:  # noqa: BLE001  # a listener must not take the worker down
            self._listening.failed(event, error)

    def is_calling(self, task: "asyncio.Task[Any] | None") -> bool:
        """Tell whether a task is that of an ``async`` listener."""
        return task in self._tasks

    async def settle(self) -> None:
        """Wait for the ``async`` listeners that are still at work."""
        while self._tasks:
            await asyncio.wait(self._tasks)
