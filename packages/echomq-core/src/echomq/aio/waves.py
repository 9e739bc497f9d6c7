"""Single adds of many tasks, sent together.

What tasks add to a queue in the same turn of the event loop leaves in one call,
a wave: the server adds it for half the effort, and so does the client. Nothing
waits for more to come: an add beside no other is sent at once, as it is.

The adds keep their order, and each has its own job, its own error, its own
cancellation.

Source: protocol spec 02 section 2; ``lua/README.md``, "Scripts of our own".
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

import attrs

from echomq import middleware
from echomq.calls.add import FEW, PORTION_SIZE, add_job, add_portion, is_plain
from echomq.errors import EchoMQError, NotEncodable
from echomq.extensions import report

from .lane import Lane

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterator, Sequence

    from echomq.call import ScriptCall
    from echomq.driver import AsyncConnection
    from echomq.job import Job
    from echomq.keys import Keys
    from echomq.middleware import Layer

__all__ = ["Adding", "Send", "begun", "shared_adding"]

T = TypeVar("T")


class Send(Protocol):
    """Puts a call on its way, at once or with what else this turn of the loop sends; await the decoded reply."""

    def __call__(self, call: ScriptCall[Any], *, at_once: bool) -> Coroutine[Any, Any, Any]: ...  # noqa: D102


def begun(connection: AsyncConnection, call: ScriptCall[T], *, at_once: bool) -> Coroutine[Any, Any, T]:
    """Put a call on its way, at once or with what else this turn of the loop sends, where the connection can."""
    return connection.begin(call, at_once=at_once) if isinstance(connection, Lane) else connection.send(call)


_WAVE = 32
"""So many jobs make a portion, and leave by a write of their own even if this turn added more: the server begins with
them while the next ones are packed."""


@attrs.define(eq=False)
class _Portion:
    """Jobs that leave together, and whoever waits for the id of each."""

    jobs: list[Job] = attrs.field(factory=list)
    futures: list[asyncio.Future[str]] = attrs.field(factory=list)

    @classmethod
    def of(cls, job: Job, future: asyncio.Future[str]) -> _Portion:
        """Return a portion of one job."""
        return cls([job], [future])

    def open_ones(self) -> _Portion:
        """Return what somebody still waits for."""
        if not any(map(asyncio.Future.done, self.futures)):
            return self
        left = _Portion()
        for job, future in zip(self.jobs, self.futures, strict=True):
            if not future.done():
                left.jobs.append(job)
                left.futures.append(future)
        return left

    def cut(self) -> Iterator[_Portion]:
        """Cut a wave into what leaves by one call."""
        if FEW < len(self.jobs) <= _WAVE and sum([len(job.raw_data) for job in self.jobs]) < PORTION_SIZE:
            yield self  # as nearly always
            return
        start = size = 0
        for end, job in enumerate(self.jobs, 1):
            size += len(job.raw_data)
            if end - start >= _WAVE or size >= PORTION_SIZE:
                yield _Portion(self.jobs[start:end], self.futures[start:end])
                start, size = end, 0
        rest = _Portion(self.jobs[start:], self.futures[start:])
        yield from [rest] if len(rest.jobs) > FEW else rest.each()

    def each(self) -> Iterator[_Portion]:
        """Cut it into portions of one job."""
        return map(_Portion.of, self.jobs, self.futures)


@attrs.define(eq=False)
class _Loop:
    """The adds of one queue in one event loop.

    Attributes:
        loop: The loop.
        open_count: Adds that are not answered, about.
        wave: The plain jobs that this turn has gathered, which leave at the beginning of the next.
        tasks: Wait for the answers of portions.
        landed: Portions that were answered, with the ids, to be handed out.
        is_landing: True from a portion's landing until the next one may land.
    """

    loop: asyncio.AbstractEventLoop
    open_count: int = 0
    wave: _Portion = attrs.field(factory=_Portion)
    tasks: set[asyncio.Task[None]] = attrs.field(factory=set)
    landed: deque[tuple[_Portion, Sequence[str]]] = attrs.field(factory=deque)
    is_landing: bool = False

    def join(self, job: Job, send: Send) -> asyncio.Future[str]:
        """Take a place in the wave."""
        future: asyncio.Future[str] = asyncio.Future(loop=self.loop)
        wave = self.wave
        if not wave.jobs:
            self.loop.call_soon(self._begin_turn, wave, send, 1)
        wave.jobs.append(job)
        wave.futures.append(future)
        self.open_count += 1
        return future

    def follow(self, job: Job, send: Send) -> asyncio.Future[str]:
        """Leave by a call of its own, behind what was added before."""
        if self.wave.jobs:
            self._see_off(send, at_once=False)
        future: asyncio.Future[str] = self.loop.create_future()
        self.open_count += 1
        self._put(_Portion.of(job, future), send, at_once=False)
        return future

    async def alone(self, job: Job, send: Send) -> str:
        """Leave beside no other."""
        self.open_count += 1
        try:
            job_id: str = await send(add_job(job), at_once=False)
        finally:
            self.open_count -= 1
        return job_id

    def _begin_turn(self, wave: _Portion, send: Send, patience: int) -> None:
        if self.wave is not wave:
            return
        if patience and len(wave.jobs) <= FEW:
            # The answers of others are perhaps on their way to their tasks: then they go on together.
            self.loop.call_soon(self._begin_turn, wave, send, patience - 1)
        else:
            # Only now, since the loop has looked meanwhile whether the link is still there.
            self._see_off(send, at_once=True)

    def _see_off(self, send: Send, *, at_once: bool) -> None:
        """Send the wave, without the places that nobody waits in any more."""
        wave = self.wave.open_ones()
        self.open_count -= len(self.wave.jobs) - len(wave.jobs)
        self.wave = _Portion()
        for portion in wave.cut():
            self._put(portion, send, at_once=at_once and len(portion.jobs) > 1)

    def _put(self, portion: _Portion, send: Send, *, at_once: bool) -> None:
        try:
            answer = send(add_portion(portion.jobs), at_once=at_once)
        except Exception as error:  # noqa: BLE001  # it is raised where the jobs are waited for
            self._refuse(portion, error, send)
            return
        task = self.loop.create_task(self._answered(portion, answer, send))
        self.tasks.add(task)
        task.add_done_callback(partial(self._ended, answer))

    def _ended(self, answer: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
        answer.close()  # a task that was cancelled before its first step has not begun to wait for it
        self.tasks.discard(task)

    def _refuse(self, portion: _Portion, error: Exception, send: Send) -> None:
        if isinstance(error, NotEncodable) and len(portion.jobs) > 1:  # one of them is to blame, and nothing was sent
            for one in portion.each():
                self._put(one, send, at_once=False)
            return
        self.open_count -= len(portion.jobs)
        for future in portion.futures:
            if not future.done():
                future.set_exception(_copy(error))

    async def _answered(self, portion: _Portion, answer: Coroutine[Any, Any, Sequence[str]], send: Send) -> None:
        try:
            ids = await answer
        except asyncio.CancelledError:
            self.open_count -= len(portion.jobs)
            for future in portion.futures:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # as above
            self._refuse(portion, error, send)
        else:
            self.landed.append((portion, ids))
            if not self.is_landing:
                self._land()

    def _land(self) -> None:
        """Hand out what one portion brought, or several small ones, and the next when what its tasks add then has left.

        Portions written at once are answered at once. If they were also handed out at once, what their tasks add
        would again be written at once, and so on: client and server would wait for each other in turn. Measured
        with 50 in flight: 55,000 adds a second like that, 85,000 like this.
        """
        count, landed = 0, self.landed
        while landed and (not count or count + len(landed[0][1]) <= _WAVE):
            portion, ids = landed.popleft()
            count += len(ids)
            for future, job_id in zip(portion.futures, ids, strict=True):
                if not future.done():
                    future.set_result(job_id)
        self.is_landing = bool(count)
        if count:
            self.loop.call_soon(self._handed_out, count)

    def _handed_out(self, count: int) -> None:
        """Go on when the tasks of a portion have run; what they added leaves in the next turn."""
        self.open_count -= count
        self.loop.call_soon(self._land)


def _copy(error: Exception) -> Exception:
    """Return the same error for one more caller, who adds to its traceback; any class of error can be made so."""
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    own.__cause__ = error.__cause__
    return own


@attrs.define(eq=False)
class Adding:
    """Adds the single jobs of a queue."""

    _loop: _Loop | None = attrs.field(init=False, default=None)

    def add(self, job: Job, send: Send, *, plain: bool) -> Awaitable[str]:
        """Add a job; await its id.

        Args:
            job: From :func:`~echomq.plans.draft`.
            send: Sends a call of this queue; not kept, for a queue may be thrown away at any moment.
            plain: It is (:func:`~echomq.calls.add.is_plain`), and goes to this queue.

        Raises:
            EchoMQError: Where it is awaited; as :func:`~echomq.aio.adding.add`.
        """
        loop = asyncio.get_running_loop()
        adds = self._loop
        if adds is None or adds.loop is not loop:
            adds = self._loop = _Loop(loop)
        if plain and adds.open_count:
            return adds.join(job, send)
        return adds.follow(job, send) if adds.wave.jobs or adds.tasks else adds.alone(job, send)

    async def add_through(self, layers: Sequence[Layer], job: Job, send: Send) -> Job:
        """Add a job through the layers of plugins; raises also what a required layer raises."""
        way = middleware.around_add(layers, job, report)
        try:
            entered = next(way)
            try:
                plain = is_plain(entered) and entered.keys is job.keys
                job_id = await self.add(entered, send, plain=plain)
            except EchoMQError as error:
                way.throw(error)
            else:
                way.send(entered.with_id(job_id))
        except StopIteration as end:
            job = end.value
        return job


_shared: WeakKeyDictionary[AsyncConnection, dict[Keys, Adding]] = WeakKeyDictionary()
_SHARED_MOST = 64
"""Queues of one connection whose adds are remembered; it matters only while some are under way."""


def shared_adding(connection: AsyncConnection, keys: Keys) -> Adding:
    """Return what adds the single jobs of a queue for all that have this connection and no queue object."""
    try:
        queues = _shared.setdefault(connection, {})
    except TypeError:  # somebody's own connection, which no weak reference can name
        return Adding()
    adding = queues.get(keys)
    if adding is None:
        if len(queues) >= _SHARED_MOST:
            queues.clear()
        adding = queues[keys] = Adding()
    return adding
