"""The plugin as users have it: installed, with the providers that their program sets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.servers import Server

PROGRAM = Path(__file__).with_name("installed_program.py")


def _run(server: Server, prefix: str, disabled: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), server.url, prefix],
        env={**os.environ, "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": disabled},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_context_reaches_the_child_process(redis_server: Server, prefix: str) -> None:
    """Installed, the plugin uses the program's provider, and a job in a child process runs in its attempt's span."""
    told = _run(redis_server, prefix, "")

    added, processed = told["spans"]
    assert (added[0], processed[0]) == ("add mail.welcome", "process mail")
    assert told["child"] == processed[1:]
    assert added[1] == processed[1]


@pytest.mark.parametrize("disabled", ["echomq", "requests, echomq"])
def test_switched_off(redis_server: Server, prefix: str, disabled: str) -> None:
    """Named where instrumentations are switched off, the plugin does nothing."""
    assert _run(redis_server, prefix, disabled) == {"spans": [], "child": ["0" * 32, "0" * 16]}
