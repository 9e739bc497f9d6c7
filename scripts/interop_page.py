"""Run every exchange with every other client and write the table of ``docs/interop.md``.

``python scripts/interop_page.py``; takes three minutes, Node and npm. Only what ran gets a mark.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "interop.md"
sys.path.insert(0, str(ROOT / "tests"))

from interop.exchanges import ABSENT, EXCHANGES, PEERS  # noqa: E402

INTRO = """# Together with BullMQ

EchoMQ and BullMQ share queues: each adds, processes, schedules and reads what the other one wrote.
What follows was run: one queue in two hands, for each cell a fresh process of the other client.
`python scripts/interop_page.py` runs it again and writes this page.

"""


def run() -> dict[tuple[str, str], str]:
    """Return for each exchange and client how it went."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        tests = ["-m", "heavy", "tests/interop/test_matrix.py", f"--junitxml={report}"]
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "2", *tests], cwd=ROOT, check=False)  # noqa: S603
        cases = {case.get("name"): case for case in ET.parse(report).iter("testcase")}  # noqa: S314
    return {(peer, exchange): outcome(cases, peer, exchange) for exchange in EXCHANGES for peer in PEERS}


def outcome(cases: "dict[str | None, ET.Element]", peer: str, exchange: str) -> str:
    """Return ``yes``, ``no``, ``failed`` or ``not run``."""
    case = cases.get(f"test_exchange[{peer}-{exchange}]")
    if (PEERS[peer], exchange) in ABSENT:
        return "no"
    if case is None or case.find("skipped") is not None:
        return "not run"
    return "yes" if case.find("failure") is None and case.find("error") is None else "failed"


def page(outcomes: dict[tuple[str, str], str]) -> str:
    """Return the page."""
    reasons = list(dict.fromkeys(ABSENT.values()))
    lines = [f"| | {' | '.join(PEERS)} |", f"|---|{'---|' * len(PEERS)}"]
    for exchange in EXCHANGES:
        cells = []
        for peer, release in PEERS.items():
            reason = ABSENT.get((release, exchange))
            cells.append(outcomes[peer, exchange] + (f" ({reasons.index(reason) + 1})" if reason else ""))
        lines.append(f"| {exchange} | {' | '.join(cells)} |")
    notes = "".join(f"{number}. {reason[0].upper()}{reason[1:]}.\n" for number, reason in enumerate(reasons, 1))
    return INTRO + "\n".join(lines) + "\n\n" + notes


def main() -> int:
    """Run and write; fails if an exchange did."""
    outcomes = run()
    PAGE.write_text(page(outcomes), "utf-8")
    return int("failed" in outcomes.values() or "not run" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main())
