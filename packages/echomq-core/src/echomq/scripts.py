"""The frozen Lua scripts: where they are, what they are called, what they hash to.

A script lives in one file, ``<name>-<number of keys>.lua``. A line
``--@include name`` is replaced by ``includes/name.lua``, once for each script
and in the order of first mention, so an include may rely on what it includes
itself. The expanded text is what is sent, hashed and exported.

The scripts travel inside the wheel (``echomq/lua``); an editable checkout
reads the repository's ``lua/`` so that an edit is effective at once.

Source: design.md section 6; ``lua/README.md``.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from .errors import UsageError

if TYPE_CHECKING:
    # Runtime homes differ: gone from here in 3.14, absent elsewhere in 3.10.
    from importlib.abc import Traversable

__all__ = ["Script", "export_scripts", "get_script", "load_scripts", "script_names"]

_FILE_NAME = re.compile(r"(?P<name>[A-Za-z0-9]+)-(?P<keys>\d+)\.lua")
_INCLUDE_LINE = re.compile(r"--@include\s+(?P<name>\w+)\s*")


@attrs.frozen(kw_only=True)
class Script:
    """One script, ready to be sent.

    Attributes:
        name: Name on the wire, without the number of keys: ``moveToActive``.
        key_count: How many KEYS the script takes.
        text: Lua source with all includes in place.
        sha1: Lower-case hexadecimal digest, as ``SCRIPT LOAD`` answers it.
    """

    name: str
    key_count: int
    text: str = attrs.field(repr=False)
    sha1: str

    @property
    def file_name(self) -> str:
        """Name of the file that holds the script, for example ``drain-5.lua``."""
        return f"{self.name}-{self.key_count}.lua"


def _lua_folder() -> Traversable:
    packaged = resources.files("echomq") / "lua"
    if packaged.is_dir():
        return packaged
    # An editable install: packages/echomq-core/src/echomq/scripts.py is five levels below.
    return Path(__file__).resolve().parents[4] / "lua"


def _expand(text: str, includes: Traversable, seen: set[str]) -> list[str]:
    lines: list[str] = []
    for line in text.splitlines():
        found = _INCLUDE_LINE.fullmatch(line)
        if found is None:
            lines.append(line)
        elif found["name"] not in seen:
            seen.add(found["name"])
            included = (includes / f"{found['name']}.lua").read_text("utf-8")
            lines.extend(_expand(included, includes, seen))
    return lines


def load_scripts(folder: Traversable) -> dict[str, Script]:
    """Read all scripts of a folder.

    Args:
        folder: Holds ``<name>-<keys>.lua`` files and ``includes/``.

    Returns:
        Scripts by name, sorted by name.
    """
    scripts = {}
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        found = _FILE_NAME.fullmatch(entry.name)
        if found is None:
            continue
        lines = _expand(entry.read_text("utf-8"), folder / "includes", set())
        text = "\n".join(lines) + "\n"
        scripts[found["name"]] = Script(
            name=found["name"],
            key_count=int(found["keys"]),
            text=text,
            sha1=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
        )
    return scripts


@cache
def _installed() -> dict[str, Script]:
    return load_scripts(_lua_folder())


def script_names() -> tuple[str, ...]:
    """Names of all installed scripts, sorted."""
    return tuple(_installed())


def get_script(name: str) -> Script:
    """Return the installed script of that name.

    Raises:
        UsageError: No such script is part of this release.
    """
    try:
        return _installed()[name]
    except KeyError:
        raise UsageError(f"no script is called {name!r}; there are: {', '.join(_installed())}") from None


def export_scripts(folder: Path) -> tuple[Path, ...]:
    """Write every installed script, its includes in place, to a file of its own.

    Args:
        folder: Gets ``<name>-<keys>.lua`` files in UTF-8; made if absent.

    Returns:
        The files written, sorted by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for script in _installed().values():
        path = folder / script.file_name
        # Bytes, lest a platform's line ends change the digest.
        path.write_bytes(script.text.encode())
        paths.append(path)
    return tuple(paths)
