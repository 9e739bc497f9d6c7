"""The manifest of the frozen scripts: written, and held against the scripts.

``lua/manifest.toml`` names every script, its number of keys and the digest of its
expanded text, under the version of the contract all of them follow. A script
changes only together with its manifest, so that no change goes unnoticed.

Source: ``lua/README.md``; design.md section 6.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .scripts import Script

__all__ = ["CONTRACT", "manifest_differences", "manifest_text"]

CONTRACT = "6.7.0"
"""Version of the wire contract."""

_HEAD = f"""\
# The frozen scripts: number of keys and SHA-1 of the text with all includes in place.
# Written by `nox -s freeze`; never edited by hand.

contract = "{CONTRACT}"

[scripts]
"""
_CONTRACT_LINE = re.compile(r'contract = "(?P<version>[^"]*)"')
_SCRIPT_LINE = re.compile(r'(?P<name>\w+) = \{ keys = (?P<keys>\d+), sha1 = "(?P<sha1>[0-9a-f]{40})" \}')


def manifest_text(scripts: Iterable[Script]) -> str:
    """Return the manifest of these scripts, in TOML.

    Args:
        scripts: In any order; the manifest lists them by name.
    """
    lines = [
        f'{script.name} = {{ keys = {script.key_count}, sha1 = "{script.sha1}" }}\n'
        for script in sorted(scripts, key=lambda script: script.name)
    ]
    return _HEAD + "".join(lines)


def manifest_differences(manifest: str, scripts: Iterable[Script]) -> list[str]:
    """Tell where scripts and manifest disagree.

    Args:
        manifest: Text of ``manifest.toml``.
        scripts: What is there now.

    Returns:
        One readable line for each difference; none when all is frozen.
    """
    found: list[str] = []
    version = _CONTRACT_LINE.search(manifest)
    if version is None or version["version"] != CONTRACT:
        found.append(f"contract: the scripts follow {CONTRACT}, the manifest says {version and version['version']}")
    frozen = {line["name"]: (int(line["keys"]), line["sha1"]) for line in _SCRIPT_LINE.finditer(manifest)}
    present = {script.name: (script.key_count, script.sha1) for script in scripts}
    found += [f"{name}: frozen, but there is no such script" for name in sorted(frozen.keys() - present.keys())]
    found += [f"{name}: not in the manifest" for name in sorted(present.keys() - frozen.keys())]
    for name in sorted(frozen.keys() & present.keys()):
        if frozen[name] != present[name]:
            found.append(f"{name}: changed, {frozen[name]} is frozen and {present[name]} is there (keys, sha1)")
    return found
