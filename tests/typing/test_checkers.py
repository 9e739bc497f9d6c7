"""Programs of users under pyright; mypy, as strict, checks them with everything else in ``tests/style``."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.npm import npm_folder
from support.server_files import CHECKOUT

HERE = Path(__file__).parent
SAMPLES = sorted(path.name for path in HERE.glob("*.py") if not path.name.startswith("test_"))


def test_pyright_agrees(tmp_path: Path) -> None:
    """Right use passes pyright as strict as it can be, and each marked mistake is an error to it, too (pain 37)."""
    checker = npm_folder("typing", HERE / "node", part="pyright") / "node_modules" / "pyright" / "index.js"
    sources = sorted(str(path) for path in CHECKOUT.glob("packages/*/src"))
    settings = {
        "include": [os.path.relpath(HERE / name, tmp_path) for name in SAMPLES],
        "extraPaths": sources,
        "typeCheckingMode": "strict",
        "pythonVersion": "3.10",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    project = tmp_path / "pyrightconfig.json"
    project.write_text(json.dumps(settings))
    command = ["node", str(checker), "--project", str(project), "--pythonpath", sys.executable, "--outputjson"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=570, check=False)
    told = json.loads(done.stdout)

    assert [
        (one["file"], one["range"]["start"]["line"] + 1, one["message"]) for one in told["generalDiagnostics"]
    ] == []
    assert told["summary"]["filesAnalyzed"] == len(SAMPLES)
