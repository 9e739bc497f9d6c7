"""Write the table of ``docs/guarantees.md`` from what the tests of faults recorded: ``guarantees_page.py FILE``.

FILE has one JSON object a line, see ``tests/support/recorder.py``. The page's words are not touched.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guarantees.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

_HEAD = """\
| fault | topology | driver | jobs | lost | finished twice | N | p50 | max |
|---|---|---|---:|---:|---:|---:|---:|---:|
"""


def _seconds(ms: float) -> str:
    return f"{ms / 1000:.2f} s"


def _row(key: tuple[str, str, str], trials: list[dict[str, Any]]) -> str:
    times = [ms for trial in trials for ms in trial["recoveries_ms"]]
    counts = [sum(trial[name] for trial in trials) for name in ("jobs", "lost", "twice")]
    cells = [*key, *(f"{count:,}" for count in (*counts, len(times))), *map(_seconds, (median(times), max(times)))]
    return f"| {' | '.join(cells)} |\n"


def table(lines: Iterable[str]) -> str:
    """Return the table: one row for each fault, topology and driver, over both shells."""
    trials: defaultdict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in lines:
        trial = json.loads(line)
        trials[trial["fault"], trial["topology"], trial["driver"]].append(trial)
    return _HEAD + "".join(_row(key, trials[key]) for key in sorted(trials))


def _with_table(page: str, rows: str) -> Iterator[str]:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    yield from (before, BEGIN, "\n", rows, END, after)


def main() -> None:
    """Write the page."""
    rows = table(Path(sys.argv[1]).read_text("utf-8").splitlines())
    PAGE.write_text("".join(_with_table(PAGE.read_text("utf-8"), rows)), "utf-8")


if __name__ == "__main__":
    main()
