"""What happens in a queue, as values.

Each entry of a queue's event log becomes one frozen value: of the class of its
name (:class:`Completed`), or an :class:`Own` event if the name is not one of the
protocol's. An entry that cannot be read becomes :class:`Broken`, so that one bad
writer keeps nobody from reading on. How entries are read: :mod:`echomq.entries`.

Source: protocol spec 01 section 8; 05 section 7.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from .states import JobState

__all__ = [
    "BEGINNING",
    "Active",
    "Added",
    "Broken",
    "Cleaned",
    "Completed",
    "Deduplicated",
    "Delayed",
    "Drained",
    "Duplicated",
    "Event",
    "Failed",
    "Own",
    "Paused",
    "Progress",
    "Removed",
    "Resumed",
    "RetriesExhausted",
    "Stalled",
    "Waiting",
    "WaitingChildren",
]

BEGINNING = "0-0"
"""The id before all others: read from here to have everything that the log still holds."""


@attrs.frozen(kw_only=True)
class Added:
    """A job is stored. What comes next says where it stands."""

    id: str
    job_id: str
    name: str = ""


@attrs.frozen(kw_only=True)
class Waiting:
    """A job may be taken: it is new, or was somewhere else before."""

    id: str
    job_id: str
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class Delayed:
    """A job may not be taken before ``due_ms``."""

    id: str
    job_id: str
    due_ms: int


@attrs.frozen(kw_only=True)
class WaitingChildren:
    """A job waits for its children."""

    id: str
    job_id: str
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class Active:
    """A worker took a job."""

    id: str
    job_id: str
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class Progress:
    """A job told how far it has come."""

    id: str
    job_id: str
    progress: Any


@attrs.frozen(kw_only=True)
class Completed:
    """A job is done, and this is its result."""

    id: str
    job_id: str
    return_value: Any
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class Failed:
    """A job failed, and no attempt is left."""

    id: str
    job_id: str
    reason: str = ""
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class RetriesExhausted:
    """A job failed since all its attempts are used up; follows :class:`Failed`."""

    id: str
    job_id: str
    attempts_made: int = 0


@attrs.frozen(kw_only=True)
class Stalled:
    """The worker of a job went silent, and the job waits again."""

    id: str
    job_id: str


@attrs.frozen(kw_only=True)
class Duplicated:
    """A job was not added, since there is one of that id."""

    id: str
    job_id: str


@attrs.frozen(kw_only=True)
class Deduplicated:
    """Two jobs share a deduplication id: ``job_id`` stays, ``refused_job_id`` was not added or was replaced."""

    id: str
    job_id: str
    deduplication_id: str = ""
    refused_job_id: str = ""


@attrs.frozen(kw_only=True)
class Removed:
    """Somebody removed a job. Retention, ``drain``, ``clean`` and ``obliterate`` do not tell of each job."""

    id: str
    job_id: str
    previous: JobState | None = None


@attrs.frozen(kw_only=True)
class Drained:
    """No job waits any more."""

    id: str


@attrs.frozen(kw_only=True)
class Paused:
    """No worker takes jobs of this queue."""

    id: str


@attrs.frozen(kw_only=True)
class Resumed:
    """Workers take jobs again."""

    id: str


@attrs.frozen(kw_only=True)
class Cleaned:
    """``count`` jobs were removed by ``clean``."""

    id: str
    count: int = 0


@attrs.frozen(kw_only=True)
class Own:
    """An event of the users' own, published under a name that the protocol does not know.

    Attributes:
        id: Place in the log.
        name: As published.
        fields: As published, all text.
    """

    id: str
    name: str
    fields: Mapping[str, str]


@attrs.frozen(kw_only=True)
class Broken:
    """An entry that cannot be read: another client wrote it.

    Attributes:
        id: Place in the log.
        fields: What it holds.
        problem: Why it cannot be read.
    """

    id: str
    fields: Mapping[str, str]
    problem: str


Event: TypeAlias = (
    Added
    | Waiting
    | Delayed
    | WaitingChildren
    | Active
    | Progress
    | Completed
    | Failed
    | RetriesExhausted
    | Stalled
    | Duplicated
    | Deduplicated
    | Removed
    | Drained
    | Paused
    | Resumed
    | Cleaned
    | Own
    | Broken
)
"""Any of them. Each has ``id``, its place in the log: milliseconds since 1970, a dash, a counter."""
