"""Plans that look at what jobs have to do with each other: families, schedulers, deduplication."""

from collections.abc import Iterable, Sequence

from echomq import codec, replies
from echomq.call import Batch, Command, Reply
from echomq.errors import EchoMQError
from echomq.keys import Keys
from echomq.plans import Plan

from .asking import MOST_ODD, as_text, pages, raw
from .facts import Parent

__all__ = ["odd_parents", "stopped_schedulers", "stray_deduplication"]

_SAMPLED_CHILDREN = 50
_YOUNG_MS = 10_000
"""A parent that waits for less is left alone: its flow may be on its way."""


def odd_parents(keys: Keys, ids: Iterable[str], now_ms: int) -> Plan[tuple[Parent, ...]]:
    """Return the parents that wait for nothing, for children that are gone, or for failed ones."""
    found: list[Parent] = []
    for page in pages(list(ids)):
        requests = [raw("SRANDMEMBER", keys.dependencies(job_id), _SAMPLED_CHILDREN) for job_id in page]
        sizes = [raw("SCARD", keys.dependencies(job_id)) for job_id in page]
        since = [raw("ZSCORE", keys.waiting_children, job_id) for job_id in page]
        outcomes = yield Batch(requests=(*requests, *sizes, *since), atomic=True)
        for index, job_id in enumerate(page):
            members, size, score = outcomes[index :: len(page)]
            if score is None or any(isinstance(told, EchoMQError) for told in (members, size, score)):
                continue
            waits_ms = now_ms - (codec.lenient_int(as_text(score), 0))
            if waits_ms < _YOUNG_MS or len(found) >= MOST_ODD:
                continue
            lost, failed = yield from _children(replies.texts(members))
            if not size or lost or failed:
                found.append(Parent(job_id=job_id, waits_ms=waits_ms, pending_count=size, lost=lost, failed=failed))
    return tuple(found)


def _children(children: Sequence[str]) -> Plan[tuple[tuple[str, ...], tuple[str, ...]]]:
    if not children:
        return (), ()
    exist = yield Batch(requests=tuple(raw("EXISTS", child) for child in children))
    ended = yield Batch(requests=tuple(_failed_score(child) for child in children))
    lost = tuple(child for child, told in zip(children, exist, strict=True) if told == 0)
    failed = tuple(child for child, told in zip(children, ended, strict=True) if isinstance(told, (bytes, str, float)))
    return lost, failed


def _failed_score(child: str) -> Command[Reply]:
    base, _, job_id = child.rpartition(":")
    return raw("ZSCORE", f"{base}:failed", job_id)


def stopped_schedulers(keys: Keys) -> Plan[tuple[str, ...]]:
    """Return the schedulers (of the first thousand) whose next job does not exist."""
    flat = yield raw("ZRANGE", keys.repeat, 0, 999, "WITHSCORES")
    rows = replies.texts(flat) if isinstance(flat, (list, tuple)) else []
    slots = {name: codec.lenient_int(score) for name, score in zip(rows[::2], rows[1::2], strict=True)}
    stopped = []
    for page in pages(list(slots)):
        jobs = tuple(raw("EXISTS", keys.job(f"repeat:{name}:{slots[name]}")) for name in page)
        for name, told in zip(page, (yield Batch(requests=jobs)), strict=True):
            if told == 0 and (yield raw("ZSCORE", keys.repeat, name)) in (str(slots[name]).encode(), str(slots[name])):
                stopped.append(name)
    return tuple(stopped)


def stray_deduplication(keys: Keys, found: Iterable[str]) -> Plan[dict[str, str]]:
    """Return the deduplication ids that a job holds for ever which is gone or has finished."""
    start = keys.deduplication("")
    held = [key[len(start) :] for key in found if key.startswith(start)]
    stray: dict[str, str] = {}
    for page in pages(held):
        owners = yield Batch(requests=tuple(raw("GET", keys.deduplication(name)) for name in page))
        for name, owner in zip(page, map(as_text, owners), strict=True):
            if owner and len(stray) < MOST_ODD and (yield from _is_stray(keys, name, owner)):
                stray[name] = owner
    return stray


def _is_stray(keys: Keys, name: str, owner: str) -> Plan[bool]:
    outcomes = yield Batch(
        atomic=True,
        requests=(
            raw("GET", keys.deduplication(name)),
            raw("PTTL", keys.deduplication(name)),
            raw("EXISTS", keys.job(owner)),
            raw("ZSCORE", keys.completed, owner),
            raw("ZSCORE", keys.failed, owner),
        ),
    )
    now_owner, ttl_ms, exists, completed, failed = outcomes
    has_ended = not exists or any(isinstance(score, (bytes, str, float)) for score in (completed, failed))
    return as_text(now_owner) == owner and ttl_ms == -1 and has_ended
