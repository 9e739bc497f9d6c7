"""Plans that read ids and keys of a queue, and pick out the odd ones."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import attrs

from echomq import replies
from echomq.call import Batch, Command, Reply
from echomq.calls import remove as remove_calls
from echomq.errors import EchoMQError
from echomq.keys import FAMILY_NAMES, Keys
from echomq.plans import Plan

from .asking import MOST_ODD, PAGE, as_text, pages, raw
from .facts import LISTS, PLACES, SETS, Standing

__all__ = ["Sample", "odd_keys", "sample", "scan", "standings"]


def _shares(counts: Mapping[str, int], budget: int) -> dict[str, int]:
    """Divide the budget: small places are looked at whole, large ones share what is left."""
    shares: dict[str, int] = {}
    left = budget
    for index, place in enumerate(sorted(PLACES, key=lambda place: counts[place])):
        shares[place] = min(counts[place], left // (len(PLACES) - index))
        left -= shares[place]
    return shares


@attrs.define
class Sample:
    """Ids of a queue, as far as they were read.

    Attributes:
        ids: Place -> ids.
        looked_at: Place -> how many entries were read.
        odd: Ids that looked odd, with repetitions.
        markers: Place -> entries that a very old client left there.
    """

    ids: dict[str, set[str]] = attrs.field(factory=dict)
    looked_at: dict[str, int] = attrs.field(factory=dict)
    odd: list[str] = attrs.field(factory=list)
    markers: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    def add(self, place: str, page: Sequence[str]) -> list[str]:
        """Note entries of a place and return those that are ids of jobs."""
        held = self.ids.setdefault(place, set())
        self.looked_at[place] = self.looked_at.get(place, 0) + len(page)
        fresh = []
        for job_id in page:
            if place in ("wait", "paused") and job_id.startswith("0:"):
                self.markers[place] = (*self.markers.get(place, ()), job_id)
                continue
            if job_id in held:
                self.odd.append(job_id)
            held.add(job_id)
            fresh.append(job_id)
        return fresh

    def of(self, place: str) -> set[str]:
        """Return the ids read in a place."""
        return self.ids.get(place, set())


def sample(keys: Keys, counts: Mapping[str, int], budget: int) -> Plan[Sample]:
    """Read ids of each place, those next to run and the oldest first, and look for odd ones."""
    found = Sample()
    for place, share in _shares(counts, budget).items():
        for first in range(0, share, PAGE):
            page = yield _page(keys, place, first, min(PAGE, share - first))
            fresh = found.add(place, page)
            found.odd += (yield from _odd(keys, place, fresh)) if fresh else ()
            if len(page) < PAGE:
                break
    seen: set[str] = set()
    for place in LISTS:
        found.odd += seen & found.of(place)
        seen |= found.of(place)
    return found


def _page(keys: Keys, place: str, first: int, count: int) -> Command[list[str]]:
    if place in LISTS:
        window, command = (-(first + count), -(first + 1)), "LRANGE"
    else:
        window, command = (first, first + count - 1), "ZRANGE"
    return Command(parts=(command, keys.base + place, *window), decode=replies.texts, repeatable=True)


def _odd(keys: Keys, place: str, ids: Sequence[str]) -> Plan[list[str]]:
    """Return those that are no jobs, stand elsewhere as well, or are active without a lock."""
    others = [other for other in SETS if other != place]
    outcomes = yield Batch(
        requests=(
            *(raw("ZMSCORE", keys.base + other, *ids) for other in others),
            *(raw("TYPE", keys.job(job_id)) for job_id in ids),
            *(raw("EXISTS", keys.lock(job_id)) for job_id in ids if place == "active"),
        )
    )
    scores, rest = outcomes[: len(others)], outcomes[len(others) :]
    kinds, locks = rest[: len(ids)], rest[len(ids) :]
    odd = [job_id for job_id, kind in zip(ids, kinds, strict=True) if as_text(kind) != "hash"]
    odd += [job_id for job_id, lock in zip(ids, locks, strict=False) if lock == 0]
    for row in scores:
        if isinstance(row, (list, tuple)):
            odd += [job_id for job_id, score in zip(ids, row, strict=False) if score is not None]
    return odd


def standings(keys: Keys, ids: Iterable[str]) -> Plan[tuple[Standing, ...]]:
    """Look again at what seemed odd: each id in a single moment."""
    found = []
    for job_id in islice(ids, MOST_ODD):
        outcomes = yield Batch(
            atomic=True,
            requests=(
                *(raw("LPOS", keys.base + place, job_id, "COUNT", 2) for place in LISTS),
                *(raw("ZSCORE", keys.base + place, job_id) for place in SETS),
                raw("TYPE", keys.job(job_id)),
                raw("PTTL", keys.lock(job_id)),
            ),
        )
        *held, kind, lock_ms = outcomes
        places = [place for place, told in zip(PLACES, held, strict=True) for _ in range(_times(told))]
        found.append(
            Standing(
                job_id=job_id, places=tuple(places), is_job=as_text(kind) == "hash", lock_ms=replies.number(lock_ms)
            )
        )
    return tuple(found)


def _times(told: Reply) -> int:
    """How often a place holds an id: positions in a list, or a score."""
    if isinstance(told, EchoMQError) or told is None:
        return 0
    return len(told) if isinstance(told, list) else 1


def scan(keys: Keys, budget: int) -> Plan[tuple[list[str], bool]]:
    """Go through the keys of the whole server, as far as the budget reaches, and return the queue's."""
    found: list[str] = []
    cursor = "0"
    for _ in range(max(1, budget // (2 * PAGE))):
        cursor, page = yield remove_calls.scan_keys(keys, cursor, 2 * PAGE)
        found += page
        if cursor == "0":
            break
    return found, cursor == "0"


def odd_keys(keys: Keys, found: Iterable[str], sampled: Sample, counts: Mapping[str, int]) -> Plan[list[str]]:
    """Return ids of locks without an active job, and of jobs that stand nowhere.

    Only as far as the lists were read whole, since a list cannot be asked cheaply for an id.
    """
    whole = {place for place in LISTS if sampled.looked_at.get(place, 0) >= counts[place]}
    suffixes = [key[len(keys.base) :] for key in found]
    locked = [suffix[: -len(":lock")] for suffix in suffixes if suffix.endswith(":lock")]
    odd = [job_id for job_id in locked if job_id not in sampled.of("active")] if "active" in whole else []
    if len(whole) < len(LISTS):
        return odd
    known = FAMILY_NAMES.union(*sampled.ids.values())
    candidates = [suffix for suffix in suffixes if ":" not in suffix and suffix not in known]
    for page in pages(candidates):
        outcomes = yield Batch(requests=tuple(raw("ZMSCORE", keys.base + place, *page) for place in SETS))
        rows = [row for row in outcomes if isinstance(row, (list, tuple))]
        odd += [job_id for index, job_id in enumerate(page) if all(row[index] is None for row in rows)]
    return odd
