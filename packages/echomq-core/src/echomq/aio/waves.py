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
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from echomq import middleware
from echomq.calls.add import add_job, add_portion, is_plain, portions
from echomq.errors import EchoMQError, NotEncodable
from echomq.extensions import report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from echomq.call import ScriptCall
    from echomq.job import Job
    from echomq.middleware import Layer

__all__ = ["Adding"]

Send: TypeAlias = "Callable[[ScriptCall[Any]], Awaitable[Any]]"
"""Sends a call and returns its decoded reply."""

_Place: TypeAlias = "tuple[Job, asyncio.Future[Job]]"
"""A job in a wave, and whoever waits for it."""

_WAVE = 32
"""So many jobs leave at once even if this turn adds more, lest client and server wait for each other in turn."""

_TURNS_TO_LEAVE = 3
"""Turns of the loop until what was added in one is written: gathered, sent, flushed by the lane."""


@attrs.define(eq=False)
class _Loop:
    """The adds of one queue in one event loop.

    Attributes:
        loop: The loop.
        open_count: Adds that are not answered.
        wave: What this turn has gathered; empty between turns.
        tasks: Send portions of waves.
        landed: Portions that were answered, with the ids, to be handed out.
        is_landing: True from a portion's landing until the next one may land.
    """

    loop: asyncio.AbstractEventLoop
    open_count: int = 0
    wave: list[_Place] = attrs.field(factory=list)
    tasks: set[asyncio.Task[None]] = attrs.field(factory=set)
    landed: deque[tuple[Sequence[_Place], Sequence[str]]] = attrs.field(factory=deque)
    is_landing: bool = False

    def join(self, job: Job) -> asyncio.Future[Job]:
        """Take a place in the wave."""
        future: asyncio.Future[Job] = self.loop.create_future()
        self.wave.append((job, future))
        return future

    def see_off(self, send: Send) -> None:
        """Send the wave, without the places that nobody waits in any more."""
        wave = [place for place in self.wave if not place[1].done()]
        self.wave = []
        try:
            cut = list(portions([job for job, _ in wave], _WAVE))
        except Exception as error:  # noqa: BLE001  # a plugin may have made anything of a job
            _fail(wave, error)
            return
        places = iter(wave)
        for portion in cut:
            task = self.loop.create_task(self._send(send, list(islice(places, len(portion)))))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _send(self, send: Send, portion: Sequence[_Place]) -> None:
        try:
            ids = await send(add_portion([job for job, _ in portion]))
        except asyncio.CancelledError:
            for _, future in portion:
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # it is raised where the jobs are waited for
            if isinstance(error, NotEncodable) and len(portion) > 1:  # one of them is to blame, and nothing was sent
                for place in portion:
                    await self._send(send, [place])
            else:
                _fail(portion, error)
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
            for (job, future), job_id in zip(portion, ids, strict=True):
                if not future.done():
                    future.set_result(job.with_id(job_id))
            self._after(_TURNS_TO_LEAVE, self._land)

    def _after(self, turns: int, call: Callable[[], None]) -> None:
        self.loop.call_soon(*(self._after, turns - 1, call) if turns else (call,))


def _fail(portion: Sequence[_Place], error: Exception) -> None:
    for _, future in portion:
        if not future.done():
            future.set_exception(_copy(error))


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

    async def add(self, job: Job, send: Send) -> Job:
        """Add a job and return it with its id.

        Args:
            job: From :func:`~echomq.plans.draft`.
            send: Sends a call of this queue; not kept, for a queue may be thrown away at any moment.

        Raises:
            EchoMQError: As :func:`~echomq.aio.adding.add`.
        """
        loop = asyncio.get_running_loop()
        adds = self._loop
        if adds is None or adds.loop is not loop:
            adds = self._loop = _Loop(loop)
        adds.open_count += 1
        try:
            if adds.wave:
                future = adds.join(job)
                if len(adds.wave) >= _WAVE:
                    adds.see_off(send)
                return await future
            if adds.open_count > 1 and is_plain(job):
                return await _lead(adds, job, send)
            return await _alone(job, send)
        finally:
            adds.open_count -= 1

    async def add_through(self, layers: Sequence[Layer], job: Job, send: Send) -> Job:
        """Add a job through the layers of plugins; raises also what a required layer raises."""
        way = middleware.around_add(layers, job, report)
        try:
            entered = next(way)
            try:
                added = await self.add(entered, send)
            except EchoMQError as error:
                way.throw(error)
            else:
                way.send(added)
        except StopIteration as end:
            job = end.value
        return job


async def _alone(job: Job, send: Send) -> Job:
    return job.with_id(await send(add_job(job)))


async def _lead(adds: _Loop, job: Job, send: Send) -> Job:
    """Begin a wave, let the others of this turn join it, and see it off unless it was full before."""
    future, wave = adds.join(job), adds.wave
    try:
        await asyncio.sleep(0)
    except BaseException:
        future.cancel()
        if adds.wave is wave:
            adds.see_off(send)
        raise
    if adds.wave is wave and len(wave) == 1:
        adds.wave = []
        return await _alone(job, send)
    if adds.wave is wave:
        adds.see_off(send)
    return await future
