"""The command line: ``echomq``, or ``python -m echomq``.

It is written with Typer and Rich, which the extra ``[cli]`` brings. Without them
the version can be asked and the scripts exported, as other tools need, and
everything else says what to install.

Source: design.md section 7; issue "The command line".
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

__all__ = ["FAILURE", "INTERRUPTED", "USAGE", "main", "version_text"]

FAILURE = 1
"""Exit code: it was tried and did not work."""

USAGE = 2
"""Exit code: it cannot work as it was asked."""

INTERRUPTED = 130
"""Exit code: Ctrl-C."""


def version_text() -> str:
    """Return what ``--version`` says."""
    return f"echomq {version('echomq-core')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: Without the program's name; None takes those of this process.

    Returns:
        Exit code: 0, :data:`FAILURE`, :data:`USAGE` or :data:`INTERRUPTED`.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    missing = [name for name in ("typer", "rich") if importlib.util.find_spec(name) is None]
    if missing:
        return _without_extra(given, missing)
    from .app import run

    return run(given)


def _without_extra(given: list[str], missing: list[str]) -> int:
    if given == ["--version"]:
        print(version_text())
        return 0
    if len(given) == 3 and given[:2] == ["lua", "export"] and not given[2].startswith("-"):
        from echomq.scripts import export_scripts

        print(f"{len(export_scripts(Path(given[2])))} scripts written to {given[2]}")
        return 0
    print(
        f"echomq: error: this needs {' and '.join(missing)}; next step: "
        'pip install "echomq-core[cli]" (without it: echomq lua export DIR, echomq --version)',
        file=sys.stderr,
    )
    return FAILURE
