"""Keeps the figures of the suite, and makes tables, goals and plots of them: ``python benchmarks/report.py``."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from contenders import CONTENDERS
from scenarios import SCENARIOS, Run, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["keep", "machine", "page_part", "spread", "table", "write_page", "write_part"]

DOCS = Path(__file__).parent.parent / "docs"
FIGURES = DOCS / "performance.json"
PAGE = DOCS / "performance.md"
END = "<!-- end -->"
BASE = "bullmq_node"

COLUMNS: dict[str, str] = {
    "rate": "jobs/s",
    "ratio": "ratio to Node",
    "client_us": "client us/job",
    "server_us": "server us/job",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "bytes_waiting": "bytes a waiting job",
    "rss_10k": "RSS MiB after 10k",
    "rss_100k": "after 100k",
    "rss_1m": "after 1M",
}

Runs = dict[str, list[Run]]


def machine(servers: list[str]) -> str:
    """Where and with what the figures were measured."""
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    return (
        f"{os.cpu_count()} cores, {platform.machine()}; Python {platform.python_version()}; Node {node or 'absent'}; "
        f"{', '.join(servers)}, on loopback, without persistence"
    )


def keep(key: str, runs: Runs, where: str) -> None:
    """Put the figures of one scenario in place of those before."""
    stored = _stored()
    stored[key] = {"machine": where, "runs": runs}
    FIGURES.write_text(json.dumps({key: stored[key] for key in SCENARIOS if key in stored}, indent=1) + "\n", "utf-8")


def _stored() -> dict[str, Any]:
    return dict(json.loads(FIGURES.read_text("utf-8"))) if FIGURES.exists() else {}


def spread(values: list[float]) -> str:
    """Median with minimum and maximum, in at most four digits."""
    low, middle, high = min(values), statistics.median(values), max(values)
    if len(values) == 1:
        return f"{middle:,.3g}" if middle < 1000 else f"{middle:,.0f}"
    return f"{middle:,.3g} ({low:,.3g}-{high:,.3g})" if middle < 1000 else f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"


def ratios(runs: Runs, name: str, figure: str, base: str = BASE) -> list[float]:
    """One contender's figure against another's of the same round."""
    pairs = zip(runs.get(name, []), runs.get(base, []), strict=False)
    return [mine[figure] / other[figure] for mine, other in pairs if mine.get(figure) and other.get(figure)]


def table(scenario: Scenario, runs: Runs) -> str:
    """One scenario as a Markdown table."""
    rounds = max(map(len, runs.values()), default=0)
    head = ["peer", *(COLUMNS[figure] for figure in scenario.shown)]
    lines = [f"### {scenario.title}", "", f"Rounds: {rounds}.", "", f"| {' | '.join(head)} | N |"]
    lines.append("|---" * (len(head) + 1) + "|")
    for name, measured in runs.items():
        wrong = sum("wrong" in run for run in measured)
        title = CONTENDERS[name].title + (f" ! ({wrong} of {len(measured)} runs wrong)" if wrong else "")
        cells = [_cell(runs, name, figure, scenario) for figure in scenario.shown]
        lines.append(f"| {title} | {' | '.join(cells)} | {measured[0]['count']:,} |")
    return "\n".join(lines) + "\n"


def _cell(runs: Runs, name: str, figure: str, scenario: Scenario) -> str:
    if figure == "ratio":
        values = ratios(runs, name, "rate" if "rate" in scenario.shown else "p99_ms")
    else:
        values = [run[figure] for run in runs[name] if figure in run]
    return spread(values) if values else "-"


@attrs.frozen
class Goal:
    """What the project set out to reach.

    Attributes:
        text: In words.
        figures: From all that was measured, the values to judge; none where nothing was.
        least: Wanted at least.
        most: Wanted at most.
    """

    text: str
    figures: Callable[[dict[str, Runs]], list[float]]
    least: float | None = None
    most: float | None = None


def _best_drain(all_runs: dict[str, Runs], base: tuple[str, ...]) -> list[float]:
    """The best concurrency's rate of EchoMQ against the best of the others'."""
    keys = [key for key in ("drain-1", "drain-10", "drain-50", "drain-200") if key in all_runs]
    ours = max((_median(all_runs[key], "echomq") for key in keys), default=0)
    others = max((_median(all_runs[key], name) for key in keys for name in base), default=0)
    return [ours / others] if others else []


def _median(runs: Runs, name: str) -> float:
    measured = [run["rate"] for run in runs.get(name, []) if "rate" in run]
    return statistics.median(measured) if measured else 0


def _against(key: str, figure: str, base: str = BASE) -> Callable[[dict[str, Runs]], list[float]]:
    return lambda all_runs: ratios(all_runs.get(key, {}), "echomq", figure, base)


def _share_of_ceiling(all_runs: dict[str, Runs]) -> list[float]:
    ours, ceiling = (
        _median(all_runs.get("processes-2", {}), "echomq"),
        _median(all_runs.get("ceiling-drain", {}), "echomq"),
    )
    return [ours / ceiling] if ceiling else []


def _growth(all_runs: dict[str, Runs]) -> list[float]:
    return [run["rss_1m"] / run["rss_10k"] for run in all_runs.get("memory", {}).get("echomq", []) if "rss_1m" in run]


_OTHERS = tuple(name for name in CONTENDERS if not CONTENDERS[name].shares_keys)

GOALS = (
    Goal("no-op drain, best concurrency, against BullMQ for Node", lambda all_runs: _best_drain(all_runs, (BASE,)), 2),
    Goal("against BullMQ for Python", lambda all_runs: _best_drain(all_runs, ("bullmq_python",)), 10),
    Goal("against the fastest other Python peer", lambda all_runs: _best_drain(all_runs, _OTHERS), 8),
    Goal("bulk add against Node", _against("bulk", "rate"), 3),
    Goal("50 adds in flight against Node", _against("add-50", "rate"), 2.5),
    Goal("client CPU of an add, 50 in flight, against Node", _against("add-50", "client_us"), most=1 / 3),
    Goal("idle latency p50 against Node", _against("latency", "p50_ms"), most=1),
    Goal("lateness p99 of 10,000 delayed jobs against Node", _against("delayed", "p99_ms"), most=0.5),
    Goal("share of the server's ceiling, two processes", _share_of_ceiling, 0.85),
    Goal("client CPU of a no-op job against Node", _against("drain-50", "client_us"), most=0.4),
    Goal(
        "client CPU of a no-op job against BullMQ for Python",
        _against("drain-50", "client_us", "bullmq_python"),
        most=0.1,
    ),
    Goal("memory after a million jobs against after 10,000", _growth, most=1.05),
)


def goals(all_runs: dict[str, Runs]) -> str:
    """The goals beside what was measured."""
    lines = ["| goal | wanted | measured | reached | with uvloop |", "|---|---|---|---|---|"]
    on_uvloop = {key: {**runs, "echomq": runs.get("echomq_uvloop", [])} for key, runs in all_runs.items()}
    for goal in GOALS:
        values = goal.figures(all_runs)
        wanted = f"at least {goal.least:.3g}" if goal.least is not None else f"at most {goal.most:.3g}"
        if not values:
            lines.append(f"| {goal.text} | {wanted} | not measured | - | - |")
            continue
        middle = statistics.median(values)
        reached = middle >= goal.least if goal.least is not None else middle <= (goal.most or 0)
        other = [value for value in goal.figures(on_uvloop) if value]
        cells = (goal.text, wanted, spread(values), "yes" if reached else "no", spread(other) if other else "-")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_page() -> None:
    """Draw tables and plots from the figures kept."""
    from plots import draw  # needs matplotlib, which only this does

    draw({key: item["runs"] for key, item in _stored().items()}, DOCS / "performance")
    write_part("benchmarks/suite.py", page_part())


def page_part() -> str:
    """Say what the figures kept amount to: where they were measured, goals, plots, tables."""
    stored = _stored()
    all_runs = {key: item["runs"] for key, item in stored.items()}
    parts = [f"{where}.\n" for where in sorted({item["machine"] for item in stored.values()})]
    parts.append(goals(all_runs))
    plots = sorted(file.stem for file in (DOCS / "performance").glob("*.svg"))
    parts += [f"![{name}](performance/{name}.svg)\n" for name in plots]
    parts += [table(SCENARIOS[key], all_runs[key]) for key in SCENARIOS if key in all_runs]
    return "\n".join(parts)


def write_part(program: str, text: str) -> None:
    """Put what a program generates into the page, between its two marks."""
    begin = f"<!-- generated by {program} -->"
    head, found, rest = PAGE.read_text("utf-8").partition(begin)
    if not found:
        raise SystemExit(f"{PAGE} has no place for {program}")
    _, _, tail = rest.partition(END)
    PAGE.write_text(f"{head}{begin}\n{text}{END}{tail}", "utf-8")


if __name__ == "__main__":
    write_page()
