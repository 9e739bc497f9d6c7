"""One worker process: ``python -m echomq.cli.child MODULE:WORKER``.

Ends gracefully when its standard input ends or on SIGTERM, and exits with
:data:`~echomq.cli.USAGE` if there is no worker to run.
"""

import asyncio
import inspect
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from echomq.errors import EchoMQError, UsageError
from echomq.probe import Probe
from echomq.serving import parse_place

from . import FAILURE, USAGE
from .target import load_target

__all__ = ["main"]

_log = logging.getLogger("echomq.worker")

_PATIENCE_S = 2.0


async def _work(target: str) -> Any:
    """Run a worker to its end; one of the blocking shell is returned instead, to be run outside of any loop."""
    worker = load_target(target)
    if inspect.isawaitable(worker):
        worker = await worker
    if not hasattr(worker, "run"):
        raise UsageError(f"{target} made {type(worker).__name__}, expected a Worker")
    if not logging.root.handlers:
        level = os.environ.get("ECHOMQ_LOG_LEVEL", "INFO").upper()
        logging.basicConfig(level=level, format=f"%(asctime)s %(levelname)s [{_number()}] %(name)s: %(message)s")
    threading.Thread(target=_end_with_input, daemon=True).start()
    if not hasattr(worker, "__aenter__"):
        return worker
    await _run(worker)
    return None


async def _run(worker: Any) -> None:
    async with worker:
        with _probe(worker), _impatient(worker):
            await worker.run()


def _probe(worker: Any) -> "AbstractContextManager[object]":
    """Return the probe that was asked for; the second process listens one port up, and so on."""
    place = os.environ.get("ECHOMQ_PROBE")
    if not place:
        return nullcontext()
    host, port = parse_place(place)
    silence = os.environ.get("ECHOMQ_PROBE_SILENCE")
    return Probe(worker, f"{host}:{port + int(_number()) - 1}", silence=int(silence) if silence else None)


@contextmanager
def _impatient(worker: Any) -> Iterator[None]:
    """Say once that no server has answered yet: why not, the worker tells only when its deadline is over."""
    timer = threading.Timer(_PATIENCE_S, _log.warning, ["no server has answered yet; the worker goes on asking"])
    timer.daemon = True
    worker.on("ready", lambda *_: timer.cancel())
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _number() -> str:
    return os.environ.get("ECHOMQ_PROCESS", "1")


def _end_with_input() -> None:
    """Ask the worker to close, as SIGTERM does, when whoever started this process wants it or is gone."""
    # The descriptor, not sys.stdin: at the end of the interpreter nobody may hold the lock of that.
    while os.read(0, 4096):
        pass
    if os.name == "posix":
        os.kill(os.getpid(), signal.SIGTERM)  # to the process: raised here, it would not wake the main thread
    else:
        signal.raise_signal(signal.SIGINT)


def main() -> int:
    """Run one worker until it ends."""
    try:
        blocking = asyncio.run(_work(sys.argv[1]))
        if blocking is not None:
            with blocking, _probe(blocking), _impatient(blocking):
                blocking.run()
    except UsageError as error:
        return _failed(error, USAGE)
    except (EchoMQError, OSError) as error:
        return _failed(error, FAILURE)
    except (KeyboardInterrupt, asyncio.CancelledError):  # a second signal, while a lifespan hung
        return FAILURE
    return 0


def _failed(error: Exception, code: int) -> int:
    print(f"echomq: error: {' '.join(str(error).split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
