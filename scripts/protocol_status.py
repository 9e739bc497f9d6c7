"""Write ``docs/protocol-status.md``: how well each script is proven, and what it costs.

    python scripts/protocol_status.py [--seconds 60] [--seed 7]      plays and compares, then writes
    python scripts/protocol_status.py --page                         writes from the figures stored before

Plays every recorded call and a differential search on Redis and on Valkey, and
stores what it saw in ``docs/protocol-status.json``. What the scripts cost comes
from ``docs/script-cost.json``, which ``benchmarks/scripts.py --write`` makes. A
test fails when the page is not what its sources make of it: after a script was
changed, run this again.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import attrs

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

from differential.original import CONTRACT, original_scripts  # noqa: E402  # the tests' own tools, found just above
from differential.search import search  # noqa: E402
from differential.steps import Call, Step  # noqa: E402
from differential.twin import Twin  # noqa: E402
from echomq.scripts import Script, load_scripts  # noqa: E402
from support.servers import Servers  # noqa: E402
from vectors.deviations import DEVIATIONS  # noqa: E402
from vectors.keyspace import RawClient  # noqa: E402
from vectors.play import differences, script_of  # noqa: E402

PAGE = CHECKOUT / "docs" / "protocol-status.md"
STORED = CHECKOUT / "docs" / "protocol-status.json"
COSTS = CHECKOUT / "docs" / "script-cost.json"
RECORDED = CHECKOUT / "tests" / "vectors" / "recorded"
SERVERS = ("redis", "valkey")

_HEAD = """\
# Where the protocol stands

The contract is that of BullMQ {contract}; [lua/README.md](../lua/README.md) tells how the scripts are read, and where
they differ on purpose. `scripts/protocol_status.py` (`nox -s status`) writes this page; a test fails when it is stale.

* **vectors**: recorded calls of the real system that give the recorded reply and keyspace with our script, of all.
* **compared**: calls of random sequences ({seconds:.0f} s a server, seed {seed}, {steps:,} steps on {date}) after which
  reply and whole keyspace were equal to the original's, or differed only as declared.
* **cost**: time of the server in our script divided by that in the original (below); 1 is equal.
* **deviations**: vectors for which ours does better, listed below.
"""


def _vectors() -> list[dict[str, Any]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(RECORDED.rglob("*.json"))]


def _scripts() -> dict[str, Script]:
    return load_scripts(CHECKOUT / "lua")


@attrs.define
class Counting:
    """A twin that notes which scripts were compared."""

    twin: Twin
    compared: Counter[str] = attrs.field(factory=Counter)

    @property
    def state(self) -> Any:
        """The keyspace of both sides."""
        return self.twin.state

    def clear(self) -> None:
        """Start afresh."""
        self.twin.clear()

    def play(self, step: Step) -> str:
        """Play, and count what was found equal."""
        difference = self.twin.play(step)
        if isinstance(step, Call) and not difference:
            self.compared[step.script] += 1
        return difference


def _play(seconds: float, seed: int) -> dict[str, Any]:
    """Play everything; the figures to be stored."""
    passed: dict[str, Counter[str]] = {name: Counter() for name in SERVERS}
    compared: Counter[str] = Counter()
    steps = 0
    with contextlib.closing(Servers()) as servers:
        for name in SERVERS:
            url = servers.start(name).url
            with (
                contextlib.closing(RawClient(f"{url}/1")) as original,
                contextlib.closing(RawClient(url)) as ours,
            ):
                for vector in _vectors():
                    passed[name][script_of(vector)] += not differences(ours, vector)
                twin = Counting(Twin(original, ours))
                count, failing = search(twin, seed, seconds)  # type: ignore[arg-type]  # does what a twin does
                if failing:
                    sys.exit(f"{name}: a difference; run nox -s differential -- --differential-seed {seed}")
                steps += count
                compared += twin.compared
    return {
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "seconds": seconds,
        "seed": seed,
        "steps": steps,
        # On every server, or it has not passed.
        "passed": {script: min(passed[name][script] for name in SERVERS) for script in sorted(_scripts())},
        "compared": {script: compared[script] for script in sorted(_scripts())},
    }


def _costs() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(COSTS.read_text("utf-8")) if COSTS.exists() else {}
    return found


def _cost_cell(name: str, script: Script) -> str:
    rows = [row for row in _costs().get(name, {}).get("rows", []) if row["script"] == script.name]
    if not rows:
        return ""
    ratios = sorted(row["ratio"] for row in rows)
    text = f"{ratios[0]:.2f}" if len(ratios) == 1 else f"{ratios[0]:.2f}-{ratios[-1]:.2f}"
    return text if rows[0]["sha1"] == script.sha1 else f"{text} (earlier text)"


def _status_table(stored: dict[str, Any]) -> list[str]:
    total = Counter(script_of(vector) for vector in _vectors())
    better = Counter(script_of(vector) for vector in _vectors() if vector["name"] in DEVIATIONS)
    lines = [
        "| script | keys | sha1 | vectors | compared | cost, Redis | cost, Valkey | deviations |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, script in _scripts().items():
        is_ours = name not in stored["contract"]
        proof = "ours" if is_ours else f"{stored['passed'].get(name, 0)}/{total[name]}"
        compared = "" if is_ours else f"{stored['compared'].get(name, 0):,}"
        costs = " | ".join(_cost_cell(server, script) for server in SERVERS)
        lines.append(
            f"| {name} | {script.key_count} | `{script.sha1[:10]}` | {proof} | {compared} | {costs} "
            f"| {better[name] or ''} |"
        )
    passed = sum(stored["passed"].values())
    compared = sum(stored["compared"].values())
    lines.append(f"| **all** | | | {passed}/{sum(total.values())} | {compared:,} | | | {sum(better.values())} |")
    return lines


def _cost_tables() -> list[str]:
    lines: list[str] = []
    for name, run in _costs().items():
        lines += [
            f"### {name.capitalize()}",
            "",
            f"{run['server']}, {run['date']}, {run['machine']}, load {run['load']}; {run['rounds']} rounds.",
            "",
            "| script | case | calls a round | ours, us | original, us | ratio (least-most) |",
            "|---|---|---|---|---|---|",
        ]
        for row in run["rows"]:
            title = f"**{row['script']}**" if row["hot"] else row["script"]
            lines.append(
                f"| {title} | {row['case']} | {row['calls']:,} | {row['ours_us']:,.1f} | {row['original_us']:,.1f} "
                f"| {row['ratio']:.2f} ({row['least']:.2f}-{row['most']:.2f}) |"
            )
        lines.append("")
    return lines


def _deviations() -> list[str]:
    better = [vector for vector in _vectors() if vector["name"] in DEVIATIONS]
    better.sort(key=lambda vector: (script_of(vector), vector["name"]))
    rows = [f"| {script_of(one)} | `{one['name']}` | {DEVIATIONS[one['name']].reason} |" for one in better]
    return ["| script | vector | ours |", "|---|---|---|", *rows]


def page_text() -> str:
    """Return the whole page, from the scripts, the vectors and the stored figures."""
    stored = json.loads(STORED.read_text("utf-8"))
    head = _HEAD.format(contract=CONTRACT, **{name: stored[name] for name in ("seconds", "seed", "steps", "date")})
    costs = (
        "Server time per call, by the server's own count (`INFO commandstats`), ours and the original in turns.\n"
        "A ratio is that of the two sides of one round, the quickest of three batches each; shown is the median.\n"
        "Differences below 0.05 are within the noise of the machine. Bold: scripts that every job meets."
    )
    lines = [head, *_status_table(stored), "", "## Cost", "", costs, "", *_cost_tables()]
    return "\n".join([*lines, "## Deviations", "", *_deviations()]) + "\n"


def main() -> None:
    """Play, store, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the search, on each server")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--page", action="store_true", help="play nothing, only write the page")
    options = parser.parse_args()
    if not options.page:
        contract = sorted(original_scripts().keys() & _scripts().keys())
        stored = {**_play(options.seconds, options.seed), "contract": contract}
        STORED.write_text(json.dumps(stored, indent=1) + "\n", "utf-8", newline="\n")
    PAGE.write_text(page_text(), "utf-8", newline="\n")


if __name__ == "__main__":
    main()
