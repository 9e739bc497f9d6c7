"""The terminal, or the file, that commands write to."""

import os
import re
from collections.abc import Iterable

import attrs
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table

__all__ = ["Cut", "open_console", "print_table", "printable"]

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_ENDLESS = 10_000


def printable(text: str) -> str:
    """Return a text without what would steer the terminal.

    Names, reasons and logs come from whoever may add jobs; in the terminal of
    who operates the queue they must move no cursor and set no title.
    """
    return _CONTROLS.sub("", text)


class _Console(Console):
    """Lets no text of a job steer the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not _CONTROLS.search(segment.text):
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def open_console(*, stderr: bool = False) -> Console:
    """Return a console; what goes to a file or a program is not folded, unless ``COLUMNS`` says how."""
    console = _Console(highlight=False, markup=False, stderr=stderr)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _ENDLESS
    return console


def print_table(table: Table, *below: RenderableType) -> None:
    """Print a table; where its least width does not fit, the terminal breaks the lines, and no column is lost."""
    console = open_console()
    width, console.width = console.width, max(console.width, _least_width(console, table))
    console.print(table, crop=False)
    console.width = width
    for part in below:
        console.print(part)


@attrs.frozen
class Cut:
    """Tables for a picture of the terminal's size: too wide ones end at its edge, and the first columns are seen."""

    tables: tuple[Table, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        """Yield the tables with an empty line between."""
        for number, table in enumerate(self.tables):
            if number:
                yield Segment.line()
            wide = options.update(width=max(options.max_width, _least_width(console, table)))
            for line in console.render_lines(table, wide, pad=False):
                yield from Segment.adjust_line_length(line, options.max_width, pad=False)
                yield Segment.line()


def _least_width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(width=_ENDLESS), table).minimum
