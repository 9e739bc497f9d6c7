"""``echomq check``."""

import http.client
import os
import sys
import threading
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from echomq import replies
from echomq.call import Command
from echomq.calls import queue as queue_calls
from echomq.calls.clients import get_workers
from echomq.driver import Connection
from echomq.errors import DriverError, EchoMQError, ServerRefused, UsageError
from echomq.keys import Keys
from echomq.probe import parse_place
from echomq.sync import connect

from . import FAILURE
from .parameters import PREFIX, Prefix, Url, duration_ms, lasting_url

__all__ = ["check"]


def check(
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Also ask for this queue.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Fewest workers of QUEUE that must be connected.")
    ] = 0,
    probe: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Ask the probe of a worker instead of the server.")
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Deadline of the whole check.")] = "5s",
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Exit with 0 if all is well and with 1 if not, within a deadline: for the health checks of containers."""
    limit_ms = duration_ms("--timeout", timeout)
    if workers and queue is None:
        raise UsageError("--workers needs the name of a QUEUE")
    if probe is not None:
        place = parse_place(probe)
        told = _in_time(limit_ms, lambda: _ask_probe(place, limit_ms / 1000))
    else:
        named, keys = lasting_url(url), None if queue is None else Keys(queue, prefix)
        told = _in_time(limit_ms, lambda: _ask_server(connect(named), keys, workers, limit_ms))
    print(told)


def _in_time(limit_ms: int, ask: Callable[[], str]) -> str:
    """Ask in a thread, so that nothing (a name that is not resolved, a deaf server) takes longer than allowed."""
    outcome: list[str | Exception] = []

    def work() -> None:
        try:
            outcome.append(ask())
        except Exception as error:  # noqa: BLE001  # told by the main thread
            outcome.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_ms / 1000)
    if not outcome:
        _unwell(f"no answer within {limit_ms} ms")
    found = outcome[0]
    if isinstance(found, EchoMQError | OSError | http.client.HTTPException):
        _unwell(str(found) or type(found).__name__)
    if isinstance(found, Exception):
        raise found
    return found


def _unwell(reason: str) -> NoReturn:
    print(f"unwell: {' '.join(reason.split())}", file=sys.stderr, flush=True)
    # Not by an exception: the thread may hold what the end of the interpreter waits for.
    os._exit(FAILURE)


def _ask_probe(place: tuple[str, int], limit_s: float) -> str:
    link = http.client.HTTPConnection(*place, timeout=limit_s)
    try:
        link.request("GET", "/ready")
        answer = link.getresponse()
        text = answer.read(1_000).decode("utf-8", "replace").strip()
    finally:
        link.close()
    if answer.status != 200:
        raise DriverError(f"the worker is not ready: {text}")
    return f"well: the worker at {place[0]}:{place[1]} is ready"


def _is_replica(connection: Connection, limit_ms: int) -> bool:
    try:
        info = connection.send(Command(parts=("INFO", "replication"), decode=replies.text), deadline_ms=limit_ms)
    except ServerRefused:  # a user without the right to ask
        return False
    return "role:slave" in info


def _ask_server(connection: Connection, keys: Keys | None, workers: int, limit_ms: int) -> str:
    try:
        connection.send(Command(parts=("PING",), decode=replies.nothing, repeatable=True), deadline_ms=limit_ms)
        if _is_replica(connection, limit_ms):
            raise DriverError("the server is a replica, which takes no changes")
        if keys is None:
            return "well: the server answers"
        is_paused = connection.send(queue_calls.is_paused(keys), deadline_ms=limit_ms)
        told = f"well: queue {keys.queue} can be read{', and is paused' if is_paused else ''}"
        if workers:
            found = len(connection.send(get_workers(keys), deadline_ms=limit_ms))
            if found < workers:
                raise DriverError(f"{found} workers of queue {keys.queue} are connected, expected {workers}")
            told += f"; {found} workers"
        return told
    finally:
        connection.close()
