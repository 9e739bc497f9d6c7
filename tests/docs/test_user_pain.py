"""Each trouble that users had elsewhere is named by a test, and the page about it is that of today."""

from types import ModuleType

import pytest

from support.programs import load_program
from support.server_files import CHECKOUT
from support.user_pain import PAINS, proofs


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes the page."""
    return load_program("user_pain_page")


def test_each_entry_is_shown() -> None:
    """Each entry is named by a test, or says why there is nothing to test; no test names one that is not there."""
    named = proofs()

    assert [number for number, pain in PAINS.items() if not pain.absent and number not in named] == []
    assert [number for number, pain in PAINS.items() if pain.absent and number in named] == []
    assert sorted(set(named) - set(PAINS)) == []


def test_page_is_up_to_date(script: ModuleType) -> None:
    """The page is what its script writes from the tests of today."""
    page = (CHECKOUT / "docs" / "user-pain.md").read_text("utf-8")

    assert page == script.page_text(), "run: python scripts/user_pain_page.py"
