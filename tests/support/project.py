"""A project of a user's own, with tests that pytest runs by itself."""

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess, run

__all__ = ["play"]


def play(folder: Path, tests: str, *arguments: str) -> "CompletedProcess[str]":
    """Run pytest in a project that holds these tests."""
    (folder / "test_project.py").write_text(tests)
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "ECHOMQ_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=500)
