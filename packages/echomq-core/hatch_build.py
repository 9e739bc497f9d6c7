"""Puts the repository's Lua scripts into the sdist and the wheel.

They live on top of the repository, since they belong to all runtimes. A wheel
built from the sdist finds them inside the sdist instead. An editable install
gets none: it reads the repository's folder.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class LuaScripts(BuildHookInterface):  # type: ignore[type-arg]  # generic only in some hatchling releases
    """Includes ``lua/`` from where it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the scripts to the files of this build."""
        root = Path(self.root)
        inside, above = root / "lua", root.parents[1] / "lua"
        lua = inside if inside.is_dir() else above
        if not lua.is_dir():
            raise FileNotFoundError(f"the Lua scripts are neither in {inside} nor in {above}")
        if self.target_name == "sdist" and lua == above:
            build_data["force_include"][str(lua)] = "lua"
        elif self.target_name == "wheel" and version != "editable":
            build_data["force_include"][str(lua)] = "echomq/lua"
