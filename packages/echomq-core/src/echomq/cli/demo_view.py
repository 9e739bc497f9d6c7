"""How the demo looks: live on a terminal, in plain lines elsewhere."""

import time
from typing import Protocol

import attrs
from rich import box
from rich.align import Align
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from echomq.demo.run import Demo
from echomq.demo.stories import Story
from echomq.demo.tally import FileResult, percentile
from echomq.states import JobState

from .tables import COLOURS

__all__ = ["LiveView", "PlainView", "View", "results", "title_of"]

SHOWN_STATES = (
    JobState.WAITING,
    JobState.PRIORITIZED,
    JobState.DELAYED,
    JobState.ACTIVE,
)
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
HASH_DIGITS = 8
WIDEST = 110


class View(Protocol):
    """Shows a demo while it runs."""

    def show(self, demo: Demo) -> None:
        """Show how far it is."""
        ...

    def close(self) -> None:
        """Leave the last picture standing."""
        ...


class LiveView:
    """A picture that is drawn again and again."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._width = min(console.width, WIDEST)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, demo: Demo) -> None:
        """See :class:`View`."""
        self._live.update(_picture(demo, self._title, self._width), refresh=True)

    def close(self) -> None:
        """See :class:`View`."""
        self._live.stop()


class PlainView:
    """One line a second, and one for each turn of a special job."""

    EVERY_S = 1.0

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._told: dict[str, str] = {}
        self._next_s = 0.0
        console.print(f"EchoMQ demo: {title}", soft_wrap=True)

    def show(self, demo: Demo) -> None:
        """See :class:`View`."""
        for name, story in demo.stories.items():
            turn = story.text.partition(" in ")[0]  # without what is only counted down
            if story.text and self._told.get(name) != turn:
                self._told[name] = turn
                self._line(demo, f"{story.title}: {story.text}")
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + self.EVERY_S
            total = demo.total_count or demo.added_count
            states = ", ".join(f"{demo.counts.get(state, 0)} {state.value}" for state in SHOWN_STATES)
            self._line(demo, f"{demo.tally.finished_count} of {total} jobs done; {states}")

    def close(self) -> None:
        """See :class:`View`."""

    def _line(self, demo: Demo, text: str) -> None:
        self._console.print(f"{time.monotonic() - demo.began_s:5.1f} s  {text}", soft_wrap=True, highlight=False)


def _picture(demo: Demo, title: str, width: int) -> RenderableType:
    parts = [_progress(demo), Text(), _states(demo), Text(), _stories(demo), Text(), _recent(demo)]
    return Panel(
        Group(*parts),
        title=f"[bold]EchoMQ demo[/]  {title}",
        title_align="left",
        subtitle=Text(_end_of(str(demo.folder), width - 8), "dim"),
        subtitle_align="right",
        border_style="cyan",
        padding=(1, 2),
        width=width,
    )


@attrs.frozen
class _Path:
    """A path that loses its beginning where there is no room: its end tells more."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(_end_of(self.text, options.max_width))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(10, len(self.text)), len(self.text))


def _end_of(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


def _progress(demo: Demo) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 2))
    if not demo.is_working:
        frame = SPINNER[int(time.monotonic() * 10) % len(SPINNER)]
        table.add_row(Text(f"{frame} worker processes are starting", "yellow"))
        return table
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="dim", min_width=6)
    done, total = demo.tally.finished_count, demo.total_count or demo.added_count
    text = Text.assemble((f"{done:,}", "bold green"), f" of {total:,} jobs")
    bar = ProgressBar(total=max(1, total), completed=done, complete_style="green", finished_style="green")
    table.add_row(bar, text, f"{time.monotonic() - demo.began_s:.1f} s")
    return table


def _states(demo: Demo) -> RenderableType:
    table = Table.grid(expand=True)
    cells = []
    shown = {**demo.counts, JobState.COMPLETED: demo.tally.completed_count, JobState.FAILED: demo.tally.failed_count}
    for state in (*SHOWN_STATES, JobState.COMPLETED, JobState.FAILED):
        table.add_column(ratio=1, justify="center", no_wrap=True)
        count = shown.get(state, 0)
        colour = COLOURS[state]
        number = Text(f"{count:,}", f"bold {colour}" if count else "dim")
        cells.append(Group(Align.center(number), Align.center(Text(state.value, colour if count else "dim"))))
    table.add_row(*cells)
    return table


def _stories(demo: Demo) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 2))
    table.add_column(min_width=1)
    table.add_column(min_width=max((len(story.title) for story in demo.stories.values()), default=0), style="bold")
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for story in demo.stories.values():
        table.add_row(_mark(story), story.title, Text(story.text, "" if story.is_over else "yellow"))
    return table


def _mark(story: Story) -> Text:
    if not story.is_over:
        return Text("●", "yellow")
    return Text("✓", "green") if story.is_good else Text("✗", "red")


def _recent(demo: Demo) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 2))
    table.add_column(min_width=1)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
    table.add_column(justify="right", no_wrap=True, min_width=12)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=2, style="dim")
    table.add_column(justify="right", no_wrap=True, style="dim", min_width=5)
    table.add_column(no_wrap=True, style="dim", min_width=9)
    for result in reversed(demo.tally.recent):
        words = ", ".join(word for word, _ in result.frequent)
        size = Text.assemble(f"{result.word_count:,}", (" words", "dim"))
        table.add_row(Text("✓", "green"), _Path(result.path), size, Text(words), f"{result.took_ms} ms", result.process)
    for _ in range((demo.tally.recent.maxlen or 0) - len(demo.tally.recent)):
        table.add_row("")  # lest the picture jump
    return table


def results(demo: Demo, width: int) -> RenderableType:
    """Return what the jobs found out, and what happened.

    Args:
        demo: One that has ended.
        width: Columns of the terminal.
    """
    shown = min(width, WIDEST)
    return Group(_largest(demo.tally.largest, shown), _happened(demo, shown))


def _largest(files: list[FileResult], width: int) -> RenderableType:
    if not files:
        return Text("\nNo text file was found.\n", "yellow")
    table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", width=width, padding=(0, 1), pad_edge=False)
    table.add_column("largest files", overflow="ellipsis", no_wrap=True, ratio=4)
    table.add_column("lines", justify="right", no_wrap=True, min_width=6)
    table.add_column("words", justify="right", no_wrap=True, min_width=7)
    table.add_column("most frequent words", overflow="ellipsis", no_wrap=True, ratio=4)
    table.add_column("sha256", no_wrap=True, style="dim", min_width=HASH_DIGITS + 1)
    for file in files:
        frequent = Text(", ").join(Text.assemble(word, (f" {count:,}", "dim")) for word, count in file.frequent)
        shown_hash = f"{file.sha256[:HASH_DIGITS]}…"
        table.add_row(_Path(file.path), f"{file.line_count:,}", f"{file.word_count:,}", frequent, shown_hash)
    return table


def _happened(demo: Demo, width: int) -> RenderableType:
    tally, skipped = demo.tally, demo.skipped
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    failed = f"[red]{tally.failed_count:,} failed[/]" if tally.failed_count else "0 failed"
    table.add_row("jobs", f"{demo.added_count:,} added, {tally.completed_count:,} completed, {failed}, 0 lost")
    table.add_row("attempts", f"{tally.attempt_count:,}, {tally.retry_count:,} of them retries")
    for story in demo.stories.values():
        table.add_row(Text.assemble("  ", (story.title, "not bold")), Text(story.text))
    p50, p99 = (percentile(tally.latencies_ms, share) for share in (0.5, 0.99))
    table.add_row("latency", f"p50 [bold]{p50:,} ms[/], p99 [bold]{p99:,} ms[/], from added to finished")
    table.add_row("rate", f"[bold]{tally.per_s:,.0f}[/] files a second{_pace_note(demo)}")
    table.add_row("workers", ", ".join(f"{process}: {count:,}" for process, count in sorted(tally.by_process.items())))
    table.add_row("skipped", f"{skipped.binary_count:,} binary and {skipped.unreadable_count:,} unreadable files")
    title = f"[bold green]✓[/] [bold]{tally.finished_count:,} jobs done, none lost[/]"
    return Panel(table, title=title, title_align="left", border_style="green", padding=(1, 2), width=width)


def _pace_note(demo: Demo) -> str:
    return f", spread over {demo.pace_s:g} s [dim](--pace 0: full speed)[/]" if demo.is_paced else ""


def title_of(server: str, processes: int) -> str:
    """Return what the demo runs on, in a few words."""
    return f"{server}, {processes} worker process{'es' * (processes > 1)}"
