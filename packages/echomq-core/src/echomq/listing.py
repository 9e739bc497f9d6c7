"""Go through the jobs of a queue page by page, while others change it.

What stays in its state for the whole walk is given exactly once. In sorted sets
the walk goes on behind the last score and id, which no change moves. Lists shift
when jobs leave them, so a page begins at a job that was given already: whatever
stayed stands behind it.

Source: protocol spec 01 sections 2 and 11; 05 section 10.
"""

from collections.abc import Iterable, Sequence

import attrs

from . import codec, replies
from .call import Command, Reply
from .calls.query import read_job
from .checks import whole
from .errors import InvalidOption
from .job import Job
from .keys import Keys
from .plans import PLACES, Plan, ask_all
from .states import JobState

__all__ = ["Walk"]

_LISTS = ("wait", "paused", "active")
_Place = tuple[JobState, str]


@attrs.define(kw_only=True)
class Walk:
    """A walk through the jobs of some states; each page is one plan.

    Attributes:
        keys: The queue.
        states: Which, one after the other; none: all.
        ascending: Oldest (or due first) before newest.
        page_size: Most jobs of one page.

    Raises:
        InvalidOption: A state has no list, or the size is not between 1 and 10,000.
    """

    keys: Keys
    states: Sequence[JobState] = ()
    ascending: bool = True
    page_size: int = 100
    _places: list[_Place] = attrs.field(init=False)
    _position: int = attrs.field(init=False, default=0)
    _given: set[str] = attrs.field(init=False, factory=set)
    _score: str | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        whole("page_size", self.page_size, 1, 10_000)
        self._places = list(_places(self.states or PLACES))

    def page(self) -> Plan[list[Job]]:
        """Return the next jobs; none when the walk is over."""
        while self._places:
            state, name = self._places[0]
            ids = yield from self._from_list(name) if name in _LISTS else self._from_set(name)
            if not ids:
                self._places.pop(0)
                self._position, self._score = 0, None
                self._given.clear()
            elif jobs := (yield from _read(self.keys, ids, state)):
                return jobs
        return []

    def _from_set(self, name: str) -> Plan[list[str]]:
        """Read on behind the last score; of that score itself, what was not given."""
        window = (0, self.page_size + len(self._given))
        first, last = ("-inf", "+inf") if self.ascending else ("+inf", "-inf")
        command = "ZRANGEBYSCORE" if self.ascending else "ZREVRANGEBYSCORE"
        bounds = (self._score or first, last)
        parts = (command, self.keys.base + name, *bounds, "WITHSCORES", "LIMIT", *window)
        found: list[tuple[str, str]] = yield Command(parts=parts, decode=_read_scored, repeatable=True)
        ids = [job_id for job_id, _ in found if job_id not in self._given]
        if ids:
            score = found[-1][1]
            kept = self._given if score == self._score else set()
            self._score, self._given = score, kept | {job_id for job_id, at in found if at == score}
        return ids

    def _from_list(self, name: str) -> Plan[list[str]]:
        """Read on behind a job that was given, and look for one further back where none is left there."""
        start, step, length = max(0, self._position - self.page_size), self.page_size, 2 * self.page_size
        while True:
            found: list[str] = yield self._slice(name, start, start + length - 1)
            if start and not (found and found[0] in self._given):
                start, step = max(0, start - step), step * 2
                continue
            ids = [job_id for job_id in found if job_id not in self._given][: self.page_size]
            self._position = start + (found.index(ids[-1]) + 1 if ids else len(found))
            self._given.update(ids)
            if ids or len(found) < length:
                return ids
            start, step = start + self.page_size, self.page_size

    def _slice(self, name: str, start: int, end: int) -> Command[list[str]]:
        """Read by index, counted from the end that the walk began at; the oldest job stands at the right."""
        window = (-end - 1, -start - 1) if self.ascending else (start, end)
        decode = _reversed_texts if self.ascending else replies.texts
        return Command(parts=("LRANGE", self.keys.base + name, *window), decode=decode, repeatable=True)


def _places(states: Iterable[JobState]) -> Iterable[_Place]:
    for state in dict.fromkeys(states):
        if state is JobState.UNKNOWN:
            raise InvalidOption("states", "no list holds jobs of unknown state")
        yield state, codec.STATE_NAMES[state]
        if state is JobState.WAITING:
            yield state, "paused"


def _read(keys: Keys, ids: Sequence[str], state: JobState) -> Plan[list[Job]]:
    found = yield from ask_all([read_job(keys, job_id, state) for job_id in ids])
    return [job for job in found if job is not None]


def _reversed_texts(reply: Reply) -> list[str]:
    return replies.texts(reply)[::-1]


def _read_scored(reply: Reply) -> list[tuple[str, str]]:
    """Read ids with their scores as text, flat (RESP2) or in pairs (RESP3)."""
    rows = list(reply or ())
    if rows and isinstance(rows[0], (list, tuple)):
        return [(replies.text(job_id), replies.text(score)) for job_id, score in rows]
    return [(replies.text(job_id), replies.text(score)) for job_id, score in zip(rows[::2], rows[1::2], strict=True)]
