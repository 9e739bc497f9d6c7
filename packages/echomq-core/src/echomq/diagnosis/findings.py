"""What a diagnosis says, and what it would do about it: values.

Source: issue "Operations", ``doctor``.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import attrs

from echomq.call import Command, ScriptCall
from echomq.plans import Plan

__all__ = ["Diagnosis", "Finding", "Repair", "Severity", "repair"]


class Severity(str, Enum):
    """How bad a finding is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        """0 for what is good to know, 2 for what costs jobs."""
        return list(Severity).index(self)


@attrs.frozen(kw_only=True)
class Repair:
    """What can be done about a finding, safely while workers run: each step looks again before it writes.

    Attributes:
        action: What it does, as an imperative sentence.
        steps: What is sent, in order; each answers how many things it is about.
        repeated: What is sent afterwards, until it answers 0: it does a part at a time.
    """

    action: str
    steps: tuple[ScriptCall[Any] | Command[Any], ...] = attrs.field(repr=False)
    repeated: ScriptCall[int] | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Finding:
    """Something about a queue or its server that its owner should know.

    Attributes:
        code: Names the kind of finding, for programs: ``"active-without-lock"``.
        severity: How bad it is.
        queue: The queue, without its prefix; None: it concerns the server.
        node: Address of the master it concerns, where the servers are a cluster.
        summary: What is the matter, as a sentence.
        evidence: What was seen.
        consequence: What comes of it.
        advice: What to do.
        repair: What :func:`repair` would do; None: nothing can be done from here.
    """

    code: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...] = ()
    consequence: str = ""
    advice: str = ""
    queue: str | None = None
    node: str | None = None
    repair: Repair | None = None


@attrs.frozen(kw_only=True)
class Diagnosis:
    """All findings, the worst first.

    Attributes:
        findings: See there.
        looked_at: What was looked at, and what was left out: one sentence each.
    """

    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Sequence[Finding], looked_at: Sequence[str]) -> "Diagnosis":
        """Return the diagnosis with its findings in order."""
        ordered = sorted(findings, key=lambda finding: -finding.severity.rank)
        return cls(findings=tuple(ordered), looked_at=tuple(looked_at))

    @property
    def worst(self) -> Severity | None:
        """The worst severity; None where nothing was found."""
        return self.findings[0].severity if self.findings else None

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """What can be repaired."""
        return tuple(finding.repair for finding in self.findings if finding.repair is not None)

    def __add__(self, other: "Diagnosis") -> "Diagnosis":
        """Return both as one."""
        return Diagnosis.of((*self.findings, *other.findings), (*self.looked_at, *other.looked_at))


def repair(wanted: Repair) -> Plan[int]:
    """Carry a repair out.

    Returns:
        How many things were put right; fewer than were found if they changed meanwhile.
    """
    done = 0
    for step in wanted.steps:
        done += int((yield step) or 0)
    while wanted.repeated is not None and (yield wanted.repeated):
        pass
    return done
