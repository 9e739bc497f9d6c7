"""What happened, and what to do about it: all that passes between the shell and ``step``.

What happened is named in the past tense, what to do in the imperative.

Source: design.md section 5.
"""

from typing import TypeAlias

import attrs

from echomq.calls.fetch import Take, Taken
from echomq.job import Job

__all__ = [
    "Action",
    "Adopt",
    "Adopted",
    "Announce",
    "CheckStalled",
    "Closed",
    "Complain",
    "ConcurrencyChanged",
    "Cut",
    "Failed",
    "Fetch",
    "Fetched",
    "GiveBack",
    "Happened",
    "Marked",
    "NotFetched",
    "Paused",
    "Reported",
    "ReportedTogether",
    "Resumed",
    "Run",
    "RunAll",
    "StalledChecked",
    "Started",
    "Stop",
    "StopFetching",
    "StopWaiting",
    "Ticked",
    "Wait",
    "WaitFailed",
]


@attrs.frozen
class Started:
    """The host asked the worker to work."""


@attrs.frozen
class Fetched:
    """A take was answered.

    Attributes:
        take: How it was taken.
        taken: What it found.
        wall_ms: The present on the wall clock, by which delayed jobs are due.
        before: Jobs that it took before, if it took several, and how.
    """

    take: Take
    taken: Taken
    wall_ms: int
    before: tuple[tuple[Job, Take], ...] = ()


@attrs.frozen
class Failed:
    """A take, or a search for lost replies, failed.

    Attributes:
        error: Why.
        may_have_run: The server may have carried it out.
        dice: Random number from 0 to 1.
    """

    error: BaseException
    may_have_run: bool
    dice: float


@attrs.frozen
class NotFetched:
    """A take was not sent: the slots for it were not to be had, or the worker pauses or closes."""


@attrs.frozen
class Marked:
    """A wait ended.

    Attributes:
        score: Of the marker: 0 for "now", else when a delayed job is due, on the wall clock. None: nothing came.
        wall_ms: The present on the wall clock.
    """

    score: float | None
    wall_ms: int


@attrs.frozen
class WaitFailed:
    """A wait failed.

    Attributes:
        error: Why.
        dice: Random number from 0 to 1.
    """

    error: BaseException
    dice: float


@attrs.frozen
class Reported:
    """A slot has got rid of its job: the server knows how it ended, or it is not ours any more.

    Attributes:
        take: How the slot takes jobs.
        taken: What came along; None if nothing was asked for, or nothing is known.
        wall_ms: The present on the wall clock.
        limited_ms: Take nothing for so long; 0: not limited.
        stray: A reply was lost that may have brought a job.
    """

    take: Take
    taken: Taken | None
    wall_ms: int
    limited_ms: int = 0
    stray: bool = False


@attrs.frozen
class ReportedTogether:
    """Slots have got rid of their jobs in one call.

    Attributes:
        count: How many slots.
        found: Jobs that came along, and how they were taken; at most one for each slot.
        rest: Why there are not more; None: there may be, or no more were asked for.
        wall_ms: The present on the wall clock.
    """

    count: int
    found: tuple[tuple[Job, Take], ...]
    rest: Taken | None
    wall_ms: int


@attrs.frozen
class Adopted:
    """A search for lost replies was answered.

    Attributes:
        found: Jobs that are locked for us, and how they were taken.
    """

    found: tuple[tuple[Job, Take], ...]


@attrs.frozen
class StalledChecked:
    """A look for stalled jobs ended, well or badly."""


@attrs.frozen
class Paused:
    """The host wants no new jobs."""


@attrs.frozen
class Resumed:
    """The host wants jobs again."""


@attrs.frozen
class ConcurrencyChanged:
    """The host wants another number of jobs at one time."""

    concurrency: int


@attrs.frozen
class Closed:
    """The host wants the end.

    Attributes:
        timeout_ms: How long running jobs may go on; None: to their end.
    """

    timeout_ms: int | None


@attrs.frozen
class Ticked:
    """The alarm went off."""


Happened: TypeAlias = (
    Started
    | Fetched
    | Failed
    | NotFetched
    | Marked
    | WaitFailed
    | Reported
    | ReportedTogether
    | Adopted
    | StalledChecked
    | Paused
    | Resumed
    | ConcurrencyChanged
    | Closed
    | Ticked
)


@attrs.frozen
class Fetch:
    """Take the next job, and report :class:`Fetched` or :class:`Failed`.

    Attributes:
        count: How many jobs may be taken; fewer are no error.
    """

    count: int = 1


@attrs.frozen
class StopFetching:
    """Wait no longer for the take's reply, and report :class:`Failed`."""


@attrs.frozen
class Adopt:
    """Search for jobs that are locked for us and that we do not hold; report :class:`Adopted` or :class:`Failed`."""


@attrs.frozen
class Wait:
    """Block until there may be a job, and report :class:`Marked` or :class:`WaitFailed`."""

    timeout_ms: int


@attrs.frozen
class StopWaiting:
    """End the blocking read; its outcome is not wanted."""


@attrs.frozen
class Run:
    """Process a job, report how it ended to the server, then here: :class:`Reported`."""

    job: Job
    take: Take


@attrs.frozen
class RunAll:
    """Process several jobs, as :class:`Run` each.

    Attributes:
        found: The jobs, and how they were taken.
    """

    found: tuple[tuple[Job, Take], ...]


@attrs.frozen
class GiveBack:
    """Let a job that came too late wait again, and report :class:`Reported`."""

    job: Job
    take: Take


@attrs.frozen
class CheckStalled:
    """Look for jobs of dead workers, and report :class:`StalledChecked`."""


@attrs.frozen
class Complain:
    """Tell the host about an error, once for each outage."""

    error: BaseException


@attrs.frozen
class Announce:
    """Call the listeners of a local event."""

    event: str


@attrs.frozen
class Cut:
    """Cancel all running jobs and give back what does not end; each is :class:`Reported`."""


@attrs.frozen
class Stop:
    """Nothing is left to do."""


Action: TypeAlias = (
    Fetch
    | StopFetching
    | Adopt
    | Wait
    | StopWaiting
    | Run
    | RunAll
    | GiveBack
    | CheckStalled
    | Complain
    | Announce
    | Cut
    | Stop
)
