"""The same step on two databases, with the original scripts and with ours, and what then differs."""

import contextlib
from collections.abc import Callable
from typing import Any

import attrs
import redis

from differential.known import Outcome, is_known
from differential.original import original_scripts
from differential.soundness import unsound
from differential.steps import Call, Step
from echomq.scripts import get_script
from vectors.compare import plain_reply
from vectors.keyspace import Keyspace, RawClient, dump, load, meaning

__all__ = ["Twin"]

_TTL_SLACK_MS = 2_000
# These answer with the time a rate limit still has to run, which passes between the two calls.
_TTL_REPLIES = {"moveToActive", "moveToFinished", "moveJobFromActiveToWait", "getRateLimitTtl"}
_LONGEST_TTL_MS = 10_000_000


def _comparable_reply(script: str, reply: Any) -> Any:
    """A reply with hashes as dictionaries: the order of their fields is not part of the contract."""
    if not isinstance(reply, list) or not reply:
        return reply
    if script in ("moveToActive", "moveToFinished", "moveToDelayed", "getJobScheduler"):
        return [_hash(reply[0]), *reply[1:]]
    if script == "getJobs":
        return [[[job_id, _hash(fields)] for job_id, fields in jobs] for jobs in reply]
    return sorted(reply) if script == "moveStalledJobsToWait" else reply


def _hash(flat: Any) -> Any:
    return dict(zip(flat[::2], flat[1::2], strict=True)) if isinstance(flat, list) else flat


def _same_reply(script: str, original: Any, ours: Any) -> bool:
    if isinstance(original, list) and isinstance(ours, list):
        return len(original) == len(ours) and all(
            _same_reply(script, *pair) for pair in zip(original, ours, strict=True)
        )
    if script in _TTL_REPLIES and isinstance(original, int) and isinstance(ours, int):
        return original == ours or (max(original, ours) < _LONGEST_TTL_MS and abs(original - ours) < _TTL_SLACK_MS)
    return type(original) is type(ours) and bool(meaning(original) == meaning(ours))


def _same_entry(original: dict[str, Any], ours: dict[str, Any]) -> bool:
    if ("pttl" in original) != ("pttl" in ours):
        return False
    if abs(original.get("pttl", 0) - ours.get("pttl", 0)) > _TTL_SLACK_MS:
        return False
    return original["value"] == ours["value"] or (
        original["type"] == ours["type"] and bool(meaning(original["value"]) == meaning(ours["value"]))
    )


def _differing_keys(original: Keyspace, ours: Keyspace) -> list[str]:
    return sorted(
        key
        for key in original.keys() | ours.keys()
        if key not in original or key not in ours or not _same_entry(original[key], ours[key])
    )


def _our_text(name: str) -> str:
    return get_script(name).text


@attrs.define
class Twin:
    """Two databases that start equal.

    Attributes:
        original: Where the original scripts run.
        ours: Where ours run.
        our_text: Text of our script of a name.
        state: The keyspace of both, after the last step.
        known_count: Steps whose difference is a declared one, by reason.
    """

    original: RawClient
    ours: RawClient
    our_text: Callable[[str], str] = _our_text
    state: Keyspace = attrs.field(factory=dict)
    known_count: dict[str, int] = attrs.field(factory=dict)

    def clear(self) -> None:
        """Start afresh with two empty databases."""
        self.original.send("FLUSHDB")
        self.ours.send("FLUSHDB")
        self.state = {}

    def play(self, step: Step) -> str:
        """Do one step on both sides.

        Returns:
            What differs and is not a declared deviation, as readable text; empty when nothing does.
        """
        if not isinstance(step, Call):
            for client in (self.original, self.ours):
                # A shortened sequence may rename what is no longer there.
                with contextlib.suppress(redis.ResponseError):
                    client.send(*step.parts)
            self.state = dump(self.ours)
            return ""
        outcome = self._outcome(step)
        if step.faulty:
            return self._judge_faulty(outcome)
        if not outcome.keys and outcome.same_reply:
            self.state = outcome.ours
            return ""
        reason = is_known(outcome)
        if not reason:
            return outcome.told()
        self.known_count[reason] = self.known_count.get(reason, 0) + 1
        # Both, for the order inside a set depends on how it came to be.
        for client in (self.original, self.ours):
            load(client, outcome.ours)
        self.state = outcome.ours
        return ""

    def _judge_faulty(self, outcome: Outcome) -> str:
        """Ours must refuse a faulty call without a trace, or do something sound with it; then it is taken back."""
        if outcome.reply_ours == {"$error": True}:
            told = "" if outcome.untouched else "an error, yet something was written:\n"
        else:
            damaged = unsound(outcome.before)
            told = "\n".join(f"{key} {fault}" for key, fault in unsound(outcome.ours).items() if key not in damaged)
        if told:
            return f"{told}\n{outcome.told()}"
        for client in (self.original, self.ours):
            load(client, outcome.before)
        return ""

    def _outcome(self, step: Call) -> Outcome:
        args = step.raw_args()
        raw_original = self.original.run(original_scripts()[step.script], step.keys, args)
        raw_ours = self.ours.run(self.our_text(step.script), step.keys, args)
        original, ours = dump(self.original), dump(self.ours)
        reply_original, reply_ours = plain_reply(raw_original), plain_reply(raw_ours)
        return Outcome(
            step=step,
            before=self.state,
            reply_original=reply_original,
            reply_ours=reply_ours,
            error=" | ".join(str(raw) for raw in (raw_original, raw_ours) if isinstance(raw, Exception)),
            original=original,
            ours=ours,
            keys=tuple(_differing_keys(original, ours)),
            same_reply=_same_reply(
                step.script,
                _comparable_reply(step.script, reply_original),
                _comparable_reply(step.script, reply_ours),
            ),
        )
