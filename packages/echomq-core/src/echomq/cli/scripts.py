"""``echomq lua export``."""

from pathlib import Path
from typing import Annotated

import typer

from echomq.scripts import export_scripts

__all__ = ["export"]


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Gets the files; made if absent.", file_okay=False)],
) -> None:
    """Write each script to DIR/<script>-<keys>.lua, with its includes in place."""
    print(f"{len(export_scripts(folder))} scripts written to {folder}")
