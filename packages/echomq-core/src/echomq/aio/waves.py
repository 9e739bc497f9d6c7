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
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import attrs

from echomq import middleware
from echomq.calls.add import FEW, PORTION_SIZE, add_job, add_portion, is_plain
from echomq.errors import EchoMQError, NotEncodable
from echomq.extensions import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable, Iterator, Sequence

    from echomq.call import ScriptCall
    from echomq.job import Job
    from echomq.middleware import Layer

__all__ = ["Adding", "Send"]


class Send(Protocol):
    """Puts a call on its way, at once or with what else this turn of the loop sends; await the decoded reply."""

    def __call__(self, call: ScriptCall[Any], *, at_once: bool) -> Coroutine[Any, Any, Any]: ...  # noqa: D102


_Place: TypeAlias = "tuple[Job, asyncio.Future[str]]"
"""A job in a wave, and whoever waits for its id."""

_WAVE = 32
"""So many jobs make a portion, and leave by a write of their own even if this turn added more: the server begins with
them while the next ones are packed."""


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
    wave: list[_Place] = attrs.field(factory=list)
    tasks: set[asyncio.Task[None]] = attrs.field(factory=set)
    landed: deque[tuple[Sequence[_Place], Sequence[str]]] = attrs.field(factory=deque)
    is_landing: bool = False

    def join(self, job: Job, send: Send) -> asyncio.Future[str]:
        """Take a place in the wave."""
        future: asyncio.Future[str] = self.loop.create_future()
        wave = self.wave
        wave.append((job, future))
        self.open_count += 1
        if len(wave) == 1:
            self.loop.call_soon(self._begin_turn, wave, send)
        return future

    def follow(self, job: Job, send: Send) -> asyncio.Future[str]:
        """Leave by a call of its own, behind what was added before."""
        if self.wave:
            self._see_off(send, at_once=False)
        future: asyncio.Future[str] = self.loop.create_future()
        self.open_count += 1
        self._put([(job, future)], send, at_once=False)
        return future

    async def alone(self, job: Job, send: Send) -> str:
        """Leave beside no other."""
        self.open_count += 1
        try:
            job_id: str = await send(add_job(job), at_once=False)
        finally:
            self.open_count -= 1
        return job_id

    def _begin_turn(self, wave: list[_Place], send: Send) -> None:
        if self.wave is wave:
            # Only now, since the loop has looked meanwhile whether the link is still there.
            self._see_off(send, at_once=True)

    def _see_off(self, send: Send, *, at_once: bool) -> None:
        """Send the wave, without the places that nobody waits in any more."""
        wave = [place for place in self.wave if not place[1].done()]
        self.open_count -= len(self.wave) - len(wave)
        self.wave = []
        for portion in _portions(wave):
            self._put(portion, send, at_once=at_once and len(portion) > 1)

    def _put(self, portion: Sequence[_Place], send: Send, *, at_once: bool) -> None:
        try:
            answer = send(add_portion([job for job, _ in portion]), at_once=at_once)
        except Exception as error:  # noqa: BLE001  # it is raised where the jobs are waited for
            self._refuse(portion, error, send)
            return
        task = self.loop.create_task(self._answered(portion, answer, send))
        self.tasks.add(task)
        task.add_done_callback(partial(self._ended, answer))

    def _ended(self, answer: Coroutine[Any, Any, Any], task: asyncio.Task[None]) -> None:
        answer.close()  # a task that was cancelled before its first step has not begun to wait for it
        self.tasks.discard(task)

    def _refuse(self, portion: Sequence[_Place], error: Exception, send: Send) -> None:
        if isinstance(error, NotEncodable) and len(portion) > 1:  # one of them is to blame, and nothing was sent
            for place in portion:
                self._put([place], send, at_once=False)
            return
        self.open_count -= len(portion)
        for _, future in portion:
            if not future.done():
                future.set_exception(_copy(error))

    async def _answered(
        self, portion: Sequence[_Place], answer: Coroutine[Any, Any, Sequence[str]], send: Send
    ) -> None:
        try:
            ids = await answer
        except asyncio.CancelledError:
            self.open_count -= len(portion)
            for _, future in portion:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # as above
            self._refuse(portion, error, send)
        else:
            self.landed.append((portion, ids))
            if not self.is_landing:
                self._land()

    def _land(self) -> None:
        """Hand out what one portion brought, and the next only when what its tasks add then has left.

        Portions written at once are answered at once. If they were also handed out at once, what their tasks add
        would again be written at once, and so on: client and server would wait for each other in turn. Measured
        with 50 in flight: 55,000 adds a second like that, 85,000 like this.
        """
        self.is_landing = bool(self.landed)
        if self.landed:
            portion, ids = self.landed.popleft()
            for (_, future), job_id in zip(portion, ids, strict=True):
                if not future.done():
                    future.set_result(job_id)
            self.loop.call_soon(self._handed_out, len(portion))

    def _handed_out(self, count: int) -> None:
        """Go on when the tasks of a portion have run; what they added leaves in the next turn."""
        self.open_count -= count
        self.loop.call_soon(self._land)


def _portions(wave: Iterable[_Place]) -> Iterator[list[_Place]]:
    """Cut a wave into what leaves by one call."""
    portion: list[_Place] = []
    size = 0
    for place in wave:
        portion.append(place)
        size += len(place[0].raw_data)
        if len(portion) >= _WAVE or size >= PORTION_SIZE:
            yield portion
            portion, size = [], 0
    yield from [portion] if len(portion) > FEW else [[place] for place in portion]


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
        return adds.follow(job, send) if adds.wave or adds.tasks else adds.alone(job, send)

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
