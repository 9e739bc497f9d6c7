"""``echomq doctor``."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from echomq import diagnosis
from echomq.clock import wall_ms
from echomq.diagnosis import Diagnosis, Finding, Severity
from echomq.driver import Connection
from echomq.errors import ConnectionLost
from echomq.keys import Keys
from echomq.sync.run import perform

from . import FAILURE
from .connecting import connected
from .console import open_console
from .opening import must_exist
from .parameters import PREFIX, Prefix, Url

__all__ = ["doctor"]

MARKS = {Severity.ERROR: ("✗", "bold red"), Severity.WARNING: ("!", "bold yellow"), Severity.INFO: ("·", "cyan")}


def doctor(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="Names of queues; none: all of the prefix.")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Carry out the plan. Without it nothing is changed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    budget: Annotated[
        int, typer.Option(min=1, metavar="IDS", help="Most ids to look at in each queue, and ten times as many keys.")
    ] = diagnosis.BUDGET,
    fail_on: Annotated[Severity, typer.Option(help="Exit with 1 from this severity on.")] = Severity.WARNING,
    url: Url = None,
    prefix: Prefix = PREFIX,
) -> None:
    """Say what is wrong with the server and each QUEUE, and what to do about it.

    Without --apply it only reads. Repairs are safe while workers run; what is shown is how things are afterwards.
    """
    with connected(url) as connection:
        found = _diagnosed(connection, queues, prefix, budget)
        repaired = _repaired(connection, found) if apply else None
        if repaired:
            found = _diagnosed(connection, queues, prefix, budget)
        if as_json:
            print(json.dumps(_as_json(found, repaired), indent=2))
        else:
            open_console().print(_shown(found, repaired))
        must_exist(connection, [Keys(name, prefix) for name in _unknown(found)])
    if found.worst is not None and found.worst.rank >= fail_on.rank:
        raise typer.Exit(FAILURE)


def _diagnosed(connection: Connection, queues: list[str] | None, prefix: str, budget: int) -> Diagnosis:
    names, missed = (queues, None) if queues else _found(connection, prefix, budget)
    found = perform(connection, diagnosis.diagnose_server(Keys(names[0] if names else "echomq-doctor", prefix)))
    if missed is not None:
        found += Diagnosis.of((), (f"queues could not be looked for: {missed}",))
    elif not names:
        found += Diagnosis.of((), (f"no queue with the prefix {prefix!r} was found",))
    for name in names:
        found += _diagnosed_queue(connection, Keys(name, prefix), budget)
    return found


def _found(connection: Connection, prefix: str, budget: int) -> tuple[list[str], ConnectionLost | None]:
    try:
        return perform(connection, diagnosis.find_queues(prefix, budget=budget)), None
    except ConnectionLost as error:
        if not connection.is_cluster:
            raise
        return [], error  # one master is gone, which is told; the others may be well


def _diagnosed_queue(connection: Connection, keys: Keys, budget: int) -> Diagnosis:
    try:
        return perform(connection, diagnosis.diagnose_queue(keys, now_ms=wall_ms(), budget=budget))
    except ConnectionLost as error:
        if not connection.is_cluster:
            raise
        silent = Finding(
            code="queue-unreachable",
            severity=Severity.ERROR,
            queue=keys.queue,
            summary="The master that holds this queue does not answer.",
            evidence=(str(error),),
            consequence="Its jobs stand still until it answers, or a replica has taken over.",
            advice="Look at that server.",
        )
        return Diagnosis.of((silent,), ())


def _unknown(found: Diagnosis) -> list[str]:
    return [finding.queue for finding in found.findings if finding.code == "no-queue" and finding.queue is not None]


def _repaired(connection: Connection, found: Diagnosis) -> dict[str, int]:
    """Carry out all repairs and return how many things each kind of finding had put right."""
    done: dict[str, int] = {}
    for finding in found.findings:
        if finding.repair is not None:
            done[finding.code] = done.get(finding.code, 0) + perform(connection, diagnosis.repair(finding.repair))
    return done


def _as_json(found: Diagnosis, repaired: dict[str, int] | None) -> dict[str, Any]:
    return {
        "worst": found.worst.value if found.worst else None,
        "findings": [_finding_json(finding) for finding in found.findings],
        "looked_at": list(found.looked_at),
        "repaired": repaired,
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "queue": finding.queue,
        "node": finding.node,
        "summary": finding.summary,
        "evidence": list(finding.evidence),
        "consequence": finding.consequence or None,
        "advice": finding.advice or None,
        "repair": finding.repair.action if finding.repair else None,
    }


def _shown(found: Diagnosis, repaired: dict[str, int] | None) -> RenderableType:
    parts: list[RenderableType] = []
    of_servers_first = sorted(found.findings, key=lambda finding: (finding.queue is not None, finding.node or ""))
    for subject in dict.fromkeys(map(_subject, of_servers_first)):
        parts.append(Text(subject, "bold"))
        parts += [part for finding in found.findings if _subject(finding) == subject for part in _told(finding)]
        parts.append(Text())
    parts += _plan(found, repaired)
    parts += [Text(line, "dim") for line in found.looked_at]
    return Group(*parts)


def _subject(finding: Finding) -> str:
    if finding.queue is not None:
        return f"queue {finding.queue}"
    return "server" if finding.node is None else f"server {finding.node}"


def _told(finding: Finding) -> Iterator[RenderableType]:
    mark, style = MARKS[finding.severity]
    yield Text.assemble("  ", (mark, style), " ", (finding.summary, "bold" if finding.severity.rank else ""))
    lines = [*((line, "dim") for line in finding.evidence), (finding.consequence, "")]
    for line, line_style in lines:
        if line:
            yield Padding(Text(line, line_style), (0, 0, 0, 4), expand=False)
    if finding.advice:
        yield Padding(Text(f"→ {finding.advice}", "green"), (0, 0, 0, 4), expand=False)


def _plan(found: Diagnosis, repaired: dict[str, int] | None) -> Iterator[RenderableType]:
    wanted = [finding for finding in found.findings if finding.repair is not None]
    if repaired is not None:
        done = ", ".join(f"{code}: {count}" for code, count in repaired.items())
        yield Text(f"Repaired: {done or 'there was nothing to repair'}.", "bold green")
    elif wanted:
        yield Text("Plan, carried out with --apply:", "bold")
        for finding in wanted:
            action = finding.repair.action if finding.repair else ""
            yield Text(f"  {finding.queue or 'server'}: {action}")
    counts = {severity: sum(finding.severity is severity for finding in found.findings) for severity in Severity}
    if not counts[Severity.ERROR] and not counts[Severity.WARNING]:
        yield Text("Nothing is wrong.", "bold green")
    else:
        told = (f"{counts[one]} {one.value}{'s' * (counts[one] != 1)}" for one in (Severity.ERROR, Severity.WARNING))
        yield Text(f"{', '.join(told)}.", "bold")
