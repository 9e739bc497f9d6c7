"""Jobs fetched by hand, blocking; the twin of :mod:`echomq.aio.manual`.

A worker without a processor works as any other, in a thread of its own. The thread of each
job that is out waits for what the user's code, in whatever thread, says of its end.
"""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from typing import TYPE_CHECKING, Any

import attrs

from echomq.codec import encode_json
from echomq.errors import EchoMQError, JobSignal, LockMissing, UsageError
from echomq.signals import Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from typing_extensions import Self

    from echomq.job import Job

    from .context import Context
    from .held import Held

__all__ = ["FetchedJob", "Manual"]


@attrs.define(eq=False)
class FetchedJob:
    """A job that you work on; its lock is renewed until you have said how it ended.

    As a ``with`` block it completes at the end, unless something was said before. An exception fails the
    attempt and goes on its way; the signals of :mod:`echomq.signals` steer, and end there. After Ctrl-C the
    job waits again. Any thread may use it.

    Attributes:
        ctx: What may be done for the job; ``ctx.cancelled`` is set when it should end.
    """

    ctx: Context
    _outcome: Future[Any] = attrs.field(init=False, repr=False, factory=Future)
    _settled: Future[BaseException | None] = attrs.field(init=False, repr=False, factory=Future)

    @property
    def job(self) -> Job:
        """The job, with its data as last updated."""
        return self.ctx.job

    def complete(self, value: Any = None) -> None:
        """Report that the job is done; returns when the server knows.

        Args:
            value: Its result, any JSON value.

        Raises:
            NotEncodable: The value is not JSON; the job is still yours.
            UsageError: Its end was told already, or it was stopped: cancelled, or too long at work.
            LockMissing: The lock was lost, and the job may run elsewhere.
            JobHasPendingChildren: Children of the job have not ended; the attempt has failed with that.
            ConnectionClosed: The connection's owner closed it; the job is recovered when its lock has run out.
        """
        encode_json(f"the result of job {self.job.id}", value)
        self._report(lambda: self._outcome.set_result(value))

    def fail(self, error: BaseException | str) -> None:
        """Report that the attempt failed; another follows if one is left.

        Args:
            error: Why. Signals of :mod:`echomq.signals` steer, as when a processor raises them.

        Raises:
            UsageError, LockMissing, ConnectionClosed: As :meth:`complete`.
        """
        failure = EchoMQError(error) if isinstance(error, str) else error
        self._report(lambda: self._outcome.set_exception(failure))

    def release(self) -> None:
        """Let the job wait again, as the next in line, without using an attempt; errors as :meth:`complete`."""
        self.fail(Wait())

    def abandon(self) -> None:
        """Let the job wait again, when nobody is there to work on it; what the worker calls."""
        if not self._outcome.done():
            self._outcome.set_exception(Wait())

    def __enter__(self) -> Self:
        """Give the job."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Report how it ended, if that was not said inside."""
        if self._outcome.done():
            return False
        if error is None:
            self.complete()
            return False
        self.fail(Wait() if isinstance(error, KeyboardInterrupt) else error)
        return isinstance(error, JobSignal)

    def _report(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except InvalidStateError:
            raise UsageError(f"job {self.job.id} has ended, or was stopped; only one end can be told") from None
        if (error := self._settled.result()) is not None:
            raise error

    def ending(self) -> Any:
        """Wait for what the user says; what the worker's attempt is."""
        self.ctx.when_cancelled(self._outcome.cancel)
        return self._outcome.result()

    def settled(self, error: BaseException | None) -> None:
        """Note that the server knows, or that it does not want to; what the worker calls."""
        self._outcome.cancel()
        self._settled.set_result(error)


@attrs.define(eq=False)
class Manual:
    """Who asks for jobs, and which are out; in place of a processor, and of a share of slots.

    Attributes:
        name: Of the queue.
        work: Runs the worker to its end; called in a thread whenever jobs are asked for and it does not run.
    """

    name: str
    work: Callable[[Manual], object]
    _lock: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _waiting: list[Future[FetchedJob | None]] = attrs.field(init=False, factory=list)
    _out: dict[FetchedJob, Held] = attrs.field(init=False, factory=dict)
    _held: Collection[Held] = attrs.field(init=False, default=())
    _running: int = attrs.field(init=False, default=0)
    _wanted: int = attrs.field(init=False, default=0)
    _granted: Callable[[int], object] | None = attrs.field(init=False, default=None)
    _thread: threading.Thread | None = attrs.field(init=False, default=None)
    _untold: BaseException | None = attrs.field(init=False, default=None)
    """What ended the work while nobody waited for a job."""
    _is_stopped: bool = attrs.field(init=False, default=False)

    # -- for the user's code --------------------------------------------------------------------

    def fetch(self, limit_s: float | None) -> FetchedJob | None:
        """Wait for a job.

        Args:
            limit_s: Longest wait; None: as long as it takes.

        Returns:
            None if there was none in time, or the worker has ended.

        Raises:
            BaseException: What ended the work, now or since the last call.
        """
        asked: Future[FetchedJob | None] = Future()
        try:
            self._ask(asked)
            wait((asked,), limit_s)
        except BaseException:  # Ctrl-C, which may come when the job is here
            self._withdraw(asked)
            # Where the end of the work is told, nothing was asked, and nobody will answer.
            if asked.done() and asked.exception() is None and (fetched := asked.result()) is not None:
                fetched.abandon()
            raise
        self._withdraw(asked)
        return asked.result()

    def _ask(self, asked: Future[FetchedJob | None]) -> None:
        with self._lock:
            self._tell()
            self._waiting.append(asked)
            self._grant()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"echomq-fetch-{self.name}", daemon=True)
                self._thread.start()

    def _withdraw(self, asked: Future[FetchedJob | None]) -> None:
        with self._lock:
            if asked in self._waiting:
                self._waiting.remove(asked)
                asked.set_result(None)

    def _work(self) -> None:
        failure: BaseException | None = None
        try:
            self.work(self)
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            failure = error
        with self._lock:
            waiting, self._waiting, self._thread = self._waiting, [], None
            self._untold = None if waiting else failure
            for asked in waiting:
                _answer(asked, failure)

    def finish(self) -> None:
        """Wait for the end of the work, and of what its jobs share; raises what nobody was told of."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        untold, self._untold = self._untold, None
        if untold is not None:
            raise untold

    # -- as what runs jobs ----------------------------------------------------------------------

    def watch(self, held: Collection[Held]) -> None:
        """Begin a run.

        Args:
            held: The jobs of the worker, now and later.
        """
        with self._lock:
            self._held, self._running, self._granted, self._is_stopped = held, 0, None, False

    def __call__(self, job: Job, context: Context) -> Any:
        """Hand a job to who has asked for it longest, and wait for its end."""
        context.replace_job(job)
        fetched = FetchedJob(context)
        with self._lock:
            record = next((held for held in list(self._held) if held.context is context), None)
            if record is None or not self._waiting:
                raise Wait  # who asked has gone meanwhile
            self._out[fetched] = record
            self._waiting.pop(0).set_result(fetched)
        try:
            return fetched.ending()
        except CancelledError:
            raise UsageError(f"job {job.id} was stopped before its end was told") from None

    # -- as access to slots ---------------------------------------------------------------------

    def ask(self, wanted: int, granted: Callable[[int], object]) -> bool:
        """See :class:`~echomq.sync.turns.Access`."""
        with self._lock:
            self._wanted, self._granted = wanted, granted
            self._grant()
            return self._granted is None

    def _grant(self) -> None:
        """Let the worker take what is asked for, while this thread has the lock."""
        # Jobs that run and are not out are about to be handed over.
        count = min(self._wanted, len(self._waiting) - (self._running - len(self._out)))
        if self._granted is not None and (count > 0 or self._is_stopped):
            granted, self._granted = self._granted, None
            granted(0 if self._is_stopped else count)

    def fetched(self) -> None:
        """Nothing is promised that would have to be given back."""

    def using(self, running: int, *, is_open: bool) -> None:
        """See which jobs the worker has got rid of."""
        with self._lock:
            self._running, self._is_stopped = running, not is_open
            for fetched, record in list(self._out.items()):
                if record not in self._held:
                    del self._out[fetched]
                    lost = record.lost or record.given_up.is_set()
                    fetched.settled(LockMissing("moveToFinished", fetched.job.id) if lost else record.untold)
            self._grant()

    def room_for(self, _: int) -> int:
        """No job comes along unasked."""
        return 0


def _answer(asked: Future[FetchedJob | None], failure: BaseException | None) -> None:
    if failure is None:
        asked.set_result(None)
    else:
        asked.set_exception(failure)
