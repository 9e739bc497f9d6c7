"""Server CPU per script, ours beside the original's, in turns, in one run.

    python benchmarks/scripts.py [--server valkey] [--rounds 21] [--only moveToFinished] [--write]

The server is private and does nothing else. A round plays the calls of a case with
one set of scripts and then, on an equal state, with the other; which comes first
changes from round to round. Counted is what the server itself says it spent in
EVALSHA (``INFO commandstats``), of three batches of a side the least, since the
server may lose its processor to others. A ratio is that of the two sides of one
round; the table has their median with the least and the most. The original scripts come from
npm, as opaque texts. ``--write`` stores the figures in ``docs/script-cost.json``,
from which ``nox -s status`` makes ``docs/protocol-status.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

from script_cases import CASES, Case  # noqa: E402

from differential.original import CONTRACT, original_scripts  # noqa: E402  # the tests' own fixtures, found just above
from echomq.scripts import get_script, script_names  # noqa: E402
from support.servers import Servers  # noqa: E402
from vectors.keyspace import RawClient  # noqa: E402

TRIES = 3
"""Batches of each side in a round; the quickest counts, for others were interrupted."""

COSTS = CHECKOUT / "docs" / "script-cost.json"


def spent_us(client: RawClient, texts: dict[str, str], case: Case) -> float:
    """Microseconds of the server per call of one batch."""
    client.send("FLUSHDB")
    client.send_all([("SET", "x", "1"), *case.state])
    sha1 = client.send("SCRIPT", "LOAD", texts[case.script])
    client.send("CONFIG", "RESETSTAT")
    client.send_all([("EVALSHA", sha1, len(call.keys), *call.keys, *call.raw_args()) for call in case.calls])
    stats = [line for line in client.send("INFO", "commandstats").decode().splitlines() if "_evalsha:" in line]
    found = dict(pair.split("=") for pair in stats[0].partition(":")[2].split(","))
    assert int(found["calls"]) == len(case.calls), found
    assert int(found["failed_calls"]) == 0, found
    return float(found["usec"]) / len(case.calls)


def measured(client: RawClient, case: Case, rounds: int) -> dict[str, Any]:
    """Row of one case."""
    sides = {"ours": {case.script: get_script(case.script).text}, "original": original_scripts()}
    spent: dict[str, list[float]] = {"ours": [], "original": []}
    for number in range(rounds):
        best = dict.fromkeys(sides, float("inf"))
        for _ in range(TRIES):
            for side in sorted(sides, reverse=bool(number % 2)):
                best[side] = min(best[side], spent_us(client, sides[side], case))
        for side in sides:
            spent[side].append(best[side])
    ratios = [ours / original for ours, original in zip(spent["ours"], spent["original"], strict=True)]
    return {
        "script": case.script,
        "sha1": get_script(case.script).sha1,
        "case": case.title,
        "hot": case.is_hot,
        "calls": len(case.calls),
        "ours_us": round(statistics.median(spent["ours"]), 2),
        "original_us": round(statistics.median(spent["original"]), 2),
        "ratio": round(statistics.median(ratios), 3),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
    }


def line(row: dict[str, Any]) -> str:
    """Row of the table on the screen."""
    title = f"{row['script']}{', ' if row['case'] else ''}{row['case']}"
    return (
        f"{'*' if row['hot'] else ' '} {title:52} {row['ours_us']:9.1f} {row['original_us']:9.1f}"
        f" {row['ratio']:6.2f} ({row['least']:.2f}-{row['most']:.2f})"
    )


def machine() -> str:
    """What it ran on."""
    cpus = Path("/proc/cpuinfo")
    names = [text.partition(":")[2].strip() for text in cpus.read_text().splitlines() if text.startswith("model name")]
    return f"{(names or [platform.processor() or platform.machine()])[0]}, {os.cpu_count()} cores, {platform.system()}"


def stored(server: str, version: str, rounds: int, rows: list[dict[str, Any]]) -> None:
    """Put the rows beside those of the other server."""
    costs = json.loads(COSTS.read_text("utf-8")) if COSTS.exists() else {}
    costs[server] = {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "machine": machine(),
        "server": version,
        "original": f"bullmq {CONTRACT}",
        "rounds": rounds,
        "load": round(os.getloadavg()[0], 1),
        "rows": rows,
    }
    COSTS.write_text(json.dumps(dict(sorted(costs.items())), indent=1) + "\n", "utf-8")


def main() -> None:
    """Measure and print; with ``--write`` store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="redis", help="redis, valkey, or another name of the tests' servers")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--only", default="", help="part of a script's name")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    missing = set(original_scripts()) & set(script_names()) - {case.script for case in CASES}
    assert not missing, f"not measured: {sorted(missing)}"

    rows = []
    with contextlib.closing(Servers()) as servers:
        server = servers.start(options.server)
        with contextlib.closing(RawClient(server.url)) as client:
            info = client.send("INFO", "server").decode()
            version = info.partition("valkey_version:" if "valkey_version" in info else "redis_version:")[2].split()[0]
            for case in CASES:
                if options.only in case.script:
                    rows.append(measured(client, case, options.rounds))
                    print(line(rows[-1]), flush=True)
    if options.write:
        assert not options.only, "only a whole run is stored"
        stored(options.server, f"{server.family} {version}", options.rounds, rows)


if __name__ == "__main__":
    main()
