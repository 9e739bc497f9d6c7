"""Finds the text files below a folder."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

__all__ = ["Skipped", "text_files"]

PROBE_BYTES = 8_192
SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules"})


@attrs.define(kw_only=True)
class Skipped:
    """What was passed over.

    Attributes:
        binary_count: Files with a zero byte near their start.
        unreadable_count: Files and folders that could not be opened, and names that are not UTF-8.
    """

    binary_count: int = 0
    unreadable_count: int = 0

    def unreadable(self, _error: OSError) -> None:
        """Count something that could not be opened."""
        self.unreadable_count += 1


def text_files(folder: Path, skipped: Skipped) -> Iterator[Path]:
    """Find one file after the other; nothing is kept, so the folder may be of any size.

    Hidden folders, links and what is no regular file are left out.

    Args:
        folder: Where to look.
        skipped: Counts on the way.
    """
    for place, folders, names in os.walk(folder, onerror=skipped.unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(place, name)
            if _is_text(path, skipped):
                yield path


def _is_text(path: Path, skipped: Skipped) -> bool:
    try:
        str(path).encode()
        # Before it is opened: opening a named pipe would wait for its writer.
        if not stat.S_ISREG(path.lstat().st_mode):
            return False
        with path.open("rb") as file:
            is_binary = b"\0" in file.read(PROBE_BYTES)
    except (OSError, UnicodeEncodeError):
        skipped.unreadable_count += 1
        return False
    skipped.binary_count += is_binary
    return not is_binary
