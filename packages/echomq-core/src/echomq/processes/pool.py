"""Child processes that run jobs, and what to do when one ends before its job.

The standard library's pools give up as a whole when one process dies, and cannot end
the job of one. Here each child has a pipe of its own and is replaced alone.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from echomq import plugins
from echomq.codec import decode_json
from echomq.errors import ProcessDied, UsageError
from echomq.extensions import report
from echomq.job import Job
from echomq.processors import Processors, check_processor

from .child import live
from .parcel import packed, unpacked
from .pipe import CALLS, Answer, Ask, FromChild, Raised, Returned, Run, ToChild

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

__all__ = ["JobContext", "ProcessPool"]

_SPAWN = multiprocessing.get_context("spawn")

_LEAVE_S = 0.5
"""How long idle children may take to end by themselves."""

_LOOK_S = 1.0
"""How often to look whether a child lives that says nothing."""

_START_S = 60.0
"""How long a child may take to start before its job's limit of time counts: a load of imports is not the job's."""

_REAP_S = 5.0
"""How long the system may take to tell how a process ended whose pipe is closed already."""


class JobContext(Protocol):
    """What the pool needs of a blocking ``ctx``, beside the methods in :data:`~echomq.processes.pipe.CALLS`."""

    @property
    def token(self) -> str:
        """What the job's lock holds."""
        ...

    @property
    def cancelled(self) -> threading.Event:
        """Set when the job should end."""
        ...

    def begins_at(self, moment_s: float) -> None:
        """Let the job's limit of time count from a moment of the monotonic clock, instead of an earlier one."""
        ...

    def when_cancelled(self, function: Callable[[], object] | None) -> None:
        """Call a function, in any thread, when the job should end; at once if it should already. None: no more."""
        ...


def check_importable(processors: Processors) -> None:
    """Refuse a processor that a child process cannot import.

    Raises:
        UsageError: Tells which, and what to do.
    """
    for function in processors.values() if isinstance(processors, Mapping) else (processors,):
        check_processor(function)
        try:
            ForkingPickler.dumps(function)
        except Exception as error:
            raise UsageError(f"{_UNKNOWN.format(function)} ({error})") from error
        main = sys.modules["__main__"]
        if getattr(function, "__module__", "") == "__main__" and not hasattr(main, "__file__"):
            raise UsageError(f"{_UNKNOWN.format(function)} (this program has no file)")


_UNKNOWN = (
    "processor: run_in='process' needs a function that a new process can import, which {!r} is not; "
    "define it at the top level of a module"
)


@attrs.define(eq=False)
class _Child:
    """One process, and this side of its pipe; only the thread that runs its job touches either, but for ``kill``."""

    process: BaseProcess
    pipe: "Connection[ToChild, FromChild]"
    jobs: int = 0
    is_busy: bool = False
    _is_gone: bool = False
    _killing: threading.Lock = attrs.field(factory=threading.Lock)

    @classmethod
    def spawn(cls, processors: Processors) -> "_Child":
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=live, args=(theirs, processors), name="echomq-job")
        try:
            process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return cls(process, ours)

    @property
    def is_fit(self) -> bool:
        return not self.is_busy and self.process.is_alive()

    def begin(self, job: Job, context: JobContext) -> ProcessDied | None:
        """Hand a job over, and return how the process ended if it did not even begin with it."""
        self.is_busy = True
        self.jobs += 1
        context.when_cancelled(self.kill)
        try:
            self.pipe.send(Run(job, context.token, plugins.extensions().handed_to_child(report)))
            self._receive(job)
        except OSError:
            return self._died(job)
        except ProcessDied as died:
            return died
        return None

    def finish(self, job: Job, context: JobContext) -> Any:
        """Do what the job asks for until it has ended, and return its result.

        Raises:
            ProcessDied: The process ended first.
            BaseException: What the job raised.
        """
        while True:
            message = self._receive(job)
            if isinstance(message, Ask):
                self._answer(job, message, context)
            elif isinstance(message, Returned):
                self._rest()
                return decode_json(message.value_json)
            elif isinstance(message, Raised):
                self._rest()
                raise unpacked(message.error)

    def _rest(self) -> None:
        with self._killing:
            self.is_busy = False

    def _receive(self, job: Job) -> FromChild:
        try:
            # Processes that the job has started may hold the pipe open after it is gone.
            while not self.pipe.poll(_LOOK_S):
                if not self.process.is_alive() and not self.pipe.poll(0):
                    raise self._died(job)
            return self.pipe.recv()
        except (EOFError, OSError):
            raise self._died(job) from None

    def _answer(self, job: Job, ask: Ask, context: JobContext) -> None:
        try:
            if ask.method not in CALLS:
                raise UsageError(f"a child process cannot ask for {ask.method!r}")
            answer = Answer(ask.number, getattr(context, ask.method)(*ask.args, **ask.options))
        except Exception as error:  # noqa: BLE001  # it is the job's to handle
            answer = Answer(ask.number, error=packed(error))
        try:
            self.pipe.send(answer)
        except OSError:
            raise self._died(job) from None

    def _died(self, job: Job) -> ProcessDied:
        with self._killing:
            self._is_gone = True
        self.process.join(_REAP_S)
        if self.process.exitcode is None:
            _kill(self.process)
            self.process.join()
        return ProcessDied(job.id, self.process.exitcode, _how(self.process.exitcode))

    def kill(self) -> None:
        """End the process if it runs a job, with all that this has started; safe in any thread."""
        with self._killing:
            if self.is_busy and not self._is_gone:
                _kill(self.process)

    def end(self, until_s: float) -> None:
        """End the process: one without a job leaves by itself until a moment of the monotonic clock."""
        self.kill()
        self.pipe.close()
        self.process.join(max(0.0, until_s - time.monotonic()))
        if self.process.exitcode is None:
            _kill(self.process)
            self.process.join()
        self.process.close()


def _kill(process: BaseProcess) -> None:
    pid = process.pid or 0
    with contextlib.suppress(AttributeError, ProcessLookupError, PermissionError):
        if os.getpgid(pid) == pid:  # it has a group of its own, with what its job has started
            os.killpg(pid, signal.SIGKILL)
            return
    process.kill()


def _how(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"


@attrs.define(eq=False)
class ProcessPool:
    """The children of one worker; they are made when there are jobs for them.

    Attributes:
        processors: The user's.
        max_jobs: A child is replaced after so many; None: never.
    """

    processors: Processors
    max_jobs: int | None = None
    _idle: list[_Child] = attrs.field(init=False, factory=list)
    _children: set[_Child] = attrs.field(init=False, factory=set)
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)

    def __attrs_post_init__(self) -> None:
        """Look at the functions once, early."""
        check_importable(self.processors)

    def run(self, job: Job, context: JobContext) -> Any:
        """Run a job in a child; blocks the calling thread until it has ended.

        Args:
            job: The job.
            context: Its ``ctx``; when that is cancelled, the child is killed.

        Raises:
            ProcessDied: The child ended before the job.
            BaseException: What the job raised, see :mod:`echomq.processes.parcel`.
        """
        try:
            context.begins_at(time.monotonic() + _START_S)
            child = self._begin(job, context)
            context.begins_at(time.monotonic())
            try:
                return child.finish(job, context)
            finally:
                self._release(child)
        finally:
            context.when_cancelled(None)

    def _begin(self, job: Job, context: JobContext) -> _Child:
        while True:
            child = self._take()
            try:
                died = child.begin(job, context)
            except BaseException:
                self._discard(child)
                raise
            if died is None:
                return child
            is_first = child.jobs == 1
            self._discard(child)
            # One that ended between two jobs is not this one's fault, but a new one should have begun.
            if is_first or context.cancelled.is_set():
                raise died

    def _take(self) -> _Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.is_fit:
                    return child
                self._children.discard(child)
                child.end(0)
        child = _Child.spawn(self.processors)
        with self._lock:
            if not self._children:
                atexit.register(self.close)
            self._children.add(child)
        return child

    def _release(self, child: _Child) -> None:
        is_worn = self.max_jobs is not None and child.jobs >= self.max_jobs
        is_good = child.is_fit and not is_worn
        with self._lock:
            if is_good and child in self._children:  # else the pool was closed meanwhile
                self._idle.append(child)
                return
        self._discard(child)

    def _discard(self, child: _Child) -> None:
        with self._lock:
            self._children.discard(child)
        child.end(time.monotonic() + _LEAVE_S)

    def close(self) -> None:
        """End all children: idle ones leave by themselves, others are killed, and their threads see to the rest."""
        with self._lock:
            idle, busy = self._idle, self._children.difference(self._idle)
            self._children, self._idle = set(), []
        atexit.unregister(self.close)
        for child in busy:
            child.kill()
        for child in idle:
            child.pipe.close()  # all at once, so that they leave beside one another
        until_s = time.monotonic() + _LEAVE_S
        for child in idle:
            child.end(until_s)
