"""Look through a queue for jobs, within a budget.

A server has no index of names and data, so a search reads job after job. The
budget bounds that, and the result says what ended it.

Source: protocol spec 05 section 10.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from .checks import is_text, whole
from .errors import InvalidOption, ProtocolError
from .job import Job
from .moments import Moment, moment_ms

__all__ = ["Ending", "Hunt", "SearchResult", "Wanted"]

Ending: TypeAlias = Literal["end", "limit", "max_looks", "timeout"]
"""What ended a search: it saw all jobs, it found enough, or its budget was used up."""

_MISSING = object()


@attrs.frozen(kw_only=True)
class SearchResult:
    """What a search found.

    Attributes:
        jobs: The jobs, in the order in which they were seen.
        looked_at: How many jobs were read.
        ended_by: ``"end"``: all jobs were seen. ``"limit"``: enough were found. ``"max_looks"`` or
            ``"timeout"``: that part of the budget was used up; there may be more.
    """

    jobs: tuple[Job, ...]
    looked_at: int
    ended_by: Ending

    @property
    def is_complete(self) -> bool:
        """Whether these are all jobs that match."""
        return self.ended_by == "end"


def _paths(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(path, str) and path for path in value):
        raise InvalidOption("data", f"expected a mapping of paths such as 'to.address' to values, not {value!r}")
    return dict(value)


@attrs.frozen(kw_only=True)
class Wanted:
    """What a job must be like; all of it.

    Attributes:
        name: Its name.
        data: For each path into its data, names and list indexes joined by dots, the value there.
        reason: A part of the message of its last failure.
        since_ms: It was made at this moment or after.
        until_ms: It was made before this moment.
    """

    name: str | None = attrs.field(default=None, validator=is_text)
    data: Mapping[str, object] = attrs.field(factory=dict, converter=_paths)
    reason: str | None = attrs.field(default=None, validator=is_text)
    since_ms: int = 0
    until_ms: int | None = None

    @classmethod
    def of(
        cls,
        *,
        name: str | None,
        data: Mapping[str, object] | None,
        reason: str | None,
        since: Moment | None,
        until: Moment | None,
    ) -> "Wanted":
        """Return what a user asks for.

        Raises:
            InvalidOption: An argument is not possible.
        """
        return cls(
            name=name,
            data={} if data is None else data,
            reason=reason,
            since_ms=0 if since is None else moment_ms("since", since),
            until_ms=None if until is None else moment_ms("until", until),
        )

    def matches(self, job: Job) -> bool:
        """Tell whether a job is like that; one whose data is not JSON has no values at any path."""
        if self.name is not None and job.name != self.name:
            return False
        if job.timestamp_ms < self.since_ms or (self.until_ms is not None and job.timestamp_ms >= self.until_ms):
            return False
        if self.reason is not None and self.reason not in (job.failed_reason or ""):
            return False
        return not self.data or self._has_values(job)

    def _has_values(self, job: Job) -> bool:
        try:
            data = job.data
        except ProtocolError:
            return False
        return all(_same(_at(data, path), value) for path, value in self.data.items())


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        if isinstance(data, Mapping) and part in data:
            data = data[part]
        elif isinstance(data, list) and part.isdecimal() and int(part) < len(data):
            data = data[int(part)]
        else:
            return _MISSING
    return data


def _same(found: Any, wanted: object) -> bool:
    return isinstance(found, bool) == isinstance(wanted, bool) and bool(found == wanted)  # JSON's true is not 1


@attrs.define(kw_only=True)
class Hunt:
    """A search under way: pages of jobs go in, until it has ended.

    Attributes:
        wanted: What to find.
        limit: Most jobs to find.
        max_looks: Most jobs to look at.
        due_ms: When to stop, on the monotonic clock.
    """

    wanted: Wanted
    limit: int
    max_looks: int
    due_ms: int
    _found: list[Job] = attrs.field(init=False, factory=list)
    _looked_at: int = attrs.field(init=False, default=0)
    _ended_by: Ending | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        whole("limit", self.limit, 1)
        whole("max_looks", self.max_looks, 1)

    def goes_on(self, now_ms: int) -> bool:
        """Tell whether another page is wanted."""
        if self._ended_by is None and now_ms >= self.due_ms:
            self._ended_by = "timeout"
        return self._ended_by is None

    def take(self, jobs: Sequence[Job]) -> None:
        """Look at the jobs of a page; an empty page is the end."""
        if not jobs:
            self._ended_by = "end"
        for job in jobs:
            if len(self._found) == self.limit:
                self._ended_by = "limit"
            elif self._looked_at == self.max_looks:
                self._ended_by = "max_looks"
            if self._ended_by is not None:
                return
            self._looked_at += 1
            if self.wanted.matches(job):
                self._found.append(job)

    def result(self) -> SearchResult:
        """Return what was found; once the search has ended."""
        return SearchResult(jobs=tuple(self._found), looked_at=self._looked_at, ended_by=self._ended_by or "timeout")
