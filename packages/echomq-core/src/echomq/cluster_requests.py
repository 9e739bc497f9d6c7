"""Which slot of a cluster a request is for, and what guards scripts whose slot moves. Pure.

A slot that moves key by key is a trap for scripts: they also reach for keys
that their KEYS do not name, and those may be gone already. So each script call
names one key more that never exists (:func:`guarded`). While its slot moves,
the server then answers TRYAGAIN or ASK instead of running half a script.

Source: https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
"""

from typing import Any, TypeVar

from .call import Argument, Batch, Command, Request, ScriptCall
from .errors import UsageError
from .hash_slots import hash_tag, key_slot

__all__ = ["can_ask", "guarded", "slot_of", "slots_of"]

T = TypeVar("T")

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
