"""What README and documentation show is true: links lead somewhere, code parses, names exist, examples run."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from support.server_files import CHECKOUT

PATTERNS = ("*.md", "packages/*/README.md", "docs/**/*.md", "lua/*.md", "benchmarks/*.md")
PAGES = sorted(page for pattern in PATTERNS for page in CHECKOUT.glob(pattern))
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
FENCE = re.compile(r"^```python(?: fragment)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


@attrs.frozen(kw_only=True)
class Example:
    """One block of Python on a page."""

    page: Path
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def _examples() -> Iterator[Example]:
    for page in PAGES:
        text = page.read_text("utf-8")
        for found in FENCE.finditer(text):
            yield Example(page=page, line=text.count("\n", 0, found.start()) + 2, code=found[1])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every link of a page to a file of the project leads to a file that is there."""
    targets = [target for target in LINK.findall(page.read_text("utf-8")) if "://" not in target]

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("example", list(_examples()), ids=str)
def test_example_is_python(example: Example) -> None:
    """Every example is valid Python, and each name it imports from EchoMQ exists."""
    code = compile(example.code, str(example.page), "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    missing = []
    for node in ast.walk(code):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0].startswith("echomq"):
            module = importlib.import_module(str(node.module))
            missing += [name.name for name in node.names if not hasattr(module, name.name)]
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("echomq"):
                    importlib.import_module(name.name)
    assert not missing, f"{example}: {missing}"
