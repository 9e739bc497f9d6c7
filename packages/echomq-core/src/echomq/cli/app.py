"""The commands, and how their errors are told: one line, an exit code, no traceback.

``ECHOMQ_DEBUG=1`` shows the traceback all the same.
"""

import io
import os
import sys
from functools import cache
from typing import Annotated, Any, NoReturn

import typer

from echomq import plugins
from echomq.errors import EchoMQError, PluginError, UsageError

from . import FAILURE, INTERRUPTED, USAGE, version_text
from .acting import promote, remove, retry
from .check import check
from .console import printable
from .counts import counts
from .demo import demo
from .doctor import doctor
from .find import find
from .flow import flow
from .jobs import add
from .metrics import metrics
from .queues import clean, drain, list_queues, obliterate, pause, resume
from .scripts import export
from .show import show
from .top import top
from .worker import worker
from .workers import workers

__all__ = ["app", "run"]

app = typer.Typer(
    name="echomq",
    help="A job queue that Python, Node.js and others share.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
jobs = typer.Typer(help="The jobs of a queue: find, show, retry, promote, remove.")
queues = typer.Typer(help="The queues of a server: list, pause, resume, drain, clean, obliterate.")
scripts = typer.Typer(help="The Lua scripts that move jobs.")

app.command()(demo)
app.command()(worker)
app.command()(workers)
app.command()(add)
app.command()(counts)
app.command()(top)
app.command()(flow)
app.command()(doctor)
app.command()(check)
app.command()(metrics)
app.add_typer(jobs, name="jobs")
app.add_typer(queues, name="queues")
app.add_typer(scripts, name="lua")
for _command in (find, show, retry, promote, remove):
    jobs.command()(_command)
queues.command("list")(list_queues)
for _change in (pause, resume, drain, clean, obliterate):
    queues.command()(_change)
scripts.command()(export)


@jobs.callback(invoke_without_command=True)
@queues.callback(invoke_without_command=True)
@scripts.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    # That this function exists keeps a command a name of its own though it is the only one of its group.
    _show_commands(context)


def _show_commands(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version_text())
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  # its callback does the work
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _show_commands(context)


@cache
def add_commands_of_plugins() -> None:
    """Let plugins add their commands; one that fails is told by name, and the others stay."""
    for add_commands in plugins.extensions().commands:
        try:
            add_commands(app=app)
        except PluginError as error:
            print(f"echomq: warning: {_one_line(str(error))}", file=sys.stderr)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    add_commands_of_plugins()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names are Unicode, terminals and pipes not always
    try:
        # Outside of "standalone" mode an early exit comes back as a number.
        ended: Any = app(arguments, prog_name="echomq", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _leave_quietly()
    except Exception as error:
        if os.environ.get("ECHOMQ_DEBUG"):
            raise
        message, code = _told(error)
        print(f"echomq: error: {message}", file=sys.stderr)
        return code
    return ended if isinstance(ended, int) else 0


def _told(error: Exception) -> tuple[str, int]:
    """Return message and exit code.

    Raises:
        Exception: The error itself, if it is nothing that can be told in a line: a bug of ours.
    """
    told = getattr(error, "format_message", None)  # the parser's errors; their class is private to newer versions of it
    if told is not None:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "echomq"
        return f"{_one_line(told()).rstrip('.')}; {command} --help shows what there is", USAGE
    if isinstance(error, UsageError):
        return _one_line(str(error)), USAGE
    if isinstance(error, (EchoMQError, OSError)):
        return _one_line(str(error)), FAILURE
    raise error


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def _leave_quietly() -> NoReturn:
    """End as programs do whose reader went away (``echomq counts ... | head -1``)."""
    # The interpreter writes what is left at its end; it must not meet the closed pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(FAILURE)
