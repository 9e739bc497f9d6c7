"""What an add costs the client, and what it costs at least: ``python benchmarks/adding.py [--write]``.

The floor is what asyncio itself takes for an add with 50 in flight, whatever a
queue does: a task waits for a future, and goes on when that is resolved. All
cases are run in turns, in one process on each event loop; a figure is the
client's CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import uvloop
from peers.echomq_peer import leave_plugins_out
from private_server import private_server
from report import spread, write_part

import echomq
from echomq import Queue, add

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

IN_FLIGHT = 50
COUNT = 1_000
ROUNDS = 15

Add: TypeAlias = "Callable[[int], Awaitable[Any]]"


class Floor:
    """Futures that are resolved together in the next turn of the loop."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: list[asyncio.Future[int]] = []

    def add(self, _: int) -> asyncio.Future[int]:
        """Give a future to wait for."""
        if not self.waiting:
            self.loop.call_soon(self.resolve)
        self.waiting.append(self.loop.create_future())
        return self.waiting[-1]

    def resolve(self) -> None:
        """Resolve all that have been given."""
        waiting, self.waiting = self.waiting, []
        for future in waiting:
            future.set_result(0)


def cases(queue: Queue, link: Any) -> dict[str, Add]:
    """Return the ways to add, by name."""
    return {
        "a future and a task's turn: the floor": Floor().add,
        "`queue.add(name, {one field})`": lambda n: queue.add("job", {"n": n}),
        "nested data": lambda n: queue.add("job", {"user": {"id": n, "name": "ada"}, "rows": [1, 2, 3]}),
        "`attempts` and `backoff`": lambda n: queue.add("job", {"n": n}, attempts=3, backoff=1_000),
        "a `job_id` of its own": lambda n: queue.add("job", {"n": n}, job_id=f"{time.monotonic_ns()}-{n}"),
        "`echomq.add` on an open connection": lambda n: add("bench", "job", {"n": n}, connection=link),
    }


async def burst(way: Add) -> float:
    """Add so many with so many in flight, and return the microseconds of CPU for each."""
    numbers = iter(range(COUNT))

    async def lane() -> None:
        for number in numbers:
            await way(number)

    begun = time.process_time()
    await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
    return (time.process_time() - begun) / COUNT * 1e6


async def measure(url: str) -> None:
    """Print the figures of all cases in this event loop, a line for each."""
    link = echomq.connect(url)
    async with Queue("bench", link) as queue:
        await queue.add("warm-up")
        ways = cases(queue, link)
        figures: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                figures[name].append(await burst(way))
            await queue.obliterate(force=True)
    await link.close()
    print(json.dumps(figures))


def main() -> None:
    """Measure in both event loops and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    parser.add_argument("--measure", nargs=2, metavar=("LOOP", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        leave_plugins_out()
        loop, url = options.measure
        (uvloop.run if loop == "uvloop" else asyncio.run)(measure(url))
        return
    measured: dict[str, dict[str, list[float]]] = {}
    with private_server("redis") as server:
        for loop in ("asyncio", "uvloop"):
            given = [sys.executable, __file__, "--measure", loop, server.url]
            done = subprocess.run(given, capture_output=True, text=True, check=True)
            measured[loop] = json.loads(done.stdout)
    lines = [f"Client CPU of an add, us; {IN_FLIGHT} in flight, {ROUNDS} rounds of {COUNT:,}.\n"]
    lines += [f"| an add | {' | '.join(measured)} |", "|---|---|---|"]
    for name in measured["asyncio"]:
        lines.append(f"| {name} | {' | '.join(spread(figures[name]) for figures in measured.values())} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        write_part("benchmarks/adding.py", text)


if __name__ == "__main__":
    main()
