"""The life of a child process: runs one job after the other until its pipe closes.

Job code runs in the main thread, as it would in a program of its own. A second thread
reads the pipe; when the worker is gone, it ends the process, whatever that is doing.
"""

import asyncio
import contextlib
import os
import queue
import signal
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from echomq import plugins
from echomq.codec import encode_json
from echomq.current import bind_context
from echomq.extensions import report
from echomq.job import Job
from echomq.middleware import process_plainly
from echomq.processors import Processors, is_coroutine_function, no_processor, takes_context

from .context import AsyncChildContext, ChildContext
from .parcel import packed, unpacked
from .pipe import Answer, Ask, Began, FromChild, Raised, Returned, Run

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["live"]


def live(pipe: "Connection[FromChild, Any]", processors: Processors) -> None:
    """Run jobs; what the child process does.

    Args:
        pipe: To the worker.
        processors: The user's.
    """
    os.set_inheritable(pipe.fileno(), False)
    _stand_alone()
    _Child(pipe, processors).work()


def _stand_alone() -> None:
    """Take no part in signals to the worker's group: the worker decides when its children end.

    With a group of its own, a child takes along what its job has started when it is killed.
    """
    if hasattr(os, "setsid"):
        with contextlib.suppress(PermissionError):
            os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which programs that a job starts would inherit


@attrs.define(eq=False, slots=False)
class _Child:
    pipe: "Connection[FromChild, Any]"
    processors: Processors
    _jobs: "queue.SimpleQueue[Run | None]" = attrs.field(factory=queue.SimpleQueue)
    _asked: "dict[int, Future[Any]]" = attrs.field(factory=dict)
    _writing: threading.Lock = attrs.field(factory=threading.Lock)
    _is_busy: bool = False

    def work(self) -> None:
        threading.Thread(target=self._read, name="echomq-pipe", daemon=True).start()
        while (run := self._jobs.get()) is not None:
            self._send(self._outcome(run))
            self._is_busy = False

    def _read(self) -> None:
        while True:
            try:
                message = self.pipe.recv()
                if isinstance(message, Run):
                    self._is_busy = True
                    self._send(Began())
            except (EOFError, OSError):
                self._leave()
                return
            if isinstance(message, Run):
                self._jobs.put(message)
            else:
                self._answered(message)

    def _leave(self) -> None:
        """End, since the worker is gone or wants no more: a job under way has no one to report to."""
        if self._is_busy:
            if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
                os.killpg(0, signal.SIGKILL)
            os._exit(1)
        self._jobs.put(None)

    def _send(self, message: FromChild) -> None:
        with self._writing:
            self.pipe.send(message)

    # -- one job --------------------------------------------------------------------------------

    def _outcome(self, run: Run) -> FromChild:
        job = run.job
        try:
            return Returned(encode_json(f"the result of job {job.id}", self._result(run)))
        except KeyboardInterrupt as error:
            return Raised(packed(RuntimeError(f"the processor raised {type(error).__name__}")))
        except BaseException as error:  # noqa: BLE001  # a job may raise anything
            return Raised(packed(error))

    def _result(self, run: Run) -> Any:
        layers = plugins.extensions().layers_of_child(run.handed)
        return process_plainly(layers, run.job, report, lambda job: self._run(job, run.token))

    def _run(self, job: Job, token: str) -> Any:
        function = self._processor(job)
        plain = ChildContext(job, token, self._ask)
        context = AsyncChildContext(plain) if is_coroutine_function(function) else plain
        bind_context(context)
        result = function(*((job, context) if takes_context(function) else (job,)))
        return self._loop.run_until_complete(result) if asyncio.iscoroutine(result) else result

    def _processor(self, job: Job) -> Callable[..., Any]:
        if not isinstance(self.processors, Mapping):
            return self.processors
        if job.name not in self.processors:
            raise no_processor(job, self.processors)
        return self.processors[job.name]

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        """One for all jobs, so that what a module keeps for its loop stays good."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        return loop

    # -- what jobs ask for ----------------------------------------------------------------------

    def _ask(self, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        number = id(future)
        self._asked[number] = future
        try:
            self._send(Ask(number, method, args, options))
        except BaseException:
            del self._asked[number]
            raise
        return future

    def _answered(self, answer: Answer) -> None:
        future = self._asked.pop(answer.number)
        if future.cancelled():
            return
        if answer.error is not None:
            future.set_exception(unpacked(answer.error))
        else:
            future.set_result(answer.value)
