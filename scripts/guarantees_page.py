"""Write the table of ``docs/guarantees.md`` from what the tests of faults recorded: ``guarantees_page.py FILE``.

FILE has one JSON object a line, see ``tests/support/recorder.py``. The page's words are not touched, nor are rows of
which FILE has nothing: what no test measures any more must be deleted by hand.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

Key: TypeAlias = tuple[str, str, str]
"""Fault, topology and driver."""

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guarantees.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

_HEAD = """\
| fault | topology | driver | jobs | lost | finished twice | N | p50 | max |
|---|---|---|---:|---:|---:|---:|---:|---:|
"""


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.2f} s"


def _row(key: Key, trials: list[dict[str, Any]]) -> str:
    times = [ms for trial in trials for ms in trial["recoveries_ms"]]
    counts = [sum(trial[name] for trial in trials) for name in ("jobs", "lost", "twice")]
    cells = [*key, *(f"{count:,}" for count in (*counts, len(times))), *map(_seconds, (median(times), max(times)))]
    return f"| {' | '.join(cells)} |\n"


def rows(lines: Iterable[str]) -> dict[Key, str]:
    """Return a row for each fault, topology and driver, over both shells."""
    trials: defaultdict[Key, list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        trial = json.loads(line)
        trials[trial["fault"], trial["topology"], trial["driver"]].append(trial)
    return {key: _row(key, found) for key, found in trials.items()}


def with_rows(page: str, measured: dict[Key, str]) -> str:
    """Return the page with these rows in its table, each in the place of the one before."""
    before, _, rest = page.partition(BEGIN)
    table, _, after = rest.partition(END)
    merged = {_key(row): f"{row}\n" for row in table.strip().splitlines()[_HEAD.count("\n") :]} | measured
    return "".join([before, BEGIN, "\n", _HEAD, *(merged[key] for key in sorted(merged)), END, after])


def _key(row: str) -> Key:
    fault, topology, driver, *_ = row.strip("| ").split(" | ")
    return fault, topology, driver


def main() -> None:
    """Write the page."""
    measured = rows(Path(sys.argv[1]).read_text("utf-8").splitlines())
    PAGE.write_text(with_rows(PAGE.read_text("utf-8"), measured), "utf-8")


if __name__ == "__main__":
    main()
