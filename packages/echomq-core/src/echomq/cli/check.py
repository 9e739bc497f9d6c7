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
from echomq.clock import mono_ms, wall_ms
from echomq.diagnosis.nodes import APART, Layout, find_masters
from echomq.driver import Connection
from echomq.errors import DriverError, EchoMQError, ServerRefused, UsageError
from echomq.keys import Keys
from echomq.plans import ask_all
from echomq.serving import parse_place
from echomq.sync import connect
from echomq.sync.run import perform
from echomq.watching import latency

from . import FAILURE
from .opening import exists
from .parameters import PREFIX, Prefix, Url, duration_ms, lasting_url

__all__ = ["check"]

_TELLING_MS = 500
"""What is left of the deadline to tell why nothing was answered before it."""


def check(
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Also ask for this queue.")] = None,
    workers: Annotated[
        int, typer.Option(min=0, metavar="COUNT", help="Fewest workers of QUEUE that must be connected.")
    ] = 0,
    probe: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Ask the probe of a worker instead of the server.")
    ] = None,
    oldest: Annotated[
        str | None, typer.Option(metavar="TIME", help="Longest that the first job in line of QUEUE may have waited.")
    ] = None,
    timeout: Annotated[str, typer.Option(metavar="TIME", help="Deadline of the whole check.")] = "5s",
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Exit with 0 if all is well and with 1 if not, within a deadline: for the health checks of containers."""
    limit_ms = duration_ms("--timeout", timeout)
    for option, value in (("--workers", workers), ("--oldest", oldest)):
        if value and queue is None:
            raise UsageError(f"{option} needs the name of a QUEUE")
    oldest_ms = None if oldest is None else duration_ms("--oldest", oldest)
    if probe is not None:
        place = parse_place(probe)
        told = _in_time(limit_ms, lambda: _ask_probe(place, limit_ms / 1000))
    else:
        named, keys = lasting_url(url), None if queue is None else Keys(queue, prefix)
        within_ms = max(1, limit_ms - min(limit_ms // 5, _TELLING_MS))
        told = _in_time(limit_ms, lambda: _ask_server(connect(named), keys, workers, oldest_ms, within_ms))
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


def _is_replica(connection: Connection, near: str | None, limit_ms: int) -> bool:
    ask = Command(parts=("INFO", "replication"), decode=replies.text, repeatable=True, near=near)
    try:
        info = connection.send(ask, deadline_ms=limit_ms)
    except ServerRefused:  # a user without the right to ask
        return False
    return "role:slave" in info


def _ask_one(connection: Connection, near: str | None, limit_ms: int) -> None:
    ping = Command(parts=("PING",), decode=replies.nothing, repeatable=True, near=near)
    connection.send(ping, deadline_ms=limit_ms)
    if _is_replica(connection, near, limit_ms):
        raise DriverError("the server is a replica, which takes no changes")


def _find_masters(connection: Connection, limit_ms: int) -> Layout | None:
    """Ask one master after the other who they are, until one tells: the first may be the one that hangs."""
    *others, last = APART
    for near in others:
        try:
            return perform(connection, find_masters(near), deadline_ms=limit_ms // len(APART))
        except DriverError:
            continue
    return perform(connection, find_masters(last), deadline_ms=limit_ms // len(APART))


def _ask_masters(connection: Connection, layout: Layout, limit_ms: int) -> str:
    if layout.unserved_count:
        raise DriverError(f"nobody serves {layout.unserved_count:,} slots of the cluster")
    for master in layout.masters:
        try:
            _ask_one(connection, master.near, limit_ms // 2)  # so that there is time to say which one is silent
        except DriverError as error:
            raise DriverError(f"master {master.where}: {error}") from error
    return f"well: {len(layout.masters)} masters of the cluster answer"


def _ask_server(connection: Connection, keys: Keys | None, workers: int, oldest_ms: int | None, limit_ms: int) -> str:
    try:
        if keys is None and connection.is_cluster:
            begun_ms = mono_ms()
            layout = _find_masters(connection, limit_ms)
            if layout is not None:
                return _ask_masters(connection, layout, max(2, limit_ms - (mono_ms() - begun_ms)))
        _ask_one(connection, None if keys is None else keys.marker, limit_ms)
        if keys is None:
            return "well: the server answers"
        is_there, is_paused = perform(
            connection, ask_all([exists(keys), queue_calls.is_paused(keys)]), deadline_ms=limit_ms
        )
        told = f"well: queue {keys.queue} can be read{', and is paused' if is_paused else ''}"
        if not is_there:
            told += "; it holds nothing yet"
        if workers:
            found = len(connection.send(get_workers(keys), deadline_ms=limit_ms))
            if found < workers:
                raise DriverError(f"{found} workers of queue {keys.queue} are connected, expected {workers}")
            told += f"; {found} workers"
        if oldest_ms is not None:
            waited_ms = perform(connection, latency(keys, wall_ms()), deadline_ms=limit_ms)
            if waited_ms > oldest_ms:
                raise DriverError(
                    f"the first job in line of queue {keys.queue} has waited for {waited_ms / 1000:.0f} s, "
                    f"expected at most {oldest_ms / 1000:g} s"
                )
            told += f"; the first in line has waited for {waited_ms / 1000:.1f} s"
        return told
    finally:
        connection.close()
