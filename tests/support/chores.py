"""Processors for child processes, which have to be importable."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from echomq import Delay, Job, Unrecoverable
from echomq.current import bound_context
from echomq.processes.context import AsyncChildContext, ChildContext

__all__ = ["add_up", "hold", "misbehave", "report", "report_on_a_loop", "slow_to_load", "where", "work_hard"]


MARKS: list[str] = []
"""What a process put here is in its forks, but not in processes that were started anew."""


def where(job: Job) -> Any:
    """Tell which process runs the job, its data, and the marks it was born with."""
    return {"pid": os.getpid(), "parent": os.getppid(), "data": job.data, "marks": MARKS}


class SlowToLoad:
    """A processor that each new process takes long to load, as one with many imports."""

    load_s = 2.5

    def __setstate__(self, _: object) -> None:
        time.sleep(self.load_s)

    def __getstate__(self) -> object:
        return True

    def __call__(self, job: Job) -> Any:
        """Do nothing for long."""
        return job.data


slow_to_load = SlowToLoad()


async def add_up(job: Job) -> Any:
    """Add numbers, on an event loop that stays the same for all jobs of the process."""
    await asyncio.sleep(0)
    return {"sum": sum(job.data), "loop": id(asyncio.get_running_loop())}


def report(_: Job, ctx: ChildContext) -> Any:
    """Use everything that ctx offers."""
    rows = [ctx.log("one"), ctx.log("two")]
    ctx.progress({"done": 1})
    ctx.update_data({"new": True})
    ctx.extend(60_000)
    bound = bound_context()
    return {"rows": rows, "data": ctx.job.data, "token": ctx.token, "bound": bound is ctx}


async def report_on_a_loop(_: Job, ctx: AsyncChildContext) -> Any:
    """The same with await."""
    rows = [await ctx.log("one"), await ctx.log("two")]
    await ctx.progress({"done": 1})
    await ctx.update_data({"new": True})
    await ctx.extend(60_000)
    bound = bound_context()
    return {"rows": rows, "data": ctx.job.data, "token": ctx.token, "bound": bound is ctx}


class Strange(ArithmeticError):
    """An error that the worker's process may not know."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__(f"{one} and {two}")


class Fatal(Unrecoverable):
    """A signal of the user's own."""


class NoSuchUser(Unrecoverable):
    """One with more than a text."""

    def __init__(self, user_id: int) -> None:
        super().__init__(f"there is no user {user_id}")
        self.user_id = user_id


class Told(Unrecoverable):
    """One whose text is made of what cannot leave the process."""

    def __init__(self, where: object) -> None:
        self.where = where

    def __str__(self) -> str:
        return f"told {type(self.where).__name__}"


def misbehave(job: Job, ctx: ChildContext) -> Any:
    """End in the way that the data tell."""
    if job.data in _ERRORS:
        raise _ERRORS[job.data]
    if job.data == "local":

        class Local(Unrecoverable):
            """One that no other process has."""

        raise Local("only here")
    if job.data == "exit":
        os._exit(3)
    if job.data == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if job.data == "delay" and job.attempts_started == 1:
        raise Delay(10)
    if job.data == "refused":
        with contextlib.suppress(TypeError):
            ctx.progress(object())
    return object() if job.data == "no json" else "fine"


_ERRORS: dict[str, BaseException] = {
    "builtin": LookupError("no such thing"),
    "strange": Strange(1, 2),
    "fatal": Fatal("for good"),
    "no user": NoSuchUser(7),
    "told": Told({"here"}),
    "list": Unrecoverable(["a", "list"]),
    "interrupt": KeyboardInterrupt(),
    "leave": SystemExit(4),
    "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
}


def hold(job: Job) -> None:
    """Write who runs the job, and a program that it starts, into the file of the data; then never end."""
    program = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    path = Path(job.data)
    path.with_suffix(".part").write_text(f"{os.getpid()} {program.pid}")
    path.with_suffix(".part").rename(path)
    while True:
        time.sleep(1)


def work_hard(job: Job) -> int:
    """Keep a processor busy for so many seconds, without a pause."""
    until_s, rounds = time.monotonic() + job.data, 0
    while time.monotonic() < until_s:
        rounds += 1
    return rounds
