"""The threads of one run of a worker: made when none is idle, kept until the run ends."""

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

import attrs

__all__ = ["Threads"]


@attrs.define(eq=False)
class Threads:
    """Threads that take turns at whatever is to be done.

    None of them keeps a process alive: nobody can stop a thread, and a job that
    never ends must not keep its process from ending.

    Attributes:
        name: What they are called.
    """

    name: str
    _tasks: "SimpleQueue[Callable[[], object] | None]" = attrs.field(init=False, factory=SimpleQueue)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _idle: int = attrs.field(init=False, default=0)
    _threads: list[threading.Thread] = attrs.field(init=False, factory=list)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._threads)

    def start(self, task: Callable[[], object]) -> None:
        """Run a function in an idle thread, or in a new one."""
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                thread = threading.Thread(target=self._serve, name=f"{self.name}-{self.count}", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._tasks.put(task)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()
            del task  # an idle thread keeps no job alive
            with self._lock:
                self._idle += 1

    def close(self, wait_s: float) -> None:
        """End the idle threads; one that is busy ends with its task.

        Args:
            wait_s: Longest wait for them.
        """
        for _ in self._threads:
            self._tasks.put(None)
        until_s = time.monotonic() + wait_s
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
