"""EchoMQ beside BullMQ for Node and for Python: adding and draining jobs, in turns, in one run.

    python benchmarks/work.py [--rounds 5] [--jobs 20000] [--write]

All peers speak the same protocol, so each drains a queue that was filled in the
same way. Every run is checked: each job once, with the right result. A figure is
the median over the rounds with its minimum and maximum; rounds go through the
peers in turns, so that a change of the machine's speed meets all of them.
``--write`` puts the table into ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import redis as redis_client

import echomq

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "benchmarks"
PEERS = ("echomq", "bullmq_node", "bullmq_python")
TITLES = {"echomq": "EchoMQ", "bullmq_node": "BullMQ 6.7.0, Node", "bullmq_python": "BullMQ 3.4.4, Python"}
SCENARIOS = {
    "drain, concurrency 1": {"mode": "work", "concurrency": 1, "share": 0.25},
    "drain, concurrency 50": {"mode": "work", "concurrency": 50, "share": 1.0},
    "drain, concurrency 200": {"mode": "work", "concurrency": 200, "share": 1.0},
    "add, one at a time": {"mode": "add", "concurrency": 1, "share": 0.1},
    "add, 50 in flight": {"mode": "add", "concurrency": 50, "share": 0.5},
    "add in bulks of 1,000": {"mode": "bulk", "concurrency": 1, "share": 1.0},
}


class WrongResultError(Exception):
    """A peer lost a job, did one twice, or computed nonsense; its figures count for nothing."""


def prepare_peers() -> dict[str, list[str]]:
    """Install the peers into a cache and return the command of each; a missing Node is left out."""
    commands = {"echomq": [sys.executable, str(HERE / "peers" / "echomq_peer.py")]}
    node_folder = CACHE / "node"
    if shutil.which("node") and shutil.which("npm"):
        if not (node_folder / "node_modules" / "bullmq").is_dir():
            node_folder.mkdir(parents=True, exist_ok=True)
            install = ["npm", "install", "--silent", "--no-save", "bullmq@6.7.0", "ioredis@6.0.0"]
            subprocess.run(install, cwd=node_folder, check=True)
        commands["bullmq_node"] = ["node", str(HERE / "peers" / "bullmq_node.mjs")]
    venv = CACHE / "python"
    if not (venv / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        wanted = ["bullmq==3.4.4", "redis[hiredis]==8.1.0"]
        subprocess.run([str(venv / "bin" / "pip"), "install", "-q", *wanted], check=True)
    commands["bullmq_python"] = [str(venv / "bin" / "python"), str(HERE / "peers" / "bullmq_python.py")]
    return commands


def start_server(folder: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a private server without persistence on a free port."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        sys.exit("needs redis-server or valkey-server on the PATH")
    for port in range(21_000 + os.getpid() % 10_000, 65_000, 97):
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        server = subprocess.Popen([program, *options, "--logfile", f"{folder}/log"])
        for _ in range(200):
            if server.poll() is not None:
                break
            try:
                redis_client.Redis(port=port).ping()
            except redis_client.ConnectionError:
                time.sleep(0.02)
            else:
                return server, port
    sys.exit("no free port for a server")


def server_cpu(client: redis_client.Redis) -> float:
    """Seconds of processor the server has used."""
    info: Any = client.info("cpu")
    return float(info["used_cpu_sys"]) + float(info["used_cpu_user"])


async def fill(url: str, queue: str, count: int) -> None:
    """Put the jobs of a drain into the queue; the same for all peers."""
    async with echomq.Queue(queue, url) as filled:
        for start in range(0, count, 1000):
            await filled.add_bulk([("job", {"n": start + i}) for i in range(min(1000, count - start))])


def check(client: redis_client.Redis, task: dict[str, Any]) -> None:
    """Raise unless every job was added, or done, exactly once and rightly."""
    base, count = f"bull:{task['queue']}", task["count"]
    expected = {str(n * (2 if task["mode"] == "work" else 1)) for n in range(count)}
    if task["mode"] == "work":
        ids: Any = client.zrange(f"{base}:completed", 0, -1)
        field = "returnvalue"
    else:
        ids, field = client.lrange(f"{base}:wait", 0, -1), "data"
    pipe = client.pipeline(transaction=False)
    for job_id in ids:
        pipe.hget(f"{base}:{job_id.decode()}", field)
    values = [json.loads(value) for value in pipe.execute()]
    found = [str(value["n"] if field == "data" else value) for value in values]
    found = [value for value in found if value != "-1"]
    if len(found) != count or set(found) != expected:
        raise WrongResultError(f"{task['queue']}: {len(found)} results for {count} jobs")


def run_once(command: list[str], client: redis_client.Redis, task: dict[str, Any]) -> dict[str, float]:
    """Let one peer do one scenario on an empty server and return its figures."""
    client.flushall()
    if task["mode"] == "work":
        asyncio.run(fill(task["url"], task["queue"], task["count"]))
    before = server_cpu(client)
    done = subprocess.run([*command, json.dumps(task)], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        sys.exit(f"{command[1]} failed:\n{done.stderr}")
    used = server_cpu(client) - before
    check(client, task)
    result = json.loads(done.stdout)
    count = task["count"]
    figures = {
        "rate": count / result["seconds"],
        "client_us": result["cpu_seconds"] / count * 1e6,
        "server_us": used / count * 1e6,
    }
    if result["latencies_ms"]:
        cuts = statistics.quantiles(result["latencies_ms"], n=100)
        figures |= {"p50_ms": cuts[49], "p99_ms": cuts[98]}
    return figures


def spread(values: list[float]) -> str:
    """Median with minimum and maximum, in at most four digits."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.3g} ({low:,.3g}-{high:,.3g})" if middle < 1000 else f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"


def table(name: str, count: int, rounds: dict[str, list[dict[str, float]]]) -> str:
    """One scenario as a Markdown table; ratios are against BullMQ for Node of the same run."""
    lines = [
        f"### {name}, N = {count:,}",
        "",
        "| peer | jobs/s | ratio to Node | client us/job | server us/job | p50 ms | p99 ms |",
        "|---|---|---|---|---|---|---|",
    ]
    base = rounds.get("bullmq_node")
    for peer, runs in rounds.items():
        columns = {key: [run[key] for run in runs] for key in runs[0]}
        ratios = [run["rate"] / other["rate"] for run, other in zip(runs, base or [], strict=False)]
        cells = [spread(columns["rate"]), spread(ratios) if ratios else "-"]
        further = ("client_us", "server_us", "p50_ms", "p99_ms")
        cells += [spread(columns[key]) if key in columns else "-" for key in further]
        lines.append(f"| {TITLES[peer]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def machine(client: redis_client.Redis, rounds: int) -> str:
    """Where and with what the figures were measured."""
    info: Any = client.info("server")
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"{os.cpu_count()} cores, {platform.machine()}; Python {platform.python_version()}; Node {node or 'absent'}; "
        f"Redis {info['redis_version']} on loopback without persistence; {rounds} rounds, peers in turns; "
        "median (minimum-maximum).\n"
    )


def write(text: str) -> None:
    """Put the generated part into the page, between its two marks."""
    page = HERE / "README.md"
    head, _, rest = page.read_text("utf-8").partition("<!-- generated by work.py -->")
    _, _, tail = rest.partition("<!-- end -->")
    page.write_text(f"{head}<!-- generated by work.py -->\n{text}<!-- end -->{tail}", "utf-8")


def main() -> None:
    """Run all scenarios and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--only", default="", help="run only scenarios whose name holds this text")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--write", action="store_true", help="put the tables into benchmarks/README.md")
    options = parser.parse_args()
    commands = {peer: line for peer, line in prepare_peers().items() if peer in options.peers.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        server, port = start_server(folder)
        try:
            client = redis_client.Redis(port=port)
            parts = [machine(client, options.rounds)]
            for name, scenario in SCENARIOS.items():
                if options.only not in name:
                    continue
                count = max(1000, int(options.jobs * scenario["share"]) // 1000 * 1000)
                task = {**scenario, "count": count, "queue": "bench", "port": port, "sleep_ms": 0}
                task |= {"url": f"redis://127.0.0.1:{port}", "node_folder": str(CACHE / "node")}
                rounds: dict[str, list[dict[str, float]]] = {peer: [] for peer in commands}
                for _ in range(options.rounds):
                    for peer, command in commands.items():
                        rounds[peer].append(run_once(command, client, task))
                parts.append(table(name, count, rounds))
                print(parts[-1], flush=True)
        finally:
            server.terminate()
            server.wait()
    if options.write:
        write("\n".join(parts))


if __name__ == "__main__":
    main()
