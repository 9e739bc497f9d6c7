"""The rules of this code base that tools can check, checked with every run of the tests."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TESTS = CHECKOUT / "tests"


@pytest.mark.parametrize(
    "tool",
    [("ruff", "check", "--no-cache"), ("ruff", "format", "--check", "--no-cache"), ("mypy",)],
    ids=lambda tool: "-".join(tool[:2]),
)
def test_tool_finds_nothing(tool: tuple[str, ...]) -> None:
    """Linter, formatter and type checker have nothing to say about any file (pain 37)."""
    done = subprocess.run(
        [sys.executable, "-m", *tool], cwd=CHECKOUT, capture_output=True, text=True, timeout=570, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def _tests() -> Iterator[tuple[str, str]]:
    """Go through all tests: where each is, and its docstring."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{path.relative_to(CHECKOUT)}:{node.lineno} {node.name}", ast.get_docstring(node) or ""


def test_each_test_states_a_behaviour() -> None:
    """Each test has a docstring of exactly one sentence."""
    wrong = [f"{where}: {text!r}" for where, text in _tests() if not _is_one_sentence(text)]

    assert not wrong, "\n".join(wrong)


def _is_one_sentence(text: str) -> bool:
    line = " ".join(text.split())
    return line.endswith(".") and not re.search(r"[.!?] [A-Z]", line) and "\n\n" not in text


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("A job is done once.", True),
        ("A job that has\nto wait is done once.", True),
        ("", False),
        ("A job is done once", False),
        ("A job is done. Once.", False),
        ("A job is done once.\n\nOr so.", False),
    ],
)
def test_one_sentence_is_recognised(text: str, good: bool) -> None:
    """Only a text of one sentence with its full stop passes the docstring rule."""
    assert _is_one_sentence(text) == good
