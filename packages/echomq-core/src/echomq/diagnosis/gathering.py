"""Plans that look at a server and at a queue; they only read.

Bounded, whatever the size of the queue: pages of 500 ids or keys, at most
``budget`` ids and ten times as many keys, at most 200 odd ids of a kind. What
looks odd is looked at again in a single moment, since jobs move meanwhile.

Source: issue "Operations", ``doctor``; protocol spec 01 section 2.
"""

from collections.abc import Sequence
from typing import Any

from echomq import codec, replies
from echomq.call import Argument, Batch
from echomq.calls.remove import glob_escaped
from echomq.errors import ConnectionLost, EchoMQError, ServerRefused
from echomq.hash_slots import hash_tag
from echomq.keys import Keys
from echomq.plans import Plan

from .asking import as_pairs, raw, read_info
from .facts import LISTS, PLACES, QueueFacts, ServerFacts
from .nodes import Master, find_masters
from .relations import odd_parents, stopped_schedulers, stray_deduplication
from .rights import needed_commands
from .sampling import odd_keys, sample, scan, standings

__all__ = ["find_queues", "look_at_queue", "look_at_server"]

_SETTINGS = ("appendfsync", "save", "min-replicas-to-write", "maxclients")


def look_at_server(keys: Keys, master: Master | None = None) -> Plan[ServerFacts]:
    """Ask a server about itself.

    Args:
        keys: A queue, whose key space the user must be allowed to use.
        master: Which, of a cluster.
    """
    where, near = (None, None) if master is None else (master.where, master.near)
    asked = [raw("INFO", near=near), *(raw("CONFIG", "GET", name, near=near) for name in _SETTINGS)]
    try:
        info, *settings = yield Batch(requests=tuple(asked))
        refused = yield from _refused(_spare_key(keys, master))
    except ConnectionLost as error:
        if master is None:
            raise
        return ServerFacts(info={}, settings={}, refused={}, node=where, silence=str(error))
    if isinstance(info, EchoMQError):
        info = b""
    found: dict[str, str] = {}
    for setting in settings:
        if not isinstance(setting, EchoMQError):
            found.update(as_pairs(setting))
    return ServerFacts(info=read_info(info), settings=found, refused=refused, node=where)


def _spare_key(keys: Keys, master: Master | None) -> str | None:
    """Return a key of the queues' key space that nobody uses; None if this master cannot have one."""
    if master is None or master.owns(keys.base):
        return f"{keys.base}echomq-doctor"
    return None if hash_tag(keys.prefix) else f"{keys.prefix}:{master.near}:echomq-doctor"


def _refused(key: str | None) -> Plan[dict[str, str]]:
    """Find out which commands this user may not run, without running any: in a transaction that is thrown away."""
    if key is None:
        return {}
    first, last = raw("MULTI", near=key), raw("DISCARD", near=key)
    for outcome in (yield Batch(requests=(first, last))):
        if isinstance(outcome, ServerRefused):
            return {"MULTI": str(outcome)}
    commands = needed_commands(key)
    _, *outcomes, _ = yield Batch(requests=(first, *(raw(*command, near=key) for command in commands), last))
    return {
        _name(command): str(outcome)
        for command, outcome in zip(commands, outcomes, strict=True)
        if isinstance(outcome, ServerRefused)
    }


def _name(command: Sequence[Argument]) -> str:
    return " ".join(map(str, command[:2])) if command[0] in ("CLIENT", "SCRIPT") else str(command[0])


def find_queues(prefix: str, *, budget: int) -> Plan[list[str]]:
    """Find the queues of a prefix, by their settings records.

    Args:
        prefix: Name space of the queues.
        budget: A tenth of how many keys to go through, about; of each master, in a cluster.

    Raises:
        ConnectionLost: A master does not answer, so that there may be more.
    """
    start = f"{prefix}:"
    suffix = ":meta"
    found: set[str] = set()
    layout = None if hash_tag(prefix) else (yield from find_masters())
    for near in [start] if layout is None else [master.near for master in layout.masters]:
        cursor = "0"
        for _ in range(max(1, budget // 100)):
            reply = yield raw("SCAN", cursor, "MATCH", f"{glob_escaped(start)}*{suffix}", "COUNT", 1_000, near=near)
            next_cursor, page = replies.rows(reply, 2)
            cursor, keys = replies.text(next_cursor), replies.texts(page)
            found |= {key[len(start) : -len(suffix)] for key in keys}
            if cursor == "0":
                break
    return sorted(name for name in found if name and ":" not in name)


def look_at_queue(keys: Keys, *, now_ms: int, budget: int) -> Plan[QueueFacts]:
    """Look at a queue.

    Args:
        keys: The queue.
        now_ms: The present.
        budget: Most ids to look at.
    """
    facts: dict[str, Any] = yield from _overview(keys, now_ms)
    sampled = yield from sample(keys, facts["counts"], budget)
    found, scanned_all = yield from scan(keys, budget * 10)
    sampled.odd += yield from odd_keys(keys, found, sampled, facts["counts"])
    return QueueFacts(
        keys=keys,
        now_ms=now_ms,
        looked_at=sampled.looked_at,
        legacy_markers=sampled.markers,
        standings=(yield from standings(keys, dict.fromkeys(sampled.odd))),
        parents=(yield from odd_parents(keys, sorted(sampled.of("waiting-children")), now_ms)),
        stopped_schedulers=(yield from stopped_schedulers(keys)),
        deduplication=(yield from stray_deduplication(keys, found)),
        scanned_all=scanned_all,
        **facts,
    )


def _overview(keys: Keys, now_ms: int) -> Plan[dict[str, Any]]:
    sizes = {place: raw("LLEN" if place in LISTS else "ZCARD", keys.base + place) for place in PLACES}
    due = now_ms * 4096
    asked = {
        **sizes,
        "meta": raw("HGETALL", keys.meta),
        "events": raw("XLEN", keys.events),
        "overdue": raw("ZCOUNT", keys.delayed, "-inf", due),
        "first": raw("ZRANGEBYSCORE", keys.delayed, "-inf", due, "WITHSCORES", "LIMIT", 0, 1),
        "clients": raw("CLIENT", "LIST", near=keys.marker),
    }
    outcomes = dict(zip(asked, (yield Batch(requests=tuple(asked.values()))), strict=True))
    unreadable = {name: str(told) for name, told in outcomes.items() if isinstance(told, EchoMQError)}
    known = {name: told for name, told in outcomes.items() if name not in unreadable}
    first = replies.texts(known.get("first"))
    clients = unreadable.pop("clients", None)
    for twice in ("overdue", "first"):
        unreadable.pop(twice, None)
    return {
        "counts": {place: replies.number(known.get(place)) for place in PLACES},
        "meta": as_pairs(known.get("meta")),
        "event_count": replies.number(known.get("events")),
        "overdue_count": replies.number(known.get("overdue")),
        "oldest_due_ms": codec.lenient_int(first[1]) // 4096 if len(first) == 2 else None,
        "worker_names": None if clients is not None else _workers(keys, replies.text(known["clients"])),
        "unreadable": unreadable,
    }


def _workers(keys: Keys, clients: str) -> tuple[str, ...]:
    own = keys.client_name()
    names = [field[5:] for line in clients.splitlines() for field in line.split(" ") if field.startswith("name=")]
    return tuple(name[len(own) + 3 :] for name in names if name == own or name.startswith(f"{own}:w:"))
