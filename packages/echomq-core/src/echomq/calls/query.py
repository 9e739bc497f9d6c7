"""Read a queue. All of these are repeatable: they only read.

``WAITING`` stands for two lists: ``wait``, and ``paused``, where clients before
6.0 keep the waiting jobs of a paused queue. Both are asked.

Source: protocol spec 03 section 3.10; 04 section 3; 05 section 10.
"""

from collections.abc import Iterable

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.checks import filled
from echomq.errors import InvalidOption, JobNotFound, ProtocolError
from echomq.job import Job
from echomq.keys import Keys
from echomq.states import JobState

from .pages import Page, paginate

__all__ = [
    "Finished",
    "Page",
    "count_logs",
    "get_counts",
    "get_counts_per_priority",
    "get_deduplication_job_id",
    "get_job",
    "get_jobs",
    "get_logs",
    "get_ranges",
    "get_state",
    "is_finished",
    "is_job_in_list",
    "paginate",
    "read_job",
]

_SCANS = 5
"""How many windows one call may use before it answers (04 section 3.4)."""


@attrs.frozen
class _ReadJob:
    keys: Keys
    job_id: str
    state: JobState | None = None

    def __call__(self, reply: Reply) -> Job | None:
        return Job.from_hash(self.keys, self.job_id, reply, self.state) if reply else None


def get_job(keys: Keys, job_id: str) -> Command[Job | None]:
    """Read one job; decodes to None if it does not exist.

    Raises:
        InvalidOption: That is no id of a job.
    """
    return Command(parts=("HGETALL", keys.job_named(job_id)), decode=_ReadJob(keys, job_id), repeatable=True)


def read_job(keys: Keys, job_id: str, state: JobState) -> Command[Job | None]:
    """Read a job that was just found in a list; decodes to None if it is gone, or was never one."""
    return Command(parts=("HGETALL", keys.job(job_id)), decode=_ReadJob(keys, job_id, state), repeatable=True)


def get_state(keys: Keys, job_id: str, *, has_lpos: bool = True) -> ScriptCall[JobState]:
    """Ask where a job is; decodes to UNKNOWN if it is nowhere.

    Args:
        keys: The queue.
        job_id: The job.
        has_lpos: False asks by the script for servers before 6.0.6, which know no LPOS.

    Source: protocol spec 04 section 3.5.
    """
    return ScriptCall(
        script="getStateV2" if has_lpos else "getState",
        keys=(
            *(keys.completed, keys.failed, keys.delayed, keys.active),
            *(keys.wait, keys.paused, keys.waiting_children, keys.prioritized),
        ),
        args=(job_id,),
        decode=_read_state,
        repeatable=True,
    )


def _read_state(reply: Reply) -> JobState:
    word = replies.text(reply)
    try:
        return JobState(word)
    except ValueError:
        raise ProtocolError(f"the server replied {word!r}, which is no state of a job") from None


def is_job_in_list(keys: Keys, state: JobState, job_id: str) -> ScriptCall[bool]:
    """Ask whether the waiting or the active list holds a job; for servers before 6.0.6.

    Raises:
        InvalidOption: Jobs of that state are in no list.

    Source: protocol spec 04 section 3.8.
    """
    lists = {JobState.WAITING: keys.wait, JobState.ACTIVE: keys.active}
    if state not in lists:
        raise InvalidOption("state", f"jobs are listed while waiting or active, not while {state.value}")
    return ScriptCall(script="isJobInList", keys=(lists[state],), args=(job_id,), decode=replies.flag, repeatable=True)


def _places(states: Iterable[JobState]) -> list[tuple[JobState, str]]:
    """Return each state with the name of its list or set; twice where it has two."""
    places: list[tuple[JobState, str]] = []
    for state in dict.fromkeys(states):
        if state is JobState.UNKNOWN:
            raise InvalidOption("states", "no list holds jobs of unknown state")
        places.append((state, codec.STATE_NAMES[state]))
        if state is JobState.WAITING:
            places.append((state, "paused"))
    return places


@attrs.frozen
class _ReadCounts:
    states: tuple[JobState, ...]

    def __call__(self, reply: Reply) -> dict[JobState, int]:
        counts = dict.fromkeys(self.states, 0)
        for state, count in zip(self.states, replies.rows(reply, len(self.states)), strict=True):
            counts[state] += replies.number(count)
        return counts


def get_counts(
    keys: Keys, states: Iterable[JobState], *, due_before_ms: int | None = None
) -> ScriptCall[dict[JobState, int]]:
    """Count the jobs in some states.

    Args:
        keys: The queue.
        states: Which; the answer has them in this order.
        due_before_ms: Count only delayed jobs due before this moment.

    Source: protocol spec 04 section 3.1.
    """
    places = _places(states)
    cutoff = () if due_before_ms is None else (due_before_ms,)
    return ScriptCall(
        script="getCounts",
        keys=(keys.base,),
        args=(*cutoff, *(name for _, name in places)),
        decode=_ReadCounts(tuple(state for state, _ in places)),
        repeatable=True,
    )


@attrs.frozen
class _ReadCountsPerPriority:
    priorities: tuple[int, ...]

    def __call__(self, reply: Reply) -> dict[int, int]:
        counts = map(replies.number, replies.rows(reply, len(self.priorities)))
        return dict(zip(self.priorities, counts, strict=True))


def get_counts_per_priority(keys: Keys, priorities: Iterable[int]) -> ScriptCall[dict[int, int]]:
    """Count the jobs that wait with certain priorities; 0 counts those without one.

    Source: protocol spec 04 section 3.2.
    """
    asked = tuple(dict.fromkeys(priorities))
    return ScriptCall(
        script="getCountsPerPriority",
        keys=(keys.wait, keys.prioritized),
        args=asked,
        decode=_ReadCountsPerPriority(asked),
        repeatable=True,
    )


@attrs.frozen
class _ReadRanges:
    is_reversed: tuple[bool, ...]

    def __call__(self, reply: Reply) -> list[str]:
        ids: dict[str, None] = {}
        for is_reversed, row in zip(self.is_reversed, replies.rows(reply, len(self.is_reversed)), strict=True):
            found = replies.texts(row)
            ids.update(dict.fromkeys(reversed(found) if is_reversed else found))
        return list(ids)


def get_ranges(
    keys: Keys, states: Iterable[JobState], start: int = 0, end: int = -1, *, ascending: bool = False
) -> ScriptCall[list[str]]:
    """Read ids of jobs, state after state, each id once.

    Args:
        keys: The queue.
        states: Which.
        start: First index in each state, from 0.
        end: Last index in each state; -1 for all.
        ascending: Oldest (or due first) before newest.

    Source: protocol spec 04 section 3.3.
    """
    places = _places(states)
    lists = (JobState.WAITING, JobState.ACTIVE)
    return ScriptCall(
        script="getRanges",
        keys=(keys.base,),
        args=(start, end, "1" if ascending else "0", *(name for _, name in places)),
        # Lists come newest first inside an ascending window: the reader turns them round.
        decode=_ReadRanges(tuple(ascending and state in lists for state, _ in places)),
        repeatable=True,
    )


@attrs.frozen
class _ReadJobs:
    keys: Keys
    states: tuple[JobState, ...]

    def __call__(self, reply: Reply) -> list[Job]:
        jobs: dict[str, Job] = {}
        for state, row in zip(self.states, replies.rows(reply, len(self.states)), strict=True):
            for item in replies.items(row):
                job_id, fields = replies.rows(item, 2)
                job = Job.from_hash(self.keys, replies.text(job_id), fields, state)
                jobs.setdefault(job.id, job)
        return list(jobs.values())


def get_jobs(
    keys: Keys, states: Iterable[JobState], start: int = 0, end: int = -1, ascending: bool = False
) -> ScriptCall[list[Job]]:
    """Read jobs, state after state, each job once; ids without a hash are passed over.

    Args:
        keys: The queue.
        states: Which; the jobs know where they were found.
        start: First index in each state, from 0.
        end: Last index in each state; -1 for all.
        ascending: Oldest (or due first) before newest.

    Source: protocol spec 04 section 3.4.
    """
    places = _places(states)
    return ScriptCall(
        script="getJobs",
        keys=(keys.base,),
        args=(start, end, "1" if ascending else "0", _SCANS, *(name for _, name in places)),
        decode=_ReadJobs(keys, tuple(state for state, _ in places)),
        repeatable=True,
    )


@attrs.frozen(kw_only=True)
class Finished:
    """How a job ended.

    Attributes:
        state: COMPLETED, FAILED, or None while it has not ended.
        raw_return_value: Result of a completed job, as JSON text.
        failed_reason: Message of a failed one.
    """

    state: JobState | None = None
    raw_return_value: codec.Raw | None = None
    failed_reason: str | None = None


@attrs.frozen
class _ReadFinished:
    job_id: str

    def __call__(self, reply: Reply) -> Finished:
        code, value = (*reply, None, None)[:2] if isinstance(reply, (list, tuple)) else (reply, None)
        code = replies.number(code)
        if code == -1:
            raise JobNotFound("isFinished", self.job_id)
        if code == 1:
            return Finished(state=JobState.COMPLETED, raw_return_value=value)
        if code == 2:
            return Finished(state=JobState.FAILED, failed_reason=replies.optional_text(value))
        return Finished()


def is_finished(keys: Keys, job_id: str) -> ScriptCall[Finished]:
    """Ask whether and how a job ended.

    Raises:
        JobNotFound: By ``decode``; it does not exist (any more).

    Source: protocol spec 03 section 3.10.
    """
    return ScriptCall(
        script="isFinished",
        keys=(keys.completed, keys.failed, keys.job(job_id)),
        args=(job_id, "1"),
        decode=_ReadFinished(job_id),
        repeatable=True,
    )


def get_logs(keys: Keys, job_id: str, start: int = 0, end: int = -1, *, ascending: bool = True) -> Command[list[str]]:
    """Read rows of a job's log.

    Args:
        keys: The queue.
        job_id: The job.
        start: First index, from 0.
        end: Last index; -1 for all.
        ascending: Oldest first; else counted and listed from the newest.
    """
    if ascending:
        window, decode = (start, end), replies.texts
    else:
        window, decode = (-(end + 1), -(start + 1)), _reversed_texts
    return Command(parts=("LRANGE", keys.logs(job_id), *window), decode=decode, repeatable=True)


def _reversed_texts(reply: Reply) -> list[str]:
    return replies.texts(reply)[::-1]


def count_logs(keys: Keys, job_id: str) -> Command[int]:
    """Count the rows of a job's log."""
    return Command(parts=("LLEN", keys.logs(job_id)), decode=replies.number, repeatable=True)


def get_deduplication_job_id(keys: Keys, deduplication_id: str) -> Command[str | None]:
    """Ask which job holds a deduplication id; decodes to None if none does."""
    key = keys.deduplication(filled("deduplication_id", deduplication_id))
    return Command(parts=("GET", key), decode=replies.optional_text, repeatable=True)
