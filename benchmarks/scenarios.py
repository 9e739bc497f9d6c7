"""What is measured, and whom with: figures of one run of one contender."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import time
from typing import TYPE_CHECKING, Any

import attrs
from ceiling import ceiling_of
from contenders import CONTENDERS, NODE_FOLDER, command_of, last_line

import echomq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from private_server import PrivateServer

__all__ = ["SCENARIOS", "Run", "Scenario", "fill", "measure"]

PROTOCOL = ("echomq", "echomq_valkey", "bullmq_node", "bullmq_python")
LOOPS = ("echomq_uvloop",)
ASYNC = ("arq", "saq", "taskiq", "streaq")
THREADS = ("dramatiq", "celery", "huey")
EVERYONE = (*LOOPS, *PROTOCOL, *ASYNC, *THREADS)
RUN_WITHIN_S = 120
MILLION_WITHIN_S = 900
DELAYED_IN_S = 4.0
FILLED_FOR = "benchmark:filled-for"
"""Key that names the scenario whose backlog the server holds."""

Run = dict[str, Any]
"""Figures of one run; what a scenario does not measure is absent."""


@attrs.frozen(kw_only=True)
class Scenario:
    """One row of work.

    Attributes:
        title: As the page shows it.
        mode: What the programs are told to do.
        who: Names of contenders.
        count: Jobs for a contender of size 1.
        most_rounds: Rounds are cut to this where one takes long.
        shown: Figures the table shows.
    """

    title: str
    mode: str
    who: tuple[str, ...]
    count: int
    concurrency: int = 1
    sleep_ms: int = 0
    processes: int = 1
    backlog: int = 0
    priorities: bool = False
    least: int = 500
    most_rounds: int = 99
    shown: tuple[str, ...] = ("rate", "ratio", "client_us", "server_us")


_LATE = ("p50_ms", "p99_ms", "ratio")
_ADD = ("rate", "ratio", "client_us", "server_us", "p50_ms", "p99_ms")
_BOTH = ("echomq", "bullmq_node")

SCENARIOS = {
    "add-1": Scenario(
        title="add, one at a time", mode="add", who=(*EVERYONE, "rq"), count=4_000, least=1_000, shown=_ADD
    ),
    "add-50": Scenario(
        title="add, 50 in flight", mode="add", who=(*LOOPS, *PROTOCOL, *ASYNC), count=20_000, concurrency=50, shown=_ADD
    ),
    "bulk": Scenario(
        title="add in bulks of 1,000", mode="bulk", who=(*LOOPS, *PROTOCOL, "streaq", "rq"), count=40_000, least=2_000
    ),
    "drain-1": Scenario(title="no-op jobs, concurrency 1", mode="work", who=(*EVERYONE, "rq"), count=5_000, least=300),
    "drain-10": Scenario(title="no-op jobs, concurrency 10", mode="work", who=EVERYONE, count=20_000, concurrency=10),
    "drain-50": Scenario(title="no-op jobs, concurrency 50", mode="work", who=EVERYONE, count=20_000, concurrency=50),
    "drain-200": Scenario(
        title="no-op jobs, concurrency 200", mode="work", who=(*LOOPS, *PROTOCOL, *ASYNC), count=20_000, concurrency=200
    ),
    "sleep": Scenario(
        title="jobs of 5 ms, concurrency 100", mode="work", who=EVERYONE, count=20_000, concurrency=100, sleep_ms=5
    ),
    "processes-2": Scenario(
        title="no-op jobs, 2 processes of 50", mode="serve", who=PROTOCOL, count=30_000, concurrency=50, processes=2
    ),
    "processes-4": Scenario(
        title="no-op jobs, 4 processes of 50", mode="serve", who=PROTOCOL, count=30_000, concurrency=50, processes=4
    ),
    "latency": Scenario(
        title="idle worker: from add to start",
        mode="latency",
        who=(*PROTOCOL, "saq", "taskiq", "streaq", *THREADS, "rq"),
        count=200,
        least=50,
        shown=_LATE,
    ),
    "delayed": Scenario(
        title="10,000 delayed jobs due at once: lateness",
        mode="delayed",
        who=PROTOCOL[:3],
        count=10_000,
        concurrency=50,
        shown=_LATE,
    ),
    "flow": Scenario(
        title="a flow of 1,000 children: added and done",
        mode="flow",
        who=PROTOCOL,
        count=1_000,
        concurrency=50,
        least=1_000,
    ),
    "schedulers": Scenario(
        title="1,000 schedulers, each every second: lateness",
        mode="watch",
        who=PROTOCOL[:3],
        count=1_000,
        concurrency=50,
        most_rounds=2,
        shown=("rate", "p50_ms", "p99_ms", "client_us", "server_us"),
    ),
    **{
        f"backlog-{name}{'-priorities' if priorities else ''}": Scenario(
            title=f"no-op jobs, concurrency 50, {size:,} waiting{', with priorities' if priorities else ''}",
            mode="work",
            who=_BOTH,
            count=min(size, 10_000),
            concurrency=50,
            backlog=size,
            priorities=priorities,
            most_rounds=3,
            shown=("rate", "ratio", "client_us", "server_us", "bytes_waiting"),
        )
        for name, size in {"1k": 1_000, "100k": 100_000, "1m": 1_000_000}.items()
        for priorities in (False, True)
    },
    "memory": Scenario(
        title="memory of a worker over a million jobs",
        mode="work",
        who=_BOTH,
        count=1_000_000,
        concurrency=50,
        most_rounds=1,
        shown=("rate", "rss_10k", "rss_100k", "rss_1m"),
    ),
    "ceiling-drain": Scenario(
        title="what the server can do: the recorded calls of a drain, played back",
        mode="ceiling-work",
        who=("echomq", "echomq_valkey"),
        count=20_000,
        concurrency=50,
        shown=("rate", "server_us"),
    ),
    "ceiling-add": Scenario(
        title="what the server can do: the recorded calls of adding, played back",
        mode="ceiling-add",
        who=("echomq", "echomq_valkey"),
        count=20_000,
        concurrency=50,
        shown=("rate", "server_us"),
    ),
}


def measure(scenario: Scenario, name: str, server: PrivateServer) -> Run | None:
    """Let one contender do one scenario once.

    Returns:
        Its figures; with ``wrong`` where not every job was done once with the right result; None if it
        cannot be had on this machine.
    """
    command = command_of(name)
    if command is None:
        return None
    contender = CONTENDERS[name]
    count = max(min(scenario.least, scenario.count), int(scenario.count * contender.size))
    if name == "arq" and scenario.concurrency == 1 and scenario.mode == "work":
        count = 20  # it looks for jobs twice a second, and then takes as many as it may run at once
    mode = scenario.mode
    task = {"mode": mode, "count": count, "concurrency": scenario.concurrency, "sleep_ms": scenario.sleep_ms}
    task |= {
        "queue": "bench",
        "port": server.port,
        "url": server.url,
        "node_folder": str(NODE_FOLDER),
        "loop": contender.loop,
    }
    if mode.startswith("ceiling"):
        return ceiling_of(server, task, fill)
    if not contender.shares_keys:
        server.client.flushall()
        return _figures(*_timed(command, task, server))
    return _protocol_run(scenario, command, task, server)


def _protocol_run(scenario: Scenario, command: list[str], task: dict[str, Any], server: PrivateServer) -> Run:
    bytes_waiting = _prepare(scenario, task, server)
    if task["mode"] == "serve":
        return _several(scenario, command, task, server)
    if task["mode"] == "delayed":
        task = {**task, "mode": "work"}
    if task["mode"] == "watch":
        task = {**task, "seconds": 8}
    if scenario.count >= 1_000_000:
        task = {**task, "marks": [10_000, 100_000, 1_000_000]}
    result, used = _timed(command, task, server)
    if task["mode"] in ("work", "add", "bulk"):
        result |= _check(server, task)
    run = _figures(result, used)
    run |= {f"rss_{name}": result["rss_kib"][str(n)] / 1024 for n, name in _MARKS.items() if result.get("rss_kib")}
    return run | ({"bytes_waiting": bytes_waiting} if bytes_waiting else {})


_MARKS = {10_000: "10k", 100_000: "100k", 1_000_000: "1m"}


def _prepare(scenario: Scenario, task: dict[str, Any], server: PrivateServer) -> float | None:
    """Fill the queue as the scenario asks; the same way for all that speak the protocol."""
    if scenario.backlog > 2 * task["count"] and server.client.get(FILLED_FOR) == scenario.title.encode():
        _forget_finished(server)  # the backlog of the run before is still large
        return None
    server.client.flushall()
    before = server.memory()
    if scenario.mode in ("work", "delayed", "serve"):
        due = time.time() + DELAYED_IN_S if scenario.mode == "delayed" else 0.0
        total = scenario.backlog or task["count"]
        asyncio.run(fill(server.url, total, due=due, priorities=scenario.priorities, paused=scenario.mode == "serve"))
        server.client.set(FILLED_FOR, scenario.title)
        return (server.memory() - before) / total if scenario.backlog else None
    if scenario.mode == "watch":
        asyncio.run(_schedule(server.url, task["count"]))
    return None


def _forget_finished(server: PrivateServer) -> None:
    async def clean() -> None:
        async with echomq.Queue("bench", server.url) as queue:
            await queue.clean(state="completed")

    asyncio.run(clean())


async def fill(url: str, count: int, *, due: float = 0, priorities: bool = False, paused: bool = False) -> None:
    """Put the jobs of a drain into the queue; the same for all that speak the protocol."""
    async with echomq.Queue("bench", url) as queue:
        if paused:
            await queue.pause()
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            options: list[dict[str, Any]] = [{} for _ in numbers]
            if due:
                options = [{"delay": max(1, int((due - time.time()) * 1000))} for _ in numbers]
            elif priorities:
                options = [{"priority": n % 100 + 1} for n in numbers]
            data = [{"n": n, "at": due * 1000} if due else {"n": n} for n in numbers]
            await queue.add_bulk([("job", item, given) for item, given in zip(data, options, strict=True)])


async def _schedule(url: str, count: int) -> None:
    async with echomq.Queue("bench", url) as queue:
        for n in range(count):
            await queue.upsert_job_scheduler(f"tick-{n}", every=1000, data={"n": n})


def _timed(command: list[str], task: dict[str, Any], server: PrivateServer) -> tuple[Run, float]:
    before = server.cpu_s()
    given = [*command, json.dumps(task)]
    within_s = MILLION_WITHIN_S if task["count"] >= 1_000_000 else RUN_WITHIN_S
    try:
        done = subprocess.run(given, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired:
        lost = {"wrong": f"not done within {within_s} s", "seconds": 0, "cpu_seconds": 0, "latencies_ms": []}
        return {"count": task["count"], **lost}, 0
    if done.returncode:
        raise SystemExit(f"{command[-1]} failed with {done.returncode}:\n{done.stderr}")
    return last_line(done.stdout), server.cpu_s() - before


def _figures(result: Run, server_s: float) -> Run:
    count = result.get("done", result["count"]) or 1
    if not result["seconds"]:
        return {"count": count, "wrong": result["wrong"]}
    run: Run = {
        "count": count,
        "rate": count / result["seconds"],
        "client_us": result["cpu_seconds"] / count * 1e6,
        "server_us": server_s / count * 1e6,
    }
    if len(result["latencies_ms"]) > 1:
        cuts = statistics.quantiles(result["latencies_ms"], n=100)
        run |= {"p50_ms": cuts[49], "p99_ms": cuts[98]}
    return run | ({"wrong": result["wrong"]} if "wrong" in result else {})


def _several(scenario: Scenario, command: list[str], task: dict[str, Any], server: PrivateServer) -> Run:
    """Drain with several processes at once; the clock runs from the queue's resume to its last job's end."""
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(_worker([*command, json.dumps(task)])) for _ in range(scenario.processes)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        used, begun = server.cpu_s(), time.perf_counter()
        asyncio.run(_resume(server.url))
        while server.client.zcard("bull:bench:completed") < task["count"]:  # type: ignore[operator]  # as above
            time.sleep(0.01)
        seconds, used = time.perf_counter() - begun, server.cpu_s() - used
        results = [last_line(worker.communicate("stop\n", timeout=60)[0]) for worker in workers]
    result = {"count": task["count"], "seconds": seconds, "latencies_ms": []}
    result["cpu_seconds"] = sum(item["cpu_seconds"] for item in results)
    return _figures(result | _check(server, {**task, "mode": "work"}), used)


@contextlib.contextmanager
def _worker(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _resume(url: str) -> None:
    async with echomq.Queue("bench", url) as queue:
        await queue.resume()


def _check(server: PrivateServer, task: dict[str, Any]) -> dict[str, str]:
    """Say what is wrong with what the contender left behind: each job once, with the right data or result."""
    client: Any = server.client
    worked = task["mode"] == "work"
    ids = client.zrange("bull:bench:completed", 0, -1) if worked else client.lrange("bull:bench:wait", 0, -1)
    numbers = []
    for start in range(0, len(ids), 10_000):
        pipe = client.pipeline(transaction=False)
        for job_id in ids[start : start + 10_000]:
            pipe.hmget(f"bull:bench:{job_id.decode()}", "data", "returnvalue")
        for data, value in pipe.execute():
            n = json.loads(data)["n"]
            if worked and (value is None or json.loads(value) != n * 2):
                return {"wrong": f"job {n} has the result {value!r}"}
            numbers.append(n)
    done = [n for n in numbers if n >= 0]
    if len(done) < task["count"] or len(set(done)) != len(done):
        return {"wrong": f"{len(set(done))} of {task['count']} jobs done, {len(done) - len(set(done))} twice"}
    return {}
