"""Queues spread over the masters of a cluster: ``python benchmarks/cluster.py [--write]``.

A cluster of three masters and three replicas runs on this machine. Twelve queues
are filled with no-op jobs and drained by one group of workers, first with all
queues on one master, then on two, then on three. Where cores are few the rate
cannot grow with the masters; what shows that it would are the server's CPU per
job, which must not grow, and how evenly the masters share it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from report import spread, write_part

import echomq
from support.clusters import Cluster, ask, start_cluster

QUEUES = 12
JOBS = 2_000
"""In each queue."""


def names_on(cluster: Cluster, count: int) -> list[str]:
    """Find names of queues, as many on each of the first ``count`` masters."""
    masters = cluster.masters()[:count]
    names: list[str] = []
    for master in masters:
        candidates = (f"{{work-{number}}}" for number in itertools.count())
        owned = (name for name in candidates if cluster.master(name) is master)
        names += itertools.islice(owned, QUEUES // count)
    return names


def cpu_s(cluster: Cluster) -> list[float]:
    """Seconds of processor that each master has used."""
    used = []
    for master in cluster.masters():
        figures = ask(master, "INFO", "cpu")
        used.append(float(figures["used_cpu_sys"]) + float(figures["used_cpu_user"]))
    return used


async def drain(url: str, names: list[str]) -> float:
    """Fill all queues, run them empty, and return the seconds that took."""
    done = 0
    finished = asyncio.get_running_loop().create_future()

    async def process(job: echomq.Job) -> int:
        nonlocal done
        done += 1
        if done == len(names) * JOBS:
            finished.set_result(time.perf_counter())
        return int(job.data["n"]) * 2

    for name in names:
        async with echomq.Queue(name, url) as queue:
            await queue.add_bulk([("job", {"n": n}) for n in range(JOBS)])
    group = echomq.WorkerGroup(dict.fromkeys(names, process), url, concurrency=100)
    begun = time.perf_counter()
    running = asyncio.ensure_future(group.run())
    seconds = await finished - begun
    await group.close()
    await running
    return float(seconds)


async def check(url: str, names: list[str]) -> None:
    """Raise unless each queue has each job done once."""
    for name in names:
        async with echomq.Queue(name, url) as queue:
            counts = await queue.get_job_counts("completed", "waiting", "active")
            assert sum(counts.values()) == counts[echomq.JobState.COMPLETED] == JOBS, (name, counts)


def main() -> None:
    """Measure with one, two and three masters, in turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the table into docs/performance.md")
    options = parser.parse_args()
    cluster = start_cluster("redis", "--save", "", "--appendonly", "no")
    rows: dict[int, list[tuple[float, float, float]]] = {1: [], 2: [], 3: []}
    try:
        for _, count in itertools.product(range(options.rounds), rows):
            cluster.flush()
            names = names_on(cluster, count)
            before = cpu_s(cluster)
            seconds = asyncio.run(drain(cluster.url(), names))
            used = [after - early for after, early in zip(cpu_s(cluster), before, strict=True)][:count]
            asyncio.run(check(cluster.url(), names))
            total = QUEUES * JOBS
            rows[count].append((total / seconds, sum(used) / total * 1e6, max(used) / statistics.mean(used)))
    finally:
        cluster.close()
    lines = [
        f"{QUEUES} queues of {JOBS:,} no-op jobs, one group of workers, concurrency 100; {options.rounds} rounds.",
        "Filling and replication are part of the server's CPU.",
        "",
        "| masters with queues | jobs/s | server us/job, all masters | busiest master against the mean |",
        "|---|---|---|---|",
    ]
    for count, measured in rows.items():
        lines.append(f"| {count} | {' | '.join(spread(list(column)) for column in zip(*measured, strict=True))} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        write_part("benchmarks/cluster.py", text)


if __name__ == "__main__":
    main()
