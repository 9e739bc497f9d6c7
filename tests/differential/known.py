"""Where our scripts differ from the original on purpose: one table, with reasons.

A difference that no entry covers fails the differential test. An entry looks at
the whole outcome and says yes only to the difference it is about, so that it
asserts what we do instead. ``lua/README.md`` tells of each why no correct client
is affected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from differential.steps import Call
from vectors.keyspace import Keyspace

__all__ = ["KNOWN", "Outcome", "is_known"]

ERROR = {"$error": True}


@attrs.frozen(kw_only=True)
class Outcome:
    """A call whose replies or keyspaces may differ.

    Attributes:
        step: The call.
        before: The keyspace both had.
        reply_original: What the original replied.
        reply_ours: What ours replied.
        error: Texts of error replies.
        original: Keyspace after the original.
        ours: Keyspace after ours.
        keys: Keys that differ.
        same_reply: False when the replies differ.
    """

    step: Call
    before: Keyspace
    reply_original: Any
    reply_ours: Any
    error: str
    original: Keyspace
    ours: Keyspace
    keys: tuple[str, ...]
    same_reply: bool

    @property
    def untouched(self) -> bool:
        """Ours wrote nothing."""
        return _values(self.ours) == _values(self.before)

    def told(self) -> str:
        """What differs, as text."""
        lines = [f"{self.step!r}", f"  {self.error}"]
        if not self.same_reply:
            lines.append(f"  reply: original {self.reply_original!r}, ours {self.reply_ours!r}")
        for key in self.keys:
            lines.append(f"  {key}:")
            for name, side in (("before", self.before), ("original", self.original), ("ours", self.ours)):
                lines.append(f"    {name:9}{side.get(key)}")
        return "\n".join(lines)


def _values(keyspace: Keyspace) -> dict[str, Any]:
    return {key: entry["value"] for key, entry in keyspace.items()}


def _refused(outcome: Outcome) -> bool:
    return (
        outcome.step.script in {"moveToFinished", "retryJob", "moveToDelayed", "moveToWaitingChildren"}
        and outcome.reply_ours in (-1, -2, -3, -6)
        and outcome.same_reply
        and outcome.untouched
    )


def _refused_arguments(outcome: Outcome) -> bool:
    return (
        outcome.reply_ours == ERROR
        and outcome.untouched
        and (outcome.step.faulty or outcome.reply_original == ERROR)
    )


KNOWN: dict[str, Callable[[Outcome], bool]] = {
    "a refused call writes nothing": _refused,
    "arguments are checked before the first write": _refused_arguments,
}


def is_known(outcome: Outcome) -> str:
    """Reason of the declared deviation that covers the outcome, or nothing."""
    return next((reason for reason, covers in KNOWN.items() if covers(outcome)), "")
