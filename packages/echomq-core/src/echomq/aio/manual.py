"""Jobs fetched by hand: the user's code asks for a job, works on it where it likes, and says how it ended.

A worker without a processor works as any other, locks, outages and all; but it takes a
job only when somebody has asked for one, and the end of its attempt is what the user says.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import attrs

from echomq.codec import encode_json
from echomq.errors import EchoMQError, JobSignal, LockMissing, UsageError
from echomq.signals import Wait

from .context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from types import TracebackType

    from typing_extensions import Self

    from echomq.job import Job

    from .context import Host, ThreadContext
    from .held import Held

__all__ = ["FetchedJob", "Manual"]


@attrs.define(eq=False)
class FetchedJob:
    """A job that you work on; its lock is renewed until you have said how it ended.

    As an ``async with`` block it completes at the end, unless something was said before. An exception fails the
    attempt and goes on its way; the signals of :mod:`echomq.signals` steer, and end there.

    Attributes:
        ctx: What may be done for the job; ``ctx.cancelled`` is set when it should end.
    """

    ctx: Context
    _outcome: asyncio.Future[Any] = attrs.field(init=False, repr=False)
    _settled: asyncio.Future[BaseException | None] = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is known of its end yet."""
        loop = asyncio.get_running_loop()
        self._outcome, self._settled = loop.create_future(), loop.create_future()

    @property
    def job(self) -> Job:
        """The job, with its data as last updated."""
        return self.ctx.job

    async def complete(self, value: Any = None) -> None:
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
        self._check_open()
        self._outcome.set_result(value)
        await self._reported()

    async def fail(self, error: BaseException | str) -> None:
        """Report that the attempt failed; another follows if one is left.

        Args:
            error: Why. Signals of :mod:`echomq.signals` steer, as when a processor raises them.

        Raises:
            UsageError, LockMissing, ConnectionClosed: As :meth:`complete`.
        """
        self._check_open()
        self._outcome.set_exception(EchoMQError(error) if isinstance(error, str) else _raisable(error))
        await self._reported()

    async def release(self) -> None:
        """Let the job wait again, as the next in line, without using an attempt; errors as :meth:`complete`."""
        await self.fail(Wait())

    def abandon(self) -> None:
        """Let the job wait again, when nobody is there to work on it; what the worker calls."""
        if not self._outcome.done():
            self._outcome.set_exception(Wait())

    async def __aenter__(self) -> Self:
        """Give the job."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Report how it ended, if that was not said inside."""
        if self._outcome.done():
            return False
        if error is None:
            await self.complete()
            return False
        await self.fail(error)
        return isinstance(error, JobSignal)

    def _check_open(self) -> None:
        if self._outcome.done():
            raise UsageError(f"job {self.job.id} has ended, or was stopped; only one end can be told")

    async def _reported(self) -> None:
        if (error := await self._settled) is not None:
            raise error

    async def ending(self) -> Any:
        """Wait for what the user says; what the worker's attempt is."""
        return await self._outcome

    def settled(self, error: BaseException | None) -> None:
        """Note that the server knows, or that it does not want to; what the worker calls."""
        if not self._settled.done():
            self._settled.set_result(error)
        self._outcome.cancel()


def _raisable(error: BaseException) -> BaseException:
    """Return an error that a future can carry, as a thread's errors are."""
    if isinstance(error, (StopIteration, GeneratorExit, KeyboardInterrupt, asyncio.CancelledError)):
        raised = RuntimeError(f"the job's code raised {type(error).__name__}")
        raised.__cause__ = error
        return raised
    return error


@attrs.define(eq=False)
class Manual:
    """Who asks for jobs, and which are out; in place of a processor, and of a share of slots."""

    _waiting: list[asyncio.Future[FetchedJob | None]] = attrs.field(init=False, factory=list)
    _out: dict[FetchedJob, Held] = attrs.field(init=False, factory=dict)
    _held: Collection[Held] = attrs.field(init=False, default=())
    _asked: asyncio.Event = attrs.field(init=False, factory=asyncio.Event)
    _is_stopped: bool = attrs.field(init=False, default=False)

    # -- for the user's code --------------------------------------------------------------------

    def ask(self) -> asyncio.Future[FetchedJob | None]:
        """Ask for a job."""
        asked: asyncio.Future[FetchedJob | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(asked)
        self._asked.set()
        return asked

    def withdraw(self, asked: asyncio.Future[FetchedJob | None]) -> None:
        """Ask no longer."""
        if asked in self._waiting:
            self._waiting.remove(asked)

    # -- as what runs jobs ----------------------------------------------------------------------

    def watch(self, held: Collection[Held]) -> None:
        """Begin a run.

        Args:
            held: The jobs of the worker, now and later.
        """
        self._held, self._is_stopped = held, False

    def context(self, job: Job, token: str, host: Host) -> Context | ThreadContext:
        """See :class:`~echomq.aio.processing.JobRunner`."""
        return Context(job, token, host)

    async def call(self, job: Job, context: Context | ThreadContext) -> Any:
        """Hand a job to who has asked for it longest, and wait for its end."""
        if not self._waiting:
            raise Wait  # who asked has gone meanwhile
        context.replace_job(job)
        fetched = FetchedJob(cast("Context", context))
        self._out[fetched] = next(held for held in self._held if held.context is context)
        self._waiting.pop(0).set_result(fetched)
        return await fetched.ending()

    def close(self) -> None:
        """See :class:`~echomq.aio.processing.JobRunner`."""

    # -- as a share of slots --------------------------------------------------------------------

    async def acquire(self, wanted: int, must_wait: Callable[[], object]) -> int:
        """Return how many jobs are asked for."""
        if not self._waiting:
            self._asked.clear()
            must_wait()
            await self._asked.wait()
        return 0 if self._is_stopped else min(wanted, len(self._waiting))

    def stop(self) -> None:
        """Take nothing more."""
        self._is_stopped = True
        self._asked.set()

    def fetched(self) -> None:
        """Nothing is promised that would have to be given back."""

    def using(self, _: int) -> None:
        """See which jobs the worker has got rid of."""
        for fetched, record in list(self._out.items()):
            if record not in self._held:
                del self._out[fetched]
                lost = record.lost or record.given_up
                fetched.settled(LockMissing("moveToFinished", fetched.job.id) if lost else record.untold)

    def room_for(self, _: int) -> int:
        """No job comes along unasked."""
        return 0
