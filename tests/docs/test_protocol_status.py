"""The page about the state of the protocol is about the scripts and vectors of today."""

import json
from types import ModuleType

import pytest

from support.programs import load_program
from support.server_files import CHECKOUT

HINT = "run: nox -s status"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the page."""
    return load_program("protocol_status")


def test_page_is_up_to_date(script: ModuleType) -> None:
    """The page is what its script writes from the scripts, the vectors and the stored figures."""
    page = (CHECKOUT / "docs" / "protocol-status.md").read_text("utf-8")

    assert page == script.page_text(), HINT


def test_all_vectors_have_passed(script: ModuleType) -> None:
    """Of each script of the contract all vectors passed, and calls were compared, when the figures were stored."""
    stored = json.loads((CHECKOUT / "docs" / "protocol-status.json").read_text("utf-8"))
    total = dict.fromkeys(stored["contract"], 0)
    for vector in script._vectors():
        total[script.script_of(vector)] += 1

    assert {name: stored["passed"][name] for name in total} == total, HINT
    assert len(total) == 50
    assert not [name for name in total if not stored["compared"][name]]
