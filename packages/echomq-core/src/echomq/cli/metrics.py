"""``echomq metrics``."""

import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import typer

from echomq import prometheus, watching
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import EchoMQError, ServerRefused, UsageError
from echomq.gauging import gauges
from echomq.keys import Keys
from echomq.serving import Answer, TextServer, parse_place
from echomq.sync.run import perform

from .connecting import connected
from .opening import all_queues, named_or_all
from .parameters import PREFIX, Prefix, Url

__all__ = ["metrics"]

_PATIENCE_MS = 5_000
"""Longest wait for the server: scrapers give up after ten seconds."""


def metrics(
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUEUE]...", help="Names of queues; none: all of the prefix, looked for each time."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Answer /metrics there, until Ctrl-C or SIGTERM.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="One more label of each line; repeatable.")
    ] = None,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Tell the numbers of each QUEUE in the text format of Prometheus: once, or to whoever scrapes."""
    extra = prometheus.checked_labels(_labels(label or []))
    place = None if listen is None else parse_place(listen)
    with connected(url) as connection:

        def told() -> str:
            # A queue comes into being with its first job, which may be long after who serves its numbers.
            named = [Keys(queue, prefix) for queue in queues or ()]
            return _told(connection, named or all_queues(connection, prefix), extra)

        if place is None:
            named_or_all(connection, queues, prefix)
            print(told())
        else:
            _serve(place, told)


def _labels(given: Sequence[str]) -> Mapping[str, str]:
    for one in given:
        if "=" not in one:
            raise UsageError(f"--label: expected NAME=VALUE, not {one!r}")
    return dict(one.split("=", 1) for one in given)


def _told(connection: Connection, queues: Sequence[Keys], extra: str) -> str:
    found = perform(connection, gauges(queues, wall_ms()), deadline_ms=_PATIENCE_MS) if queues else []
    return prometheus.told(found, extra, _workers(connection, queues))


def _workers(connection: Connection, queues: Sequence[Keys]) -> dict[Keys, int] | None:
    """Count the workers of each queue; those that are gone are not connected. None: the server does not tell."""
    try:
        return {keys: len(perform(connection, watching.workers(keys), deadline_ms=_PATIENCE_MS)) for keys in queues}
    except ServerRefused:
        return None


def _serve(place: tuple[str, int], told: Callable[[], str]) -> None:
    asked = threading.Lock()  # one connection, one question

    def answer(path: str) -> Answer | None:
        if path != "/metrics":
            return None
        try:
            with asked:
                return Answer(f"{told()}\n", kind=prometheus.CONTENT_TYPE)
        except EchoMQError as error:
            return Answer(f"{' '.join(str(error).split())}\n", 503)

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with TextServer(place, answer, "/metrics") as server:
        print(f"http://{place[0]}:{server.port}/metrics; Ctrl-C ends it", file=sys.stderr, flush=True)
        while not ended.wait(1):  # on Windows, Ctrl-C interrupts no longer wait
            pass
