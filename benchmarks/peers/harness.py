"""What the programs of Python's other job queues share: the job, the clock, the check, the one line of results.

A program defines ``Peer`` and calls :func:`main`. It runs with that queue's own Python environment,
so only the standard library is at hand. Task and result are those of ``bullmq_node.mjs``.
"""

from __future__ import annotations

import asyncio
import collections
import inspect
import json
import os
import sys
import threading
import time
from typing import Any

TASK: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
CHECKED_WITHIN_S = 10.0


class Meter:
    """Times one run from its first job's start to its last one's end."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.runs: collections.Counter[int] = collections.Counter()
        self.late_ms: list[float] = []
        self.result: dict[str, float] = {}
        self.finished = threading.Event()
        self.ended = threading.Event()
        self._begun: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def begins(self, at: float) -> None:
        """Note that a job starts; ``at`` is when it should have."""
        if self._begun is None:
            self._begun = (time.perf_counter(), time.process_time())
        if at:
            self.late_ms.append((time.time() - at) * 1000)

    def ends(self, n: int) -> None:
        """Note that job ``n`` has run."""
        with self._lock:
            self.runs[n] += 1
            self.ended.set()
            if self.runs.total() == self.count and self._begun:
                wall, cpu = self._begun
                self.result = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
                self.finished.set()


METER = Meter(TASK.get("count", 0))


def job(n: int, at: float = 0) -> int:
    """Run one job in a thread."""
    METER.begins(at)
    if TASK["sleep_ms"]:
        time.sleep(TASK["sleep_ms"] / 1000)
    METER.ends(n)
    return n * 2


async def async_job(n: int, at: float = 0) -> int:
    """Run one job in an event loop."""
    METER.begins(at)
    if TASK["sleep_ms"]:
        await asyncio.sleep(TASK["sleep_ms"] / 1000)
    METER.ends(n)
    return n * 2


def main(peer: Any) -> None:
    """Do the task with a peer and leave.

    Args:
        peer: Has ``open()``, ``add(n, at, delay_s)``, ``results()`` (values stored), ``work(concurrency)``, which
            need not return, and perhaps ``add_bulk(numbers)``; all coroutines, or none.
    """
    (asyncio.run(_run_async(peer)) if inspect.iscoroutinefunction(peer.open) else _run_blocking(peer))


def leave(result: dict[str, Any]) -> None:
    """Print the result and end at once: how long a peer takes to close is not measured."""
    line = "\n" + json.dumps({"latencies_ms": [], "count": TASK["count"], **result}) + "\n"
    sys.stdout.flush()
    while line:
        line = line[os.write(1, line.encode()) :]
    os._exit(0)


def _fault(values: list[Any]) -> dict[str, str]:
    """Say what was wrong with a run: each job once, with the right result stored."""
    doubled = sorted(n * 2 for n in range(TASK["count"]))
    if sorted(values) == doubled and set(METER.runs.values()) == {1}:
        return {}
    twice = sum(count > 1 for count in METER.runs.values())
    return {"wrong": f"{len(values)} results for {TASK['count']} jobs, {twice} ran more than once"}


def _due() -> float:
    """When delayed jobs are due: when all will have been added, slow peers too."""
    return float(int(time.time()) + 3 + TASK["count"] // 800)


async def all_of(read: Any, keys: list[str]) -> list[Any]:
    """Read what was stored under each key, some at a time; absent values are left out."""
    found: list[Any] = []
    for start in range(0, len(keys), 50):
        found += await asyncio.gather(*(read(key) for key in keys[start : start + 50]))
    return [value for value in found if value is not None]


async def _run_async(peer: Any) -> None:
    await peer.open()
    mode, count = TASK["mode"], TASK["count"]
    if mode in ("add", "bulk"):
        leave(await _time_adds(peer, mode, count))
    due = _due() if mode == "delayed" else 0.0
    if mode != "latency":
        await _fill(peer, count, due)
    working = asyncio.ensure_future(peer.work(TASK["concurrency"]))
    if mode == "latency":
        await asyncio.sleep(1)
        for n in range(count):
            METER.ended.clear()
            await peer.add(n, time.time(), 0)
            while not METER.ended.is_set():
                await asyncio.sleep(0.002)
    while not METER.finished.is_set():
        if working.done():
            working.result()
        await asyncio.sleep(0.01)
    deadline = time.monotonic() + CHECKED_WITHIN_S
    while len(values := await peer.results()) < count and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    leave({**METER.result, "latencies_ms": METER.late_ms, **_fault(values)})


async def _fill(peer: Any, count: int, due: float) -> None:
    numbers = iter(range(count))

    async def lane() -> None:
        for n in numbers:
            await peer.add(n, due, due - time.time() if due else 0)

    await asyncio.gather(*(lane() for _ in range(50)))


async def _time_adds(peer: Any, mode: str, count: int) -> dict[str, Any]:
    await peer.add(-1, 0, 0)
    latencies: list[float] = []
    numbers = iter(range(count))

    async def lane() -> None:
        for n in numbers:
            begun = time.perf_counter()
            await peer.add(n, 0, 0)
            latencies.append((time.perf_counter() - begun) * 1000)

    wall, cpu = time.perf_counter(), time.process_time()
    if mode == "bulk":
        for start in range(0, count, 1000):
            await peer.add_bulk(range(start, min(start + 1000, count)))
    else:
        await asyncio.gather(*(lane() for _ in range(TASK["concurrency"])))
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "latencies_ms": latencies,
    }


def _run_blocking(peer: Any) -> None:
    peer.open()
    mode, count = TASK["mode"], TASK["count"]
    if mode in ("add", "bulk"):
        leave(_time_blocking_adds(peer, mode, count))
    due = _due() if mode == "delayed" else 0.0
    if mode != "latency":
        for n in range(count):
            peer.add(n, due, due - time.time() if due else 0)
    threading.Thread(target=_watch, args=(peer, mode, count), daemon=True).start()
    peer.work(TASK["concurrency"])  # in the main thread, where workers may handle signals
    threading.Event().wait()


def _watch(peer: Any, mode: str, count: int) -> None:
    if mode == "latency":
        time.sleep(1)
        for n in range(count):
            METER.ended.clear()
            peer.add(n, time.time(), 0)
            METER.ended.wait()
            time.sleep(0.002)
    METER.finished.wait()
    deadline = time.monotonic() + CHECKED_WITHIN_S
    while len(values := peer.results()) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    leave({**METER.result, "latencies_ms": METER.late_ms, **_fault(values)})


def _time_blocking_adds(peer: Any, mode: str, count: int) -> dict[str, Any]:
    peer.add(-1, 0, 0)
    latencies: list[float] = []
    wall, cpu = time.perf_counter(), time.process_time()
    if mode == "bulk":
        for start in range(0, count, 1000):
            peer.add_bulk(range(start, min(start + 1000, count)))
    else:
        for n in range(count):
            begun = time.perf_counter()
            peer.add(n, 0, 0)
            latencies.append((time.perf_counter() - begun) * 1000)
    return {
        "seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - cpu,
        "latencies_ms": latencies,
    }
