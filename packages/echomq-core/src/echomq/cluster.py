"""Which node of a cluster a request goes to, and what to do when it is not served there. Pure.

A :class:`SlotTable` remembers which node owns which slot, and a
:class:`Journey` says, after each failed try of one request, where to try next:

* MOVED: the slot has another owner; remember it and go there at once.
* ASK: this one key has moved already, its slot not yet; ask there once.
* TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY: nothing ran; rest, and try again.
* No link, and nothing was written: ask the other nodes who owns the slot now.

A slot that moves key by key is a trap for scripts: they also reach for keys
that their KEYS do not name, and those may be gone already. So each script call
names one key more that never exists (:func:`guarded`). While its slot moves,
the server then answers TRYAGAIN or ASK instead of running half a script.

Both shells share this module; they only send, wait and ask.

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import attrs

from .call import Argument, Batch, Command, Reply, Request, ScriptCall
from .driver import Address, ConnectionOptions
from .errors import (
    ConnectionClosed,
    ConnectionLost,
    DriverError,
    ProtocolError,
    ServerNotReady,
    ServerRefused,
    UsageError,
)
from .hash_slots import SLOT_COUNT, hash_tag, key_slot

__all__ = [
    "ASKING",
    "ASK_SLOTS",
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

FRESH_S = 0.1
"""A table this young is not asked for again, however many requests want it."""

_REST_S = 0.02
_LONGEST_REST_S = 0.5

_REDIRECT = re.compile(r"\b(MOVED|ASK) (\d+) (\S*):(\d+)\b")

_RESTING = frozenset({"TRYAGAIN", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"})

_KEYLESS = frozenset(
    [
        *(
            "PING",
            "INFO",
            "CLIENT",
            "SCRIPT",
            "TIME",
            "CONFIG",
            "HELLO",
            "ECHO",
            "ACL",
            "CLUSTER",
            "COMMAND",
            "FLUSHALL",
        ),
        *("LATENCY", "MEMORY", "MODULE", "ROLE", "WAIT", "WAITAOF", "DBSIZE", "SLOWLOG", "ASKING", "READONLY"),
    ]
)
_FIRST_KEY = {"SCAN": 3, "EVAL": 3, "EVALSHA": 3, "FCALL": 3, "OBJECT": 2, "XGROUP": 2, "XINFO": 2}
"""Where the first key stands, if not right after the name; of SCAN it is the pattern, whose hash tag tells the slot."""


def _text(part: Argument) -> str:
    return part.decode("utf-8", "surrogateescape") if isinstance(part, bytes) else str(part)


def _routing_key(request: Request[Any]) -> str | None:
    """Return the first key of a request; None if any node will do."""
    if isinstance(request, ScriptCall):
        return request.keys[0] if request.keys else None
    if request.near is not None:
        return request.near
    parts = request.parts
    name = _text(parts[0]).upper()
    if name in _KEYLESS or (name in {"EVAL", "EVALSHA", "FCALL"} and not int(parts[2])):
        return None
    at = _FIRST_KEY.get(name, 1)
    if name in {"XREAD", "XREADGROUP"}:
        at = [_text(part).upper() for part in parts].index("STREAMS") + 1
    return _text(parts[at]) if at < len(parts) else None


def slot_of(request: Request[Any]) -> int | None:
    """Return the slot a request goes to; None if it names no key, so that any node will do.

    Raises:
        UsageError: A script of several keys has no hash tag in them.
    """
    key = _routing_key(request)
    if isinstance(request, ScriptCall) and len(request.keys) > 1 and hash_tag(request.keys[0]) is None:
        raise UsageError(
            f"{request.script}: key {key!r} has no hash tag, and a cluster would spread the keys of its queue over "
            "many nodes; put braces around the prefix or the name of the queue, such as the prefix '{bull}'"
        )
    return None if key is None else key_slot(key)


def slots_of(batch: Batch) -> dict[int | None, list[int]]:
    """Return which requests of a batch go to which slot, by their place in it.

    Raises:
        UsageError: The batch is atomic and needs more than one slot; names two of its keys.
    """
    places: dict[int | None, list[int]] = {}
    for place, request in enumerate(batch.requests):
        places.setdefault(slot_of(request), []).append(place)
    if batch.atomic and len(places) > 1:
        one, other = (_routing_key(batch.requests[found[0]]) for found in list(places.values())[:2])
        raise UsageError(
            f"the keys {one!r} and {other!r} of one transaction live on different slots of the cluster; "
            "give their queues the same hash tag, such as the prefix '{bull}'"
        )
    return places


def guarded(request: Request[T]) -> Request[T]:
    """Return a request that a cluster does not carry out while the slot of its keys moves key by key."""
    if not isinstance(request, ScriptCall) or not request.keys or hash_tag(request.keys[0]) is None:
        return request
    return ScriptCall(
        script=request.script,
        keys=(*request.keys, f"{request.keys[0]}:moving"),
        args=request.args,
        decode=request.decode,
        repeatable=request.repeatable,
    )


def can_ask(request: Request[Any]) -> bool:
    """Tell whether ASK helps: not with scripts (the guard is missing there too), nor with reads that block."""
    return isinstance(request, Command) and not request.block_ms


def redirected(outcome: object) -> ServerRefused | None:
    """Return the outcome of a request if it says that nothing ran and another try may help."""
    if isinstance(outcome, ServerRefused) and outcome.prefix in {"MOVED", "ASK", *_RESTING}:
        return outcome
    return None


def _same(reply: Reply) -> Reply:
    return reply


ASK_SLOTS: Command[Reply] = Command(parts=("CLUSTER", "SLOTS"), decode=_same, repeatable=True)
"""Asks a node who owns which slots; the reply goes to :meth:`SlotTable.learn`."""

ASKING: Command[Reply] = Command(parts=("ASKING",), decode=_same, repeatable=True)
"""Announces a request that another node has sent here by ASK."""


@attrs.define(eq=False)
class SlotTable:
    """Who owns which slot, as far as is known; shared by all connections made from one source.

    Attributes:
        seeds: Nodes that the user named.
        nodes: All nodes that were heard of, replicas too.
        is_doubted: A node could not be reached: ask before the next request.
        learned_at_s: When it was last learned, on a monotonic clock.
    """

    seeds: tuple[Address, ...]
    nodes: tuple[Address, ...] = ()
    is_doubted: bool = True
    learned_at_s: float = float("-inf")
    _owners: list[Address | None] = attrs.field(factory=lambda: [None] * SLOT_COUNT)

    def owner(self, slot: int | None) -> Address:
        """Return who owns a slot; any master where no slot is given.

        Raises:
            ServerNotReady: Nobody does.
        """
        found = self._owners[slot] if slot is not None else next((one for one in self._owners if one), None)
        if found is None:
            where = "no slot" if slot is None else f"slot {slot}"
            raise ServerNotReady(f"CLUSTERDOWN {where} of the cluster is served by a node", prefix="CLUSTERDOWN")
        return found

    def candidates(self, dice: Sequence[float]) -> list[Address]:
        """Return whom to ask for the table, each once: known nodes in an order of chance, then the seeds.

        Args:
            dice: Random numbers from 0 to 1, at least one.
        """
        ranked = sorted(enumerate(self.nodes), key=lambda one: dice[one[0] % len(dice)])
        return list(dict.fromkeys([*(address for _, address in ranked), *self.seeds]))

    def learn(self, reply: Reply, asked: Address, now_s: float) -> bool:
        """Take over the answer to CLUSTER SLOTS; False if it names no owner.

        Args:
            reply: As it came.
            asked: Who answered: nodes without a host of their own are at this one's.
            now_s: On a monotonic clock.
        """
        owners: list[Address | None] = [None] * SLOT_COUNT
        nodes: dict[Address, None] = {}
        try:
            for first, last, *places in reply:
                found = [Address(_host(place[0], asked), int(place[1])) for place in places]
                owners[first : last + 1] = [found[0]] * (last + 1 - first)
                nodes.update(dict.fromkeys(found))
        except (TypeError, ValueError, IndexError) as error:
            raise ProtocolError(f"{asked} answered CLUSTER SLOTS by {reply!r:.200}") from error
        if not nodes:
            return False
        self._owners, self.nodes = owners, tuple(nodes)
        self.is_doubted, self.learned_at_s = False, now_s
        return True

    def is_fresh(self, now_s: float) -> bool:
        """Tell whether asking again would only burden the cluster."""
        return now_s - self.learned_at_s < FRESH_S

    def doubt(self, now_s: float) -> None:
        """Note that a node could not be reached: whoever sends next asks for the table first."""
        self.is_doubted = self.is_doubted or not self.is_fresh(now_s)

    def move(self, slot: int, owner: Address) -> None:
        """Note that a node said who else owns a slot."""
        self._owners[slot] = owner
        if owner not in self.nodes:
            self.nodes = (*self.nodes, owner)


def _host(told: object, asked: Address) -> str:
    host = told.decode() if isinstance(told, bytes) else str(told or "")
    return asked.host if host in {"", "?"} else host


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
        target = Address(_host(found[3], node), int(found[4]))
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


def ask_ms(options: ConnectionOptions) -> int:
    """Return how long to wait for a node's table: a deaf one must leave time for others, within one deadline."""
    return max(50, min(1_000, options.deadline_ms // 4))


def nobody_answered(where: str, errors: Iterable[DriverError]) -> DriverError:
    """Return the error of asking all nodes in vain: a refusal if there is one, since it needs the user."""
    told = list(errors)
    reasons = "; ".join(dict.fromkeys(map(str, told))) or "no node names an owner of slots"
    for error in told:
        if isinstance(error, ServerRefused) and not isinstance(error, ServerNotReady):
            advice = "cluster|slots must be allowed" if error.prefix == "NOPERM" else "is it a cluster at all?"
            return type(error)(f"{where} does not tell who owns which slots ({advice}): {reasons}", prefix=error.prefix)
    return ConnectionLost(f"no node of {where} tells who owns which slots: {reasons}")
