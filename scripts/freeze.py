"""Write ``lua/manifest.toml``, or with ``--check`` only tell whether it still holds."""

import sys
from pathlib import Path

from echomq.freeze import manifest_differences, manifest_text
from echomq.scripts import load_scripts

LUA = Path(__file__).resolve().parents[1] / "lua"
MANIFEST = LUA / "manifest.toml"


def main(args: list[str]) -> int:
    """Freeze or check; the return value is the exit code."""
    scripts = load_scripts(LUA).values()
    differences = manifest_differences(MANIFEST.read_text("utf-8") if MANIFEST.exists() else "", scripts)
    for difference in differences:
        print(difference)
    if "--check" in args:
        return 1 if differences else 0
    MANIFEST.write_text(manifest_text(scripts), "utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
