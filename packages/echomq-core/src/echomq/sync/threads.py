"""The threads of one run of a worker: made when none is idle, kept until the run ends."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import attrs

__all__ = ["Task", "Threads"]

Task: TypeAlias = Callable[[], object]

_ON_THEIR_WAY = 2
"""Most threads that come at one time; each lets others come."""


@attrs.define(eq=False)
class Threads:
    """Threads that take turns at whatever is to be done.

    A thread that comes for a task lets others come if there is more to do: tasks that
    wait for something run side by side, while tasks that end at once are done by few threads,
    one after the other, since each change of threads costs more than such a task.

    None of them keeps a process alive: nobody can stop a thread, and a job that
    never ends must not keep its process from ending.

    Attributes:
        name: What they are called.
        is_due: Tells whether something is left to do that :attr:`before_rest` does; called often, takes no lock.
        before_rest: What a thread does then before it rests.
    """

    name: str
    is_due: Callable[[], bool]
    before_rest: Task
    _tasks: "deque[Task]" = attrs.field(init=False, factory=deque)
    _changed: threading.Condition = attrs.field(init=False, factory=lambda: threading.Condition(threading.Lock()))
    _idle: int = attrs.field(init=False, default=0)
    _coming: int = attrs.field(init=False, default=0)
    _is_closed: bool = attrs.field(init=False, default=False)
    _threads: list[threading.Thread] = attrs.field(init=False, factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._threads)

    def start(self, task: Task) -> None:
        """Run a function in an idle thread, or in a new one."""
        with self._changed:
            self._tasks.append(task)
            self._let_others_come()

    def _let_others_come(self) -> None:
        """Wake or make threads, unless enough are on their way; this thread has the lock."""
        while self._coming < min(_ON_THEIR_WAY, max(1, len(self._tasks))):
            self._coming += 1
            if self._idle:
                self._idle -= 1
                self._changed.notify()
            else:
                thread = threading.Thread(target=self._serve, name=f"{self.name}-{self.count}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self) -> None:
        with self._changed:
            self._coming -= 1
        while (task := self._next()) is not None:
            task()
            del task  # an idle thread keeps no job alive

    def _next(self) -> Task | None:
        """Wait for something to do; None when that is over."""
        with self._changed:
            while True:
                if self._tasks:
                    task = self._tasks.popleft()
                    if self._tasks or self.is_due():
                        self._let_others_come()
                    return task
                if self.is_due():
                    return self.before_rest
                if self._is_closed:
                    return None
                self._idle += 1
                self._changed.wait()
                if not self._is_closed:
                    self._coming -= 1

    def close(self, wait_s: float) -> None:
        """End the idle threads; one that is busy ends with its task.

        Args:
            wait_s: Longest wait for them.
        """
        with self._changed:
            self._is_closed, self._idle, self._coming = True, 0, 0
            self._changed.notify_all()
        until_s = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
