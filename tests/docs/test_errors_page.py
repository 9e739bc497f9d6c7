"""The page about errors knows every error there is."""

from types import ModuleType
from typing import Any

import pytest

import echomq
from echomq import errors, signals
from support.programs import load_program
from support.server_files import CHECKOUT

ABSTRACT = {errors.EchoMQError, errors.UsageError, errors.ScriptError, errors.DriverError, errors.JobSignal}
"""Roots of the tree that nobody raises; their sections say what they have in common."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the page."""
    return load_program("errors_page")


def test_page_is_up_to_date(script: ModuleType) -> None:
    """The page is what its script writes from the errors of today."""
    page = (CHECKOUT / "docs" / "errors.md").read_text("utf-8")

    assert page == script.page_text(), "run: python scripts/errors_page.py"


@pytest.mark.parametrize("name", sorted(set(errors.__all__) | set(signals.__all__)))
def test_error_is_explained(script: ModuleType, name: str) -> None:
    """Each error is public, has its place on the page, and says what to do."""
    error: Any = vars(errors).get(name) or vars(signals)[name]
    if not isinstance(error, type):
        return  # tables and functions of the module

    assert vars(echomq)[name] == error
    if error in ABSTRACT:
        return
    entry = script.page_text().partition(f"# {name}\n")[2].partition("\n#")[0]
    assert entry.strip(), f"{name} is missing"
    assert "**What to do:**" in entry or issubclass(error, errors.JobSignal), f"{name} lacks advice"
