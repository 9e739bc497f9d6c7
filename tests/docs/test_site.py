"""The site of the documentation: every page has its place, every public name its entry, and it builds strictly."""

import os
import re
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from types import ModuleType

import pytest

import echomq
import echomq.events
import echomq.hookspecs
import echomq.signals
import echomq.sync
import echomq.tasks
import echomq.web
import echomq_django
import echomq_memory
import echomq_sqlalchemy
import echomq_testing
import echomq_testing.sync
from support.server_files import CHECKOUT

DOCS = CHECKOUT / "docs"
NAV = (CHECKOUT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
PLACES = set(re.findall(r"[\w/-]+\.md", NAV))
REFERENCE = "\n".join(page.read_text("utf-8") for page in DOCS.glob("reference/*.md"))
SHOWN = set(re.findall(r"^::: (\S+)", REFERENCE, re.MULTILINE))
WHOLE = {name: sys.modules[name] for name in SHOWN if name in sys.modules}
"""Modules of which the reference shows everything public."""


def test_each_page_has_its_place() -> None:
    """The navigation of the site leads to every page of ``docs/``, and to no page that is not there."""
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}

    assert pages - PLACES == set(), "give it a line in the navigation of mkdocs.yml"
    assert {place for place in PLACES - pages if not place.startswith("project/")} == set()


PACKAGES = [
    echomq,
    echomq.sync,
    echomq.tasks,
    echomq.events,
    echomq.hookspecs,
    echomq.web,
    echomq_django,
    echomq_sqlalchemy,
    echomq_memory,
    echomq_testing,
    echomq_testing.sync,
]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_is_in_the_reference(package: ModuleType) -> None:
    """The API reference has an entry for every public name."""
    covered = {name for module in WHOLE.values() for name in getattr(module, "__all__", ())}
    missing = {name for name in package.__all__ if f"{package.__name__}.{name}" not in SHOWN} - covered

    assert missing - {"__version__"} == set(), "name it on a page of docs/reference"


class _Fetched(HTMLParser):
    """Collects what a browser loads by itself with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember the address of a script, picture, frame, or style sheet."""
        given = dict(attrs)
        address = given.get("src") if tag in ("script", "img", "iframe") else None
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            address = given.get("href")
        self.addresses += [address] if address else []


@pytest.mark.heavy
def test_site_builds_strictly(tmp_path: Path) -> None:
    """The site builds without any warning, and its pages load nothing from elsewhere."""
    if find_spec("mkdocs") is None:
        pytest.skip("needs the dependency group docs: nox -s docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # what the theme says of MkDocs' future is no fault of ours
    built = run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False, timeout=570)

    assert (built.returncode, built.stderr) == (0, "")
    for page in tmp_path.rglob("*.html"):
        fetched = _Fetched()
        fetched.feed(page.read_text("utf-8"))
        assert fetched.addresses
        assert [address for address in fetched.addresses if "//" in address] == [], page
