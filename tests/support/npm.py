"""Packages for Node, installed by npm into the checkout's cache as locked in a folder of the tests."""

import functools
import shutil
import subprocess
from pathlib import Path

from support.not_run import missing
from support.server_files import CACHE, installing

__all__ = ["npm_folder"]


@functools.cache
def npm_folder(name: str, locked: Path, *, part: str) -> Path:
    """Return a folder with Node packages installed, or skip where Node is missing.

    Args:
        name: Of the folder in the cache.
        locked: Folder with ``package.json`` and ``package-lock.json``.
        part: What the packages are, as told where they cannot be had.
    """
    if not (shutil.which("node") and shutil.which("npm")):
        missing("Node", "no node and npm on PATH")
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (locked / "package-lock.json").read_bytes()
    installed = folder / "installed-lock.json"
    with installing(name):
        if not installed.exists() or installed.read_bytes() != wanted:
            _install(folder, locked, part)
            installed.write_bytes(wanted)
    return folder


def _install(folder: Path, locked: Path, part: str) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(locked / name, folder)
    npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, timeout=570, check=False)
    except subprocess.TimeoutExpired:
        missing(part, f"npm did not install {part} within 300 s")
    if done.returncode:
        reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
        missing(part, f"npm could not install {part}: {reason}")
