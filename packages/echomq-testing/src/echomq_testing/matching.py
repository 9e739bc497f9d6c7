"""What jobs a test expects, which jobs are like that, and how to say that none is. Pure."""

from __future__ import annotations

import difflib
from pprint import pformat
from typing import TYPE_CHECKING, Any

import attrs

from echomq.options import job_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from echomq import Job

__all__ = ["ANYTHING", "ENQUEUED", "Expected"]

ENQUEUED = ("waiting", "prioritized", "delayed", "waiting-children", "active")
"""States of a job that has not ended."""

_MOST_SHOWN = 5


class _Anything:
    """Equals everything."""

    def __repr__(self) -> str:
        return "ANYTHING"


ANYTHING: Any = _Anything()
"""Data that need not be compared."""


@attrs.frozen(kw_only=True)
class Expected:
    """What a job should be like.

    Attributes:
        queue: Name of the queue, for messages.
        name: Of the job.
        data: Equal to the job's data, or :data:`ANYTHING`.
        options: Options the job should have been added with; others are not looked at.
        count: How many there should be; None: at least one.
    """

    queue: str
    name: str
    data: Any = ANYTHING
    options: Mapping[str, Any] = attrs.field(factory=dict)
    count: int | None = None
    _wanted: Mapping[str, Any] = attrs.field(init=False)

    @_wanted.default
    def _read_options(self) -> Mapping[str, Any]:
        # Ids that the server gave are looked for too, which nobody may ask for.
        given = {name: value for name, value in self.options.items() if name != "job_id"}
        read = job_options(**given)
        return {name: getattr(read, name) if name in given else value for name, value in self.options.items()}

    def found(self, jobs: Iterable[Job]) -> list[Job]:
        """Return the jobs that are like that."""
        return [job for job in jobs if job.name == self.name and not self._differences(job)]

    def check(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs that are like that.

        Raises:
            AssertionError: There are not as many as there should be.
        """
        found = self.found(jobs)
        if (found and self.count in (None, len(found))) or self.count == len(found):
            return found
        how_many = "no job is" if not found else f"{len(found)} {'job is' if len(found) == 1 else 'jobs are'}"
        wanted = "" if self.count is None else f", expected {self.count}"
        raise AssertionError("\n".join([f"{how_many} like {self}{wanted}", *self._seen(jobs, found)]))

    def check_none(self, jobs: Sequence[Job]) -> None:
        """Make sure that no job is like that.

        Raises:
            AssertionError: One is.
        """
        found = self.found(jobs)
        if found:
            shown = [_line(job, with_data=True) for job in found[:_MOST_SHOWN]]
            raise AssertionError("\n".join([f"{len(found)} like {self}, expected none", *shown]))

    def __str__(self) -> str:
        said = [] if self.data is ANYTHING else [f"data={_short(self.data)}"]
        said += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.name!r} in queue {self.queue!r}{' with ' if said else ''}{', '.join(said)}"

    def _seen(self, jobs: Sequence[Job], found: Sequence[Job]) -> list[str]:
        """Say how the jobs of that name differ, the nearest one first, and what else there is."""
        namesakes = [job for job in jobs if job.name == self.name and job not in found]
        namesakes.sort(key=lambda job: len("".join(self._differences(job))))
        lines = []
        for job in namesakes[:_MOST_SHOWN]:
            lines += [_line(job), *(f"    {line}" for part in self._differences(job) for line in part.splitlines())]
        if len(namesakes) > _MOST_SHOWN:
            lines.append(f"  and {len(namesakes) - _MOST_SHOWN} more of that name")
        others = sorted({job.name for job in jobs if job.name != self.name})
        near = difflib.get_close_matches(self.name, others, 1)
        if others and not namesakes:
            lines.append(f"  jobs there are called {', '.join(map(repr, others))}")
        if near and not namesakes:
            lines.append(f"  did you mean {near[0]!r}?")
        return lines if jobs else ["  the queue has no jobs that have not ended"]

    def _differences(self, job: Job) -> list[str]:
        """Say in what a job of that name differs; empty if it does not."""
        lines = []
        if self.data is not ANYTHING and not self.data == job.data:  # noqa: SIM201  # the expected side may overrule ==
            lines.append(_difference(self.data, job.data))
        for name, wanted in self._wanted.items():
            seen = _stored(job, name)
            if not wanted == seen:  # noqa: SIM201  # as above
                lines.append(f"{name}: expected {wanted!r}, seen {seen!r}")
        return lines


def _stored(job: Job, option: str) -> Any:
    if option == "job_id":
        return job.id
    if option == "timestamp":
        return job.timestamp_ms
    return getattr(job.options, option)


def _difference(expected: Any, seen: Any) -> str:
    left, right = pformat(expected, width=100), pformat(seen, width=100)
    if "\n" not in left + right:
        return f"data: expected {left}\n      seen     {right}"
    body = difflib.ndiff(pformat(expected, width=40).splitlines(), pformat(seen, width=40).splitlines())
    return "\n".join(["data (- expected, + seen):", *(f"  {line}" for line in body if not line.startswith("?"))])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _line(job: Job, *, with_data: bool = False) -> str:
    state = f", {job.state.value}" if job.state is not None else ""
    return f"  job {job.id}{state}{f': {_short(job.data)}' if with_data else ''}"
