"""What the other type checker, pyright, says of user code; mypy goes through it with everything else."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.not_run import missing

SAMPLES = Path(__file__).parent
CHECKOUT = SAMPLES.parents[1]
SOURCES = sorted(str(path) for path in CHECKOUT.glob("packages/*/src"))


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What pyright finds under its strictest rules: for each sample, line -> message."""
    if find_spec("pyright") is None or not (shutil.which("node") and shutil.which("npm")):
        missing("pyright", "needs the package pyright, and node and npm")
    settings = tmp_path_factory.mktemp("pyright") / "pyrightconfig.json"
    rules = {"typeCheckingMode": "strict", "enableTypeIgnoreComments": False, "pythonVersion": "3.10"}
    settings.write_text(json.dumps({**rules, "extraPaths": SOURCES, "include": ["*.py"]}), "utf-8")
    for sample in SAMPLES.glob("*.py"):
        if not sample.name.startswith("test_"):
            shutil.copy(sample, settings.parent)
    command = [sys.executable, "-m", "pyright", "-p", str(settings), "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, timeout=570, check=False)
    if not done.stdout.startswith("{"):
        missing("pyright", f"it does not start: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}")
    found: dict[str, dict[int, str]] = {sample.name: {} for sample in settings.parent.glob("*.py")}
    for one in json.loads(done.stdout)["generalDiagnostics"]:
        for line in _lines(one):
            found[Path(one["file"]).name][line] = one["message"]
    return found


def _lines(diagnostic: dict[str, Any]) -> Iterator[int]:
    if diagnostic["severity"] == "error":
        yield from range(diagnostic["range"]["start"]["line"] + 1, diagnostic["range"]["end"]["line"] + 2)


@pytest.mark.heavy
@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("good*.py")))
def test_right_use_passes(errors: dict[str, dict[int, str]], sample: str) -> None:
    """User code that is right has no error under pyright's strictest rules."""
    assert errors[sample] == {}


@pytest.mark.heavy
@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.glob("bad*.py")))
def test_wrong_use_is_an_error(errors: dict[str, dict[int, str]], sample: str) -> None:
    """Each mistake of user code that mypy refuses, pyright refuses too."""
    lines = (SAMPLES / sample).read_text("utf-8").splitlines()
    mistakes = {number for number, line in enumerate(lines, 1) if "# type: ignore[" in line}

    assert mistakes
    assert mistakes - errors[sample].keys() == set()
