"""What each operation costs the server as the queue grows: ``python benchmarks/growth.py [--write]``.

A queue is filled with as many waiting, delayed and prioritized jobs; then each
operation is done some times in turn, at random places. The figure is the
server's processor time per operation, its system calls included.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import tracemalloc
from collections.abc import Callable

from private_server import PrivateServer, private_server
from report import write_part

from echomq.errors import JobNotFound, JobNotInState
from echomq.sync import Queue

SIZES = (1_000, 10_000, 100_000, 1_000_000)
TIMES = 40
DAY_MS = 24 * 60 * 60 * 1000

Operation = Callable[[Queue, int, random.Random], object]


def _any_id(size: int, dice: random.Random, kind: int) -> str:
    """Name a job of a kind (0 waiting, 1 delayed, 2 prioritized), which were added in that order."""
    return str(kind * size + dice.randrange(size) + 1)


OPERATIONS: dict[str, Operation] = {
    "add": lambda queue, _size, _dice: queue.add("job", {"n": 1}),
    "add delayed": lambda queue, _size, dice: queue.add("job", {"n": 1}, delay=DAY_MS + dice.randrange(DAY_MS)),
    "add with priority": lambda queue, _size, dice: queue.add("job", {"n": 1}, priority=dice.randrange(1, 100)),
    "get a job": lambda queue, size, dice: queue.get_job(_any_id(size, dice, 0)),
    "state of a waiting job (searches the list)": lambda queue, size, dice: queue.get_job_state(_any_id(size, dice, 0)),
    "state of a delayed job": lambda queue, size, dice: queue.get_job_state(_any_id(size, dice, 1)),
    "count by state": lambda queue, _size, _dice: queue.get_job_counts(),
    "page of 100 jobs from the middle": lambda queue, size, _dice: queue.get_jobs(
        "waiting", start=size // 2, end=size // 2 + 99
    ),
    "promote a delayed job": lambda queue, size, dice: queue.promote(_any_id(size, dice, 1)),
    "change the delay": lambda queue, size, dice: queue.change_delay(_any_id(size, dice, 1), DAY_MS),
    "change the priority": lambda queue, size, dice: queue.change_priority(_any_id(size, dice, 2), priority=7),
    "remove a delayed job": lambda queue, size, dice: queue.remove(_any_id(size, dice, 1)),
    "remove a job with priority": lambda queue, size, dice: queue.remove(_any_id(size, dice, 2)),
    "remove a waiting job (searches the list)": lambda queue, size, dice: queue.remove(_any_id(size, dice, 0)),
    "pause and resume": lambda queue, _size, _dice: (queue.pause(), queue.resume()),
}


def _fill(queue: Queue, size: int) -> None:
    for options in ({}, {"delay": DAY_MS}, {"priority": 5}):
        for start in range(0, size, 1000):
            queue.add_bulk([("job", {"n": n}, dict(options)) for n in range(start, min(start + 1000, size))])


def _measure(server: PrivateServer, operation: Operation, size: int) -> float:
    dice = random.Random(size)
    with Queue("growth", server.url) as queue:
        for _ in range(3):
            _once(operation, queue, size, dice)  # the first call brings its script
        before = server.cpu_s()
        for _ in range(TIMES):
            _once(operation, queue, size, dice)
        return (server.cpu_s() - before) / TIMES * 1e6


def _once(operation: Operation, queue: Queue, size: int, dice: random.Random) -> None:
    # An earlier turn may have removed or moved this one.
    with contextlib.suppress(JobNotFound, JobNotInState):
        operation(queue, size, dice)


def _client_mib(size: int) -> float:
    """Memory a client allocates at most while it looks through a page, counts, adds and takes a job."""
    with private_server("redis") as server, Queue("growth", server.url) as queue:
        _fill(queue, size)
        tracemalloc.start()
        queue.get_job_counts()
        queue.get_jobs("waiting", start=size // 2, end=size // 2 + 99)
        queue.add("job", {"n": 1})
        for _, _job in zip(range(1_000), queue.iter_jobs("waiting"), strict=False):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak / 1024 / 1024


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    sizes = [size for size in SIZES if size <= options.largest]
    columns: dict[int, dict[str, float]] = {}
    for size in sizes:
        with private_server("redis") as server:
            with Queue("growth", server.url) as queue:
                _fill(queue, size)
            columns[size] = {name: _measure(server, operation, size) for name, operation in OPERATIONS.items()}
    lines = [
        f"| server CPU, us per operation | {' | '.join(f'{size:,}' for size in sizes)} |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    lines += [f"| {name} | {' | '.join(f'{columns[size][name]:,.0f}' for size in sizes)} |" for name in OPERATIONS]
    memory = " | ".join(f"{_client_mib(size):.1f}" for size in sizes)
    lines.append(f"| highest memory of a client that looks through it, MiB | {memory} |")
    text = (
        f"Sizes: so many jobs wait, are delayed, and have a priority. {TIMES} operations each.\n\n"
        + "\n".join(lines)
        + "\n"
    )
    print(text)
    if options.write:
        write_part("benchmarks/growth.py", text)


if __name__ == "__main__":
    main()
