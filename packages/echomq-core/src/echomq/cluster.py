"""Which node of a cluster a request goes to, and what to do when it is not served there. Pure.

A :class:`~echomq.slot_table.SlotTable` remembers which node owns which slot, and a
:class:`Journey` says, after each failed try of one request, where to try next:

* MOVED: the slot has another owner; remember it and go there at once.
* ASK: this one key has moved already, its slot not yet; ask there once.
* TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY: nothing ran; rest, and try again.
* No link, and nothing was written: ask the other nodes who owns the slot now.

Both shells share this module; they only send, wait and ask.

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

import re
from collections.abc import Iterable
from typing import TypeVar

import attrs

from .call import Command, Reply
from .cluster_requests import can_ask, guarded, slot_of, slots_of
from .driver import Address, ConnectionOptions
from .errors import (
    ConnectionClosed,
    ConnectionLost,
    DriverError,
    ServerNotReady,
    ServerRefused,
)
from .slot_table import ASK_SLOTS, FRESH_S, SlotTable, host_told

__all__ = [
    "ASKING",
    "ASK_SLOTS",
    "FRESH_S",
    "Journey",
    "SlotTable",
    "Step",
    "ask_ms",
    "can_ask",
    "guarded",
    "nobody_answered",
    "redirected",
    "slot_of",
    "slots_of",
]

T = TypeVar("T")

MAX_REDIRECTS = 16
"""So often one request follows MOVED and ASK before its caller gets the last answer."""

_REST_S = 0.02
_LONGEST_REST_S = 0.5

_REDIRECT = re.compile(r"\b(MOVED|ASK) (\d+) (\S*):(\d+)\b")

_RESTING = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})


def redirected(outcome: object) -> ServerRefused | None:
    """Return the outcome of a request if it says that nothing ran and another try may help."""
    if isinstance(outcome, ServerRefused) and outcome.prefix in {"MOVED", "ASK", *_RESTING}:
        return outcome
    return None


ASKING: Command[Reply] = Command(parts=("ASKING",), decode=lambda reply: reply, repeatable=True)
"""Announces a request that another node has sent here by ASK."""


@attrs.frozen(kw_only=True)
class Step:
    """What to do next for one request.

    Attributes:
        rest_s: Wait so long first.
        learn: Then ask the nodes for the table.
        node: Whom to send it to; None: the owner of its slot.
        asking: Announce it by ASKING.
    """

    rest_s: float = 0.0
    learn: bool = False
    node: Address | None = None
    asking: bool = False


FIRST = Step()


@attrs.define(eq=False, kw_only=True)
class Journey:
    """The way of one request through the cluster.

    Attributes:
        table: Who owns what; corrected on the way.
        slot: Where its keys live; None if any node will do.
        where: The cluster, for messages.
        due_s: When it must be over, on a monotonic clock.
        limit_ms: How long it may take, for messages.
        can_ask: Whether ASK is followed; else it is a reason to rest.
    """

    table: SlotTable
    slot: int | None
    where: str
    due_s: float
    limit_ms: int
    can_ask: bool = True
    _redirects: int = 0
    _rests: int = 0

    def left_ms(self, now_s: float) -> int:
        """Return how much time is left, at least one."""
        return max(1, round((self.due_s - now_s) * 1000))

    def after(self, error: DriverError, node: Address | None, now_s: float, dice: float) -> Step:
        """Return what to do after a failed try.

        Args:
            error: How it failed.
            node: Who was asked; None: nobody yet.
            now_s: On a monotonic clock.
            dice: A random number from 0 to 1.

        Raises:
            DriverError: Nothing more can be done.
        """
        if isinstance(error, ConnectionLost):
            return self._unreached(error, now_s, dice)
        refusal = redirected(error)
        if refusal is None:
            raise error
        if refusal.prefix in {"MOVED", "ASK"} and node is not None:
            return self._redirected(refusal, node, now_s, dice)
        return self._rest(error, now_s, dice, learn=refusal.prefix != "TRYAGAIN")

    def _unreached(self, error: ConnectionLost, now_s: float, dice: float) -> Step:
        self.table.doubt(now_s)
        if isinstance(error, ConnectionClosed) or error.may_have_run:
            raise error
        return self._rest(error, now_s, dice, learn=True)

    def _redirected(self, error: ServerRefused, node: Address, now_s: float, dice: float) -> Step:
        found = _REDIRECT.search(str(error))
        self._redirects += 1
        if found is None:
            raise error
        if self._redirects > MAX_REDIRECTS:
            raise self._given_up(error) from error
        target = Address(host_told(found[3], node), int(found[4]))
        if found[1] == "MOVED":
            self.table.move(int(found[2]), target)
            # Nodes that point at each other have not heard the news yet.
            return Step(node=target) if self._redirects <= 2 else self._rest(error, now_s, dice, learn=True)
        if self.can_ask:
            return Step(node=target, asking=True)
        self._redirects -= 1
        return self._rest(error, now_s, dice, learn=False)

    def _rest(self, error: DriverError, now_s: float, dice: float, *, learn: bool) -> Step:
        self._rests += 1
        pause_s = min(_LONGEST_REST_S, _REST_S * 2.0 ** min(self._rests - 1, 10)) * (0.5 + dice / 2)
        if now_s + pause_s >= self.due_s:
            raise self._given_up(error) from error
        return Step(rest_s=pause_s, learn=learn)

    def _given_up(self, error: DriverError) -> DriverError:
        told = f"{self.where} did not serve the request within {self.limit_ms} ms; the last try: {error}"
        if isinstance(error, ServerRefused):
            # Whatever sent it away: another try may be served.
            return ServerNotReady(told, prefix=error.prefix if error.prefix in _RESTING else "TRYAGAIN")
        return ConnectionLost(told)


def ask_ms(options: ConnectionOptions, table: SlotTable) -> int:
    """Return how long to wait for a node's table: a deaf one must leave time for others, within one deadline.

    It grows with each that did not answer in time, since they may be slow, or far away, and not deaf.
    """
    first_ms = max(50, min(1_000, options.deadline_ms // 4))
    return min(round(first_ms * 1.5 ** min(table.unanswered, 16)), max(first_ms, options.deadline_ms // 2))


def nobody_answered(where: str, errors: Iterable[DriverError]) -> DriverError:
    """Return the error of asking all nodes in vain: a refusal if there is one, since it needs the user."""
    told = list(errors)
    reasons = "; ".join(dict.fromkeys(map(str, told))) or "no node names an owner of slots"
    for error in told:
        if isinstance(error, ServerRefused) and not isinstance(error, ServerNotReady):
            advice = "cluster|slots must be allowed" if error.prefix == "NOPERM" else "is it a cluster at all?"
            return type(error)(f"{where} does not tell who owns which slots ({advice}): {reasons}", prefix=error.prefix)
    return ConnectionLost(f"no node of {where} tells who owns which slots: {reasons}")
