"""Write ``docs/user-pain.md``: what hurt users elsewhere, and which test shows that it does not here."""

from __future__ import annotations

import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(CHECKOUT / "tests"))

from support.user_pain import SECTIONS, Pain, Proof, proofs  # noqa: E402  # the tests' own list, found just above

PAGE = CHECKOUT / "docs" / "user-pain.md"

_HEAD = """\
# What hurt users elsewhere

Users of job queues reported each of these, of the project and under the number given.
Beside each stands what a user relies on here, and the tests that fail if it is not so.
Tests name an entry by its number, at the end of their docstring: `(pain 7)`.
This page is written by `scripts/user_pain_page.py`; a test fails when it is stale.
"""


def _tests(pain: Pain, found: list[Proof]) -> str:
    if pain.absent:
        return f"none: {pain.absent}"
    return ", ".join(f"[{proof.name.removeprefix('test_')}](../{proof.path})" for proof in found)


def page_text() -> str:
    """Return the whole page."""
    found = proofs()
    lines = [_HEAD]
    for section, pains in SECTIONS.items():
        lines += [f"## {section}", "", "| | elsewhere | here | tests |", "|---|---|---|---|"]
        for pain in pains:
            elsewhere = f"{pain.hurt} ({pain.source})"
            lines.append(f"| {pain.number} | {elsewhere} | {pain.here} | {_tests(pain, found.get(pain.number, []))} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page_text(), "utf-8", newline="\n")
