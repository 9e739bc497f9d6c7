"""Virtual time: one queue of events, and event loops that live in it.

Each simulated process has an event loop of its own, so that it can be killed,
frozen, or have only its loop blocked, like a real one. The code under test does
not notice: it is given this time, these loops and these random numbers.
"""

import asyncio
import heapq
import random
import sys
import time
import uuid
from asyncio import events as asyncio_events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any, TypeAlias, cast

import attrs

__all__ = ["START_WALL_MS", "Process", "Universe"]

START_WALL_MS = 1_700_000_000_000

_Event: TypeAlias = "tuple[float, float, int, Process | None, bool, Callable[[], object]]"
"""When it is due, when it was first due, in which order, whose it is, whether the loop does it, and what."""


@attrs.define(eq=False)
class Process:
    """A process of the simulation.

    Attributes:
        universe: Where it lives.
        name: For the trace.
        skew_ms: Its wall clock is so far ahead (below 0: behind).
        alive: False after a kill; nothing of it happens any more.
        frozen_until: Nothing of it happens before.
        blocked_until: Its event loop does nothing before; its threads go on.
        loop: Its event loop.
        undone: What would have happened had it not died.
    """

    universe: "Universe"
    name: str
    skew_ms: int = 0
    alive: bool = True
    frozen_until: float = 0
    blocked_until: float = 0
    loop: "Loop" = attrs.field(init=False)
    undone: "list[_Event]" = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.loop = Loop(self)

    def start(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let its event loop run a coroutine, which is made when its turn comes: it may never come."""
        self.universe.at(self.universe.now_ms, lambda: self.loop.create_task(work()), self, in_loop=True)


@attrs.define(eq=False)
class Universe:
    """Virtual time and all that will happen in it.

    Attributes:
        dice: Random numbers for the code under test.
        now_ms: The present.
        current: The process whose code runs just now.
        trace: What happened so far.
        unhandled: What no task caught.
        is_over: Only what ends processes still happens; see :meth:`wind_up`.
    """

    dice: random.Random
    now_ms: float = 0
    current: Process | None = None
    trace: list[str] = attrs.field(factory=list)
    unhandled: list[dict[str, Any]] = attrs.field(factory=list)
    is_over: bool = False
    _events: "list[_Event]" = attrs.field(factory=list)
    _count: int = 0
    _running: asyncio.AbstractEventLoop | None = None

    def at(
        self, when: float, event: Callable[[], object], owner: Process | None = None, *, in_loop: bool = False
    ) -> None:
        """Let something happen at a moment, in the order in which it was asked for.

        Args:
            when: The moment; the past counts as now.
            event: What.
            owner: The process that does it, and does not while it is dead or frozen; None: nature.
            in_loop: It is the process's event loop that does it.
        """
        self._count += 1
        if when < self.now_ms:
            when = self.now_ms
        heapq.heappush(self._events, (when, when, self._count, owner, in_loop, event))

    def tell(self, who: str, what: str) -> None:
        """Note what happened."""
        self.trace.append(f"{self.now_ms / 1000:9.3f} s  {who:<10} {what}")

    def run(self, is_done: Callable[[], bool], until_ms: float) -> bool:
        """Let time pass until something holds, or until a moment; tell whether it holds."""
        events, step = self._events, self._step
        try:
            while not is_done():
                if not events or events[0][0] > until_ms:
                    return False
                step()
        finally:
            self._enter(None, None)
        return True

    def _step(self) -> None:
        this = when, planned, order, owner, in_loop, event = heapq.heappop(self._events)
        self.now_ms = when
        if owner is not None:
            if not (owner.alive or self.is_over):
                owner.undone.append(this)
                return
            later = owner.frozen_until
            if in_loop and owner.blocked_until > later:
                later = owner.blocked_until
            if later > when:  # what was due first comes first, however late
                heapq.heappush(self._events, (later, planned, order, owner, in_loop, event))
                return
        self._enter(owner, owner.loop.as_loop if owner is not None and in_loop else None)
        event()

    def _enter(self, owner: Process | None, loop: asyncio.AbstractEventLoop | None) -> None:
        """Let what comes be done by a process, in its event loop or outside of it."""
        self.current = owner
        if loop is not self._running:
            asyncio_events._set_running_loop(loop)
            self._running = loop

    def wind_up(self, processes: list[Process]) -> None:
        """End the tasks of all processes, so that nothing is left for the collector to complain of."""
        self.is_over = True
        for process in processes:
            process.frozen_until = process.blocked_until = 0
            for *_, owner, in_loop, event in process.undone:
                self.at(self.now_ms, event, owner, in_loop=in_loop)
            for task in tuple(process.loop.tasks):
                self.at(self.now_ms, task.cancel, process, in_loop=True)
        self.run(lambda: not any(process.loop.tasks for process in processes), self.now_ms + 100_000)

    # -- what the code under test sees ----------------------------------------------------------

    def mono_s(self) -> float:
        """The clock that never jumps."""
        return 1_000 + self.now_ms / 1000

    def wall_ns(self) -> int:
        """The wall clock of the process that asks."""
        skew_ms = self.current.skew_ms if self.current is not None else 0
        return (START_WALL_MS + int(self.now_ms) + skew_ms) * 1_000_000

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Let all modules of EchoMQ see this time and these random numbers, for the length of a ``with`` block."""
        clock = SimpleNamespace(
            monotonic=self.mono_s,
            monotonic_ns=lambda: int(self.mono_s() * 1e9),
            time_ns=self.wall_ns,
            time=lambda: self.wall_ns() / 1e9,
        )
        stand_ins = {
            "time": clock,
            "random": SimpleNamespace(random=self.dice.random),
            "uuid4": lambda: uuid.UUID(int=self.dice.getrandbits(128)),
        }
        places = _places(len(sys.modules))
        for module, name in places:
            setattr(module, name, stand_ins[name])
        try:
            yield
        finally:
            for module, name in places:
                setattr(module, name, _REAL[name])


_REAL: dict[str, object] = {"time": time, "random": random, "uuid4": uuid.uuid4}


@lru_cache(maxsize=1)
def _places(_modules: int) -> list[tuple[ModuleType, str]]:
    """Return where modules of EchoMQ read clocks and dice; found anew when there are more modules."""
    ours = [module for name, module in tuple(sys.modules.items()) if name.partition(".")[0] == "echomq"]
    return [(module, name) for module in ours for name, real in _REAL.items() if vars(module).get(name) is real]


class Loop:
    """The event loop of one simulated process; only what tasks and futures need of one."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.as_loop = cast("asyncio.AbstractEventLoop", self)

    def time(self) -> float:
        """The clock that never jumps."""
        return self._process.universe.mono_s()

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """See asyncio."""
        handle = asyncio.Handle(callback, args, self.as_loop, context)
        self._schedule(self._process.universe.now_ms, handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """See asyncio."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See asyncio."""
        handle = asyncio.TimerHandle(when, callback, args, self.as_loop, context)
        self._schedule(round((when - 1_000) * 1000, 3), handle)
        return handle

    def _schedule(self, when_ms: float, handle: asyncio.Handle) -> None:
        self._process.universe.at(
            when_ms, lambda: None if handle.cancelled() else handle._run(), self._process, in_loop=True
        )

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Nothing: a cancelled handle is skipped when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        """See asyncio."""
        return asyncio.Future(loop=self.as_loop)

    def create_task(self, coro: Any, **more: Any) -> "asyncio.Task[Any]":
        """See asyncio."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self.as_loop, **more)
        self.tasks[task] = None
        task.add_done_callback(lambda done: self.tasks.pop(done, None))
        return task

    def get_debug(self) -> bool:
        """See asyncio."""
        return False

    def is_running(self) -> bool:
        """See asyncio."""
        return True

    def is_closed(self) -> bool:
        """See asyncio."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note what nobody handled."""
        self._process.universe.tell(self._process.name, f"UNHANDLED {context.get('message')}")
        self._process.universe.unhandled.append(context)
