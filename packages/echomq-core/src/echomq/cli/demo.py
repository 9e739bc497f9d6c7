"""``echomq demo``."""

import asyncio
import os
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import typer
from rich.console import Console

import echomq
from echomq import embedded, removal
from echomq.aio.connecting import connect
from echomq.aio.run import perform
from echomq.demo import work
from echomq.demo.run import Demo, DemoError, run_demo
from echomq.errors import UsageError
from echomq.keys import Keys

from . import INTERRUPTED
from .demo_view import LiveView, PlainView, View, results, title_of
from .parameters import required_url
from .processes import Pool
from .worker import start_pool, stopped_by_signals

__all__ = ["demo"]

SERVER_NAMES = {"redis": "Redis", "valkey": "Valkey"}


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="Its text files are the work; by default the sources of this package.")
    ] = None,
    processes: Annotated[int, typer.Option("--processes", "-p", min=1, help="Worker processes.")] = 2,
    pace: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Spread up to 500 files over so long; 0: full speed.")
    ] = 4.0,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="A server of yours; the demo leaves no trace.")
    ] = "embedded:",
) -> None:
    """Watch jobs of several kinds flow through a real server and several worker processes.

    Nothing else needs to be running. Exits with 1 if a job was lost.
    """
    where = (folder or Path(echomq.__file__).parent).resolve()
    if not where.is_dir():
        raise UsageError(f"{where} is not a folder")
    server_url = embedded.resolve(required_url(url))
    keys = Keys(work.QUEUE, f"echomq-demo-{uuid4().hex[:8]}")
    # The picture shows what fails on purpose; a log in between would tear it.
    quiet = {"ECHOMQ_LOG_LEVEL": "CRITICAL"}
    environment = {**os.environ, **quiet, "ECHOMQ_URL": server_url, work.PREFIX_VARIABLE: keys.prefix}
    pool = start_pool("echomq.demo.work:make_worker", processes, environment)
    asyncio.run(_run(pool, keys, where, pace, server_url))


async def _run(pool: Pool, keys: Keys, folder: Path, pace_s: float, url: str) -> None:
    connection = connect(url)
    try:
        server = await connection.server()
        name = f"{SERVER_NAMES.get(server.name, server.name)} {'.'.join(map(str, server.version))}"
        console = Console(highlight=False)
        title = title_of(name, pool.count)
        view: View = (LiveView if console.is_terminal else PlainView)(console, title)
        running = Demo(folder=folder, keys=keys, connection=connection, pace_s=pace_s)
        try:
            await _watch(running, pool, view)
        finally:
            view.close()
            await perform(connection, removal.obliterate(keys, force=True, count=1_000))
        console.print(results(running, console.width))
    finally:
        await connection.close()


async def _watch(running: Demo, pool: Pool, view: View) -> None:
    async with stopped_by_signals(pool) as signals:
        try:
            await run_demo(running, pool, view.show)
        except DemoError:
            if signals:
                raise typer.Exit(INTERRUPTED) from None
            raise
