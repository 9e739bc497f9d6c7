"""``echomq worker``."""

import asyncio
import importlib.util
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from echomq import embedded
from echomq.address import without_password
from echomq.errors import UsageError
from echomq.serving import parse_place
from echomq.surroundings import CLOSE_TIMEOUT

from . import version_text
from .parameters import Url, duration_ms, required_url
from .processes import Pool
from .target import check_target

__all__ = ["start_pool", "stopped_by_signals", "worker"]


def worker(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:WORKER", help="A Worker, or a function without arguments that makes one.")
    ],
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="Worker processes.")] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start anew when a .py file below this folder changes.")
    ] = False,
    probe: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Answer /live, /ready, /metrics there; further processes one port up each."
        ),
    ] = None,
    probe_silence: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not ready when the server is silent for longer; 60s by default.")
    ] = None,
    close_timeout: Annotated[
        str | None,
        typer.Option(
            envvar=CLOSE_TIMEOUT, show_default=False, metavar="TIME", help="Longest wait for running jobs at the end."
        ),
    ] = None,
    url: Url = None,
) -> None:
    """Run workers until Ctrl-C or SIGTERM: running jobs end first; a second one gives them back.

    A process that dies is started again. --url and --close-timeout are for workers that say nothing themselves.
    """
    check_target(target)
    if reload and importlib.util.find_spec("watchfiles") is None:
        raise UsageError('--reload needs watchfiles; next step: pip install "echomq-core[cli]"')
    environment = dict(os.environ)
    if url:
        environment["ECHOMQ_URL"] = embedded.resolve(required_url(url))
    environment |= _probe_settings(probe, probe_silence, processes)
    if close_timeout is not None:
        environment[CLOSE_TIMEOUT] = str(duration_ms("--close-timeout", close_timeout))
    pool = start_pool(target, processes, environment, waits_for_change=reload)
    where = f" at {without_password(environment['ECHOMQ_URL'])}" if url else ""
    _say(f"{version_text()}: {target} in {processes} process{'es' * (processes > 1)}{where}; Ctrl-C ends it")
    asyncio.run(_supervise(pool, reload=reload))
    if pool.exit_code:
        raise typer.Exit(pool.exit_code)


def _probe_settings(probe: str | None, silence: str | None, processes: int) -> dict[str, str]:
    """Check what is said about probes and return it as the processes read it."""
    if probe is None:
        if silence is not None:
            raise UsageError("--probe-silence goes with --probe HOST:PORT")
        return {}
    _, port = parse_place(probe)
    if processes > 1 and not 0 < port <= 65_536 - processes:
        raise UsageError(f"--probe: {processes} processes need as many ports from {port} on")
    settings = {"ECHOMQ_PROBE": probe}
    return (
        settings
        if silence is None
        else {**settings, "ECHOMQ_PROBE_SILENCE": str(duration_ms("--probe-silence", silence))}
    )


def start_pool(target: str, count: int, environment: dict[str, str], *, waits_for_change: bool = False) -> Pool:
    """Return a pool of worker processes, which :meth:`~echomq.cli.processes.Pool.run` starts.

    Args:
        target: ``MODULE:WORKER``.
        count: How many processes.
        environment: Theirs.
        waits_for_change: See there.
    """
    return Pool(
        command=[sys.executable, "-m", "echomq.cli.child", target],
        count=count,
        environment=environment,
        report=_say,
        waits_for_change=waits_for_change,
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def _supervise(pool: Pool, *, reload: bool) -> None:
    async with stopped_by_signals(pool):
        if not reload:
            await pool.run()
            return
        running, watching = asyncio.ensure_future(pool.run()), asyncio.ensure_future(_restart_on_change(pool))
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        pool.stop()
        watching.cancel()
        await running
        await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()


@asynccontextmanager
async def stopped_by_signals(pool: Pool) -> AsyncIterator[list[int]]:
    """Stop the pool on the first SIGTERM or SIGINT, force it on the second; yields the signals received."""
    loop = asyncio.get_running_loop()
    forced: list[asyncio.Task[None]] = []
    received: list[int] = []

    def receive(number: int) -> None:
        received.append(number)
        if len(received) == 1:
            _say("stopping: running jobs end first; once more gives them back")
            pool.stop()
        else:
            forced.append(asyncio.ensure_future(pool.force()))

    handled = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in handled}
    for number in handled:
        # Not the loop's own handlers, which Windows lacks.
        signal.signal(number, lambda got, _frame: loop.call_soon_threadsafe(receive, got))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        await asyncio.gather(*forced)


async def _restart_on_change(pool: Pool) -> None:
    from watchfiles import PythonFilter, awatch

    async for changes in awatch(Path.cwd(), watch_filter=PythonFilter()):
        names = sorted({Path(path).name for _, path in changes})
        _say(f"{', '.join(names[:3])}{' and others' * (len(names) > 3)} changed; starting anew")
        await pool.restart()
