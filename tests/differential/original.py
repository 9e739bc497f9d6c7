"""The scripts of npm bullmq 6.7.0, as opaque texts that are only ever run."""

import functools
import json
import subprocess
import tempfile
from pathlib import Path

from support.peer import node_folder

__all__ = ["CONTRACT", "original_scripts"]

CONTRACT = "6.7.0"
_DUMP = Path(__file__).parents[1] / "support" / "node" / "dump_scripts.cjs"


@functools.cache
def original_scripts() -> dict[str, str]:
    """Texts by name; skips where Node is missing."""
    modules = node_folder() / "node_modules"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "scripts.json"
        subprocess.run(["node", str(_DUMP), str(modules), str(out)], check=True, timeout=60)
        found = json.loads(out.read_text("utf-8"))
    assert found["version"] == CONTRACT, f"the contract is {CONTRACT}, installed is bullmq {found['version']}"
    return {script["name"]: script["content"] for script in found["scripts"]}
