"""Where a worker's and a producer's microseconds go: ``python benchmarks/where.py [--write]``.

A drain at concurrency 50 and adds with 50 in flight are run under a sampling
profiler. Each sample counts for the innermost function of EchoMQ on its stack;
what the standard library or the driver does on behalf of that function counts
for it, but the event loop, the socket and the user's own code are shown apart.
Shares are turned into microseconds by the client CPU of the same work, measured
without the profiler.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contenders import last_line
from private_server import PrivateServer, private_server
from report import write_part
from scenarios import fill

PROGRAM = Path(__file__).parent / "peers" / "echomq_peer.py"
COUNT = 60_000
SHOWN = 16
FRAME = re.compile(r"(?P<function>.+) \((?P<file>.+?)(?::\d+)?\)$")
GROUPS = {
    "echomq_peer.py": "the user's function and listener",
    "selectors.py": "event loop: waiting and waking",
    "asyncio/": "event loop: running callbacks and tasks",
}


def _task(server: PrivateServer, mode: str) -> dict[str, Any]:
    task = {"mode": mode, "count": COUNT, "concurrency": 50, "sleep_ms": 0, "queue": "bench"}
    return task | {"port": server.port, "url": server.url}


def _prepare(server: PrivateServer, mode: str) -> None:
    server.client.flushall()
    if mode == "work":
        asyncio.run(fill(server.url, COUNT))


def _used_us(server: PrivateServer, mode: str) -> float:
    _prepare(server, mode)
    given = [sys.executable, str(PROGRAM), json.dumps(_task(server, mode))]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    return float(last_line(done.stdout)["cpu_seconds"]) / COUNT * 1e6


def _samples(server: PrivateServer, mode: str) -> collections.Counter[str]:
    _prepare(server, mode)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "stacks"
        spy = ["py-spy", "record", "--format", "raw", "--rate", "400", "--output", str(file), "--"]
        given = [*spy, sys.executable, str(PROGRAM), json.dumps(_task(server, mode))]
        subprocess.run(given, capture_output=True, check=True)
        counted: collections.Counter[str] = collections.Counter()
        for line in file.read_text("utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            if "renewal.py" in stack:  # its thread waits for the next renewal, which the profiler takes for work
                continue
            counted[_owner(stack.split(";"))] += int(count)
    return counted


def _owner(stack: list[str]) -> str:
    """Name what a sample counts for, from the innermost frame outwards."""
    if any("importlib" in frame or "<module>" in frame for frame in stack[1:]):
        return "starting and ending"
    for frame in reversed(stack):
        found = FRAME.match(frame)
        file = found["file"] if found else ""
        if "echomq/" in file and "echomq_peer" not in file:
            return f"`{file.partition('echomq/')[2].removesuffix('.py').replace('/', '.')}`"
        for part, group in GROUPS.items():
            if part in file and (part != "asyncio/" or frame is stack[-1]):
                return group
    return "starting and ending"


def _table(title: str, counted: collections.Counter[str], used_us: float) -> str:
    counted.pop("starting and ending", None)
    total = counted.total()
    lines = [f"### {title}: {used_us:.1f} us", "", "| part | us per job | share |", "|---|---|---|"]
    for name, count in counted.most_common(SHOWN):
        lines.append(f"| {name} | {count / total * used_us:.2f} | {count / total:.0%} |")
    rest = total - sum(count for _, count in counted.most_common(SHOWN))
    lines.append(f"| all else | {rest / total * used_us:.2f} | {rest / total:.0%} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Profile and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/performance.md")
    options = parser.parse_args()
    parts = []
    with private_server("redis") as server:
        for mode, title in {"work": "A no-op job, concurrency 50", "add": "An add, 50 in flight"}.items():
            used = _used_us(server, mode)
            parts.append(_table(title, _samples(server, mode), used))
    text = "\n".join(parts)
    print(text)
    if options.write:
        write_part("benchmarks/where.py", text)


if __name__ == "__main__":
    main()
