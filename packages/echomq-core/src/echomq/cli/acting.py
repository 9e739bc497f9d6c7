"""``echomq jobs retry``, ``promote`` and ``remove``: for some jobs, for those that match, or for all of a state."""

import json
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias

import attrs
import typer
from rich.text import Text

from echomq import codec, rerun, sync
from echomq.errors import JobNotFound, JobNotInState, ProtocolError, ScriptError, UsageError
from echomq.states import JobState

from . import FAILURE
from .console import open_console, print_table
from .filters import Data, Limit, Name, Reason, Since, Until, search_options
from .find import more_hint
from .opening import open_queue
from .parameters import PREFIX, Prefix, Url
from .tables import ask, jobs_table

__all__ = ["promote", "remove", "retry"]

QueueName: TypeAlias = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Ids: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The jobs.")]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All jobs of that state.")]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only show which jobs it would be.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")]

_LOOKS = 10**9
_PATIENCE_MS = 86_400_000
"""A change looks at all jobs of the state: what a search leaves out would be left undone without a word."""


def _ids(given: list[str] | None) -> tuple[str, ...]:
    return tuple(given or ())


@attrs.frozen
class Choice:
    """Which jobs are meant.

    Attributes:
        queue: Their queue.
        state: Where they are.
        ids: These, if any.
        everything: All of the state.
        filters: Those that match.
        limit: Most jobs to find by filters.
        dry_run: Only show them.
        as_json: Tell programs, not people.
    """

    queue: str
    state: JobState
    ids: tuple[str, ...] = attrs.field(converter=_ids)
    everything: bool
    filters: dict[str, Any]
    limit: int
    dry_run: bool
    as_json: bool

    def __attrs_post_init__(self) -> None:
        ways = (bool(self.ids), self.everything, any(value for value in self.filters.values()))
        if sum(ways) != 1:
            raise UsageError("say which jobs: some ID..., or --all, or filters such as --name and --since")


def retry(
    queue: QueueName,
    ids: Ids = None,
    everything: All = False,
    state: Annotated[str, typer.Option(help="failed or completed.")] = "failed",
    name: Name = None,
    data: Data = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 1_000,
    reset_attempts: Annotated[
        bool, typer.Option("--reset-attempts", help="Give them all their attempts again.")
    ] = False,
    lifo: Annotated[bool, typer.Option("--lifo", help="Put them first in line.")] = False,
    new_data: Annotated[str | None, typer.Option(metavar="JSON", help="Data that take the place of its own.")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Run failed (or completed) jobs of QUEUE again."""
    filters = search_options(name=name, data=data, reason=reason, since=since, until=until)
    choice = Choice(
        queue, _one_of(state, JobState.FAILED, JobState.COMPLETED), ids, everything, filters, limit, dry_run, as_json
    )
    if new_data is not None and len(choice.ids) != 1:
        raise UsageError("--new-data is for one job, named by its ID")
    options: dict[str, Any] = {"lifo": lifo, "reset_attempts": reset_attempts}
    options["data"] = rerun.KEEP if new_data is None else _json(new_data)
    with open_queue(url, queue, prefix) as opened:
        in_one = None if lifo or reset_attempts else (lambda: opened.retry_jobs(state=choice.state))
        _carry_out(opened, choice, "retried", lambda job_id: opened.retry(job_id, choice.state, **options), in_one)


def promote(
    queue: QueueName,
    ids: Ids = None,
    everything: All = False,
    name: Name = None,
    data: Data = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 1_000,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Let delayed jobs of QUEUE run now."""
    filters = search_options(name=name, data=data, reason=None, since=since, until=until)
    choice = Choice(queue, JobState.DELAYED, ids, everything, filters, limit, dry_run, as_json)
    with open_queue(url, queue, prefix) as opened:
        _carry_out(opened, choice, "promoted", opened.promote, opened.promote_jobs)


def remove(
    queue: QueueName,
    ids: Ids = None,
    everything: All = False,
    state: Annotated[str, typer.Option(help="Where they are; of no account with an ID.")] = "failed",
    name: Name = None,
    data: Data = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 1_000,
    keep_children: Annotated[bool, typer.Option("--keep-children", help="Leave their children alone.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Remove jobs of QUEUE, with their children; running ones are refused."""
    filters = search_options(name=name, data=data, reason=reason, since=since, until=until)
    choice = Choice(queue, JobState.of(state), ids, everything, filters, limit, dry_run, as_json)
    with open_queue(url, queue, prefix) as opened:
        if not choice.ids and not dry_run:
            ask(f"Remove {choice.state.value} jobs of queue {queue} for good?", yes)

        def remove_one(job_id: str) -> None:
            if opened.get_job(job_id) is None:  # removing nothing is no error to the server, but a typo here
                raise JobNotFound("removeJob", job_id)
            opened.remove(job_id, children=not keep_children)

        _carry_out(opened, choice, "removed", remove_one, None)


def _carry_out(
    queue: sync.Queue,
    choice: Choice,
    done: str,
    act: Callable[[str], None],
    act_on_all: Callable[[], None] | None,
) -> None:
    """Do it and tell it; with 1 as exit code if a job was refused."""
    if choice.everything and act_on_all is not None and not choice.dry_run:
        before = queue.get_job_counts(choice.state)[choice.state]
        act_on_all()
        _tell(choice, done, [], {}, count=before)
        return
    ids: Iterable[str] = choice.ids
    hint = ""
    if not choice.ids:
        limit = _LOOKS if choice.everything else choice.limit
        found = queue.search(choice.state, **choice.filters, limit=limit, max_looks=_LOOKS, timeout=_PATIENCE_MS)
        ids = [job.id for job in found.jobs]
        hint = "" if found.is_complete else more_hint(found)
        if choice.dry_run and not choice.as_json:
            print_table(jobs_table(found.jobs))
    if choice.dry_run:
        _tell(choice, f"would be {done}", list(ids), {}, hint=hint)
        return
    good, refused = [], {}
    for job_id in ids:
        try:
            act(job_id)
            good.append(job_id)
        except JobNotInState:
            refused[job_id] = f"job {job_id} is {queue.get_job_state(job_id).value}, not {choice.state.value}"
        except ScriptError as error:
            refused[job_id] = str(error)
    _tell(choice, done, good, refused, hint=hint)
    if refused:
        raise typer.Exit(FAILURE)


def _tell(
    choice: Choice, done: str, good: list[str], refused: dict[str, str], *, hint: str = "", count: int | None = None
) -> None:
    count = len(good) if count is None else count
    if choice.as_json:
        print(json.dumps({"done": done, "count": count, "ids": good, "refused": refused, "hint": hint or None}))
        return
    console = open_console()
    for reason in refused.values():
        console.print(Text.assemble(("✗ ", "bold red"), reason))
    told = f"{count:,} {'job' if count == 1 else 'jobs'} {done}"
    console.print(Text(f"{told}; {hint}" if hint else told, "green" if not refused else ""))


def _one_of(state: str, *allowed: JobState) -> JobState:
    found = JobState.of(state)
    if found not in allowed:
        raise UsageError(f"--state: expected {' or '.join(one.value for one in allowed)}, not {state!r}")
    return found


def _json(text: str) -> object:
    try:
        return codec.decode_json(text)
    except ProtocolError as error:
        raise UsageError(f"--new-data is {error}") from None
