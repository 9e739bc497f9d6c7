"""The example package: installed as a user would, and found by its entry points."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support.server_files import CHECKOUT
from support.servers import Server

EXAMPLE = CHECKOUT / "examples" / "echomq-example"
PROGRAM = Path(__file__).with_name("example_program.py")


def _run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr  # it logs attempts that fail on purpose
    assert all(": ValueError" in line for line in done.stderr.splitlines()), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder that the example was installed into."""
    folder = str(tmp_path_factory.mktemp("example"))
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore")
    _run(*pip, "--no-deps", "--no-build-isolation", "--target", folder, str(EXAMPLE))
    return folder


def test_example_works(installed: str, redis_server: Server, prefix: str, tmp_path: Path) -> None:
    """Installed, its driver serves both shells, its backoff is known, and its log tells all that happened."""
    url = f"tincan://{redis_server.host}:{redis_server.port}"
    log = tmp_path / "audit.log"
    environment = {"PYTHONPATH": installed, "ECHOMQ_AUDIT_FILE": str(log)}
    printed = _run("-W", "error", str(PROGRAM), url, prefix, **environment)

    assert printed.splitlines() == ["blocking done", "async done"]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert Counter(entry["event"] for entry in entries) == {"added": 2, "ran": 6, "failed": 4, "completed": 2}
    assert {entry["name"] for entry in entries if entry["event"] == "added"} == {"blocking", "async"}
    assert _run("-m", "echomq", "audit", **environment).splitlines()[0] == f"mail:{entries[0]['job']} added"


def test_without_the_example() -> None:
    """Where it is not installed, nobody knows its scheme."""
    code = "import echomq; echomq.connect('tincan://localhost')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "DriverMissing: no installed driver serves tincan:// URLs" in done.stderr
