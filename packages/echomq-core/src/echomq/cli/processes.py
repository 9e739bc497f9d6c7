"""Keeps several worker processes running.

Each process is a new interpreter (nothing of the parent's threads, loops or locks
is in it) that works until its standard input ends. So one act, closing that pipe,
asks it to end gracefully on every system, and happens by itself should this
process be killed.
"""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from . import USAGE

__all__ = ["Pool"]

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
HEALTHY_AFTER_S = 60.0
"""A process that lived so long is started again at once, as if it had never failed."""

PATIENCE_S = 5.0


@attrs.define(eq=False, kw_only=True)
class Pool:
    """Worker processes that are started again when they die.

    Attributes:
        command: Program and arguments of one process.
        count: How many.
        environment: In place of this process's; each gets its number, from 1, as ``ECHOMQ_PROCESS``.
        report: Gets a sentence about each death.
        waits_for_change: True keeps a process that cannot work for the next :meth:`restart`
            (the code may be repaired by then); False ends them all.
        exit_code: 0, or that of the process that could not work.
    """

    command: Sequence[str]
    count: int
    environment: Mapping[str, str]
    report: Callable[[str], None]
    waits_for_change: bool = False
    exit_code: int = 0
    _children: dict[int, asyncio.subprocess.Process] = attrs.field(factory=dict)
    _stopping: asyncio.Event = attrs.field(factory=asyncio.Event)
    _changed: asyncio.Event = attrs.field(factory=asyncio.Event)

    @property
    def pids(self) -> list[int]:
        """Process ids of those that run."""
        return [child.pid for child in self._children.values()]

    async def run(self) -> None:
        """Keep them running until all ended by themselves, or were stopped."""
        await asyncio.gather(*(self._keep(number) for number in range(1, self.count + 1)))

    def stop(self) -> None:
        """Ask all to end: running jobs end first."""
        self._stopping.set()
        for child in self._children.values():
            _ask_to_end(child)

    async def force(self) -> None:
        """End all now: by SIGTERM, which gives back running jobs, then by SIGKILL."""
        self.stop()
        await asyncio.gather(*(_force(child) for child in list(self._children.values())))

    async def restart(self) -> None:
        """End all, by force where a job takes long, and start them again."""
        changed, self._changed = self._changed, asyncio.Event()
        children = list(self._children.values())
        changed.set()
        await asyncio.gather(*(_end(child) for child in children))

    async def _keep(self, number: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            changed = self._changed
            code, lived_s = await self._run_one(number)
            if code == 0 and not changed.is_set():
                return
            if self._stopping.is_set():
                return
            if changed.is_set():
                failures = 0
            elif code == USAGE:
                if not await self._is_repaired(changed, code):
                    return
            else:
                failures = 1 if lived_s > HEALTHY_AFTER_S else failures + 1
                await self._pause(number, code, failures)

    async def _run_one(self, number: int) -> tuple[int, float]:
        environment = {**self.environment, "ECHOMQ_PROCESS": str(number)}
        began_s = time.monotonic()
        child = await asyncio.create_subprocess_exec(
            *self.command, stdin=asyncio.subprocess.PIPE, env=environment, **_apart()
        )
        self._children[number] = child
        if self._stopping.is_set():
            _ask_to_end(child)
        try:
            code = await child.wait()
        finally:
            del self._children[number]
        return code, time.monotonic() - began_s

    async def _is_repaired(self, changed: asyncio.Event, code: int) -> bool:
        """Wait for a change of the code, if there can be one; else end all, since none of them can work."""
        if not self.waits_for_change:
            self.exit_code = code
            self.stop()
            return False
        await _first(changed, self._stopping)
        return changed.is_set()

    async def _pause(self, number: int, code: int, failures: int) -> None:
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 10))
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        self.report(f"worker process {number} ended {how}; starting it again in {pause_s:g} s")
        await _first(self._stopping, self._changed, timeout_s=pause_s)


def _apart() -> dict[str, Any]:
    """Keep Ctrl-C of the terminal to this process, which passes it on in its own way."""
    return {"start_new_session": True} if os.name == "posix" else {"creationflags": 0x200}  # CREATE_NEW_PROCESS_GROUP


def _ask_to_end(child: asyncio.subprocess.Process) -> None:
    if child.stdin is not None:
        child.stdin.close()


async def _end(child: asyncio.subprocess.Process) -> None:
    _ask_to_end(child)
    if not await _ended(child):
        await _force(child)


async def _force(child: asyncio.subprocess.Process) -> None:
    # To a process that had no time to see the first signal the second one is the same, so there is one more.
    for act, patience_s in ((child.terminate, 1), (child.terminate, PATIENCE_S), (child.kill, PATIENCE_S)):
        if child.returncode is not None:
            return
        act()
        await _ended(child, patience_s)


async def _ended(child: asyncio.subprocess.Process, patience_s: float = PATIENCE_S) -> bool:
    try:
        await asyncio.wait_for(child.wait(), patience_s)
    except asyncio.TimeoutError:
        return False
    return True


async def _first(*events: asyncio.Event, timeout_s: float | None = None) -> None:
    """Wait for one of several events, or until the time is over."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
