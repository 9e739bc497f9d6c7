"""Searches in several processes at a time, each with seeds and a server of its own."""

import contextlib
import itertools
import logging
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing import get_context
from multiprocessing.synchronize import Event

from support.servers import Server, ServerProcess, Servers

from .search import Search, search
from .server import Wire

__all__ = ["address_of", "search_together"]

_over: Event | None = None
"""Set when one of the crew has found something."""


def address_of(server: Server) -> str | tuple[str, int]:
    """Return the shortest way to a server."""
    engine = server.engine
    return str(engine.socket_path) if isinstance(engine, ServerProcess) else (server.host, server.port)


def search_together(name: str, first: int, seconds: float, processes: int) -> Search:
    """Simulate fresh seeds in several processes until one goes wrong or time is up.

    Args:
        name: Which server each of them starts.
        first: The lowest seed.
        seconds: How long.
        processes: How many.
    """
    context = get_context("spawn")
    over = context.Event()
    with ProcessPoolExecutor(processes, context, _join, (over,)) as pool:
        running = {
            pool.submit(_search_alone, name, itertools.count(first + number, processes), seconds)
            for number in range(processes)
        }
        done, running = wait(running, return_when=FIRST_COMPLETED)
        over.set()
        done |= wait(running).done
    searches = [each.result() for each in done]
    found = sorted(each.seed for each in searches if each.seed is not None)
    return Search(sum(each.count for each in searches), next(iter(found), None))


def _join(over: Event) -> None:
    global _over  # an event goes to another process in no other way
    _over = over
    logging.getLogger("echomq.worker").setLevel(logging.CRITICAL)


def _search_alone(name: str, seeds: "itertools.count[int]", seconds: float) -> Search:
    assert _over is not None
    with contextlib.closing(Servers()) as servers, contextlib.closing(Wire(address_of(servers.shared(name)))) as wire:
        return search(wire, seeds, seconds, _over.is_set)
