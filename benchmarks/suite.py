"""EchoMQ beside every peer: all scenarios, all contenders in turns, in one run.

    python benchmarks/suite.py [--rounds 5] [--only drain,add-50] [--peers echomq,bullmq_node] [--in-turns] [--write]

Each run is checked: each job once, with the right result; one that is wrong is
marked with an exclamation mark. A figure is the median over the rounds with
minimum and maximum; rounds go through the contenders in turns, so that a change
of the machine's speed meets all. With ``--in-turns`` they go through the scenarios
as well, for figures of two scenarios that are compared. ``--write`` keeps the figures in
``docs/performance.json`` and draws tables and plots of ``docs/performance.md`` anew.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time

import attrs
import report
from contenders import CONTENDERS
from private_server import PrivateServer, private_server
from scenarios import SCENARIOS, Run, Scenario, measure


def main() -> None:
    """Run what was asked for and print its tables."""
    options = _options()
    wanted = {key: scenario for key, scenario in SCENARIOS.items() if _named(key, options.only)}
    peers = [name for name in CONTENDERS if not options.peers or name in options.peers.split(",")]
    kinds = sorted({CONTENDERS[name].server for name in peers if any(name in s.who for s in wanted.values())})
    with contextlib.ExitStack() as stack:
        servers = {kind: stack.enter_context(private_server(kind)) for kind in kinds}
        machine = report.machine([server.version for server in servers.values()])
        print(machine, "\n", flush=True)
        scaled = {key: attrs.evolve(one, count=max(100, int(one.count * options.scale))) for key, one in wanted.items()}
        together = [scaled] if options.in_turns else [{key: scenario} for key, scenario in scaled.items()]
        for scenarios in together:
            for key, runs in _rounds(scenarios, peers, options.rounds, servers).items():
                print(report.table(scenarios[key], runs), flush=True)
                if options.write:
                    report.keep(key, runs, machine)
    if options.write:
        report.write_page()


def _rounds(
    scenarios: dict[str, Scenario], peers: list[str], rounds: int, servers: dict[str, PrivateServer]
) -> dict[str, dict[str, list[Run]]]:
    found: dict[str, dict[str, list[Run]]] = {key: {} for key in scenarios}
    for number in range(rounds):
        for key, scenario in scenarios.items():
            if number >= scenario.most_rounds:
                continue
            for name in (name for name in peers if name in scenario.who):
                begun = time.monotonic()
                run = measure(scenario, name, servers[CONTENDERS[name].server])
                if run is not None:
                    found[key].setdefault(name, []).append(run)
                took = time.monotonic() - begun
                print(f"{scenario.title}: round {number + 1}, {name}: {took:.1f} s", file=sys.stderr)
    return found


def _named(key: str, only: str) -> bool:
    return not only or any(key.startswith(start) for start in only.split(","))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1, help="share of each scenario's jobs, for a quick look")
    parser.add_argument("--only", default="", help=f"scenarios that begin so, by commas: {', '.join(SCENARIOS)}")
    parser.add_argument("--peers", default="", help=f"by commas: {', '.join(CONTENDERS)}")
    parser.add_argument("--in-turns", action="store_true", help="a round of every scenario, then the next round")
    parser.add_argument("--write", action="store_true", help="draw docs/performance.md anew")
    return parser.parse_args()


if __name__ == "__main__":
    main()
