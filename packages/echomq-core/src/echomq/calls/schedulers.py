"""Job schedulers: make and change them, let the next job follow, read and remove them.

The client computes cron slots and counts iterations; the script decides the
slots of intervals.

Source: protocol spec 02 section 4; 05 section 6.
"""

import re
from datetime import timezone, tzinfo
from functools import cached_property
from typing import Any

import attrs

from echomq import codec, replies
from echomq.call import Command, Reply, ScriptCall
from echomq.checks import filled
from echomq.codec import Raw
from echomq.errors import InvalidOption, ProtocolError, script_error
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import JobOptions
from echomq.repeat import Iteration, Repeat, next_iteration
from echomq.stored_options import read_options

__all__ = [
    "JobScheduler",
    "add_job_scheduler",
    "count_job_schedulers",
    "get_job_scheduler",
    "get_job_scheduler_ids",
    "has_job_scheduler",
    "is_legacy_id",
    "remove_job_scheduler",
    "update_job_scheduler",
]


@attrs.frozen
class _ReadFirst:
    job: Job

    def __call__(self, reply: Reply) -> Job:
        scheduler_id = self.job.scheduler_id
        if isinstance(reply, int):
            raise script_error(reply, "addJobScheduler", scheduler_id)
        if not isinstance(reply, (list, tuple)) or len(reply) != 2:
            raise replies.unexpected(reply, "the id and the delay of a scheduler's job")
        return attrs.evolve(self.job, id=replies.text(reply[0]), delay_ms=replies.number(reply[1]))


def add_job_scheduler(
    keys: Keys,
    scheduler_id: str,
    repeat: Repeat,
    *,
    name: str,
    data: object,
    options: JobOptions,
    now_ms: int,
    local_zone: tzinfo = timezone.utc,
) -> ScriptCall[Job] | None:
    """Make a job scheduler, or change it, and make its first job.

    Not repeatable: the second run of a pattern meets the job of the first (-10).

    Args:
        keys: The queue.
        scheduler_id: Free text, not empty.
        repeat: How often.
        name: Name of its jobs.
        data: Data of its jobs, any JSON value.
        options: Options of its jobs; no job id.
        now_ms: The present.
        local_zone: Meant by patterns without ``tz``.

    Returns:
        Decodes to the pending job. None if the limit or the end leaves no job to make.

    Raises:
        InvalidOption: The id is empty, the end is past, or the options hold a job id.
        NotEncodable: The data is not strict JSON.
        SchedulerCollision, SchedulerSlotsBusy: By ``decode``.

    Source: protocol spec 02 sections 4.1 and 4.4.
    """
    _check(scheduler_id, repeat, options, now_ms)
    iteration = next_iteration(repeat, now_ms=now_ms, local_zone=local_zone)
    if iteration is None:
        return None
    job = attrs.evolve(Job.from_options(keys, name, data, options, now_ms), scheduler_id=scheduler_id)
    template = options.to_wire()
    if not options.attempts:
        del template["attempts"]  # stored with a scheduler only if it was said (01 section 4)
    slot = "" if iteration.slot_ms is None else str(iteration.slot_ms)
    record = {"name": name, **codec.to_wire(codec.REPEAT_NAMES, attrs.evolve(iteration.repeat, count=None))}
    return ScriptCall(
        script="addJobScheduler",
        keys=(
            *(keys.repeat, keys.delayed, keys.wait, keys.paused, keys.meta, keys.prioritized),
            *(keys.marker, keys.id_counter, keys.events, keys.priority_counter, keys.active),
        ),
        args=(
            *(slot, codec.pack(record), scheduler_id, job.raw_data, codec.pack(template)),
            *(codec.pack(_job_wire(template, scheduler_id, iteration, now_ms)), now_ms, keys.base, ""),
        ),
        decode=_ReadFirst(job),
    )


def _check(scheduler_id: object, repeat: Repeat, options: JobOptions, now_ms: int) -> None:
    filled("scheduler_id", scheduler_id)
    if repeat.end_date is not None and repeat.end_date < now_ms:
        raise InvalidOption("end_date", f"lies in the past: {repeat.end_date} ms, now is {now_ms} ms")
    if options.job_id is not None:
        raise InvalidOption("job_id", "a scheduler gives its jobs their ids; leave it out")


def _job_wire(template: dict[str, Any], scheduler_id: str, iteration: Iteration, now_ms: int) -> dict[str, Any]:
    """Return the options of a scheduler's job; for an interval, the script sets delay and id."""
    slot_ms = iteration.slot_ms
    wire = {name: value for name, value in template.items() if name not in ("prevMillis", "jobId")}
    wire["repeat"] = codec.to_wire(codec.REPEAT_NAMES, iteration.repeat)
    wire["repeatJobKey"] = scheduler_id
    wire["timestamp"] = now_ms
    wire["delay"] = 0 if slot_ms is None else max(slot_ms - now_ms, 0)
    if slot_ms is not None:
        wire["prevMillis"] = slot_ms
        wire["jobId"] = f"repeat:{scheduler_id}:{slot_ms}"
    return wire


def update_job_scheduler(job: Job, now_ms: int, local_zone: tzinfo = timezone.utc) -> ScriptCall[str | None] | None:
    """Make the job that follows one that was just taken.

    Repeatable: the second run sees that this job has its follower already.

    Args:
        job: A taken job with a ``scheduler_id``.
        now_ms: The present.
        local_zone: Meant by patterns without ``tz``.

    Returns:
        Decodes to the id of the next job, or None if none was made. None in place of the
        call: the limit or the end leaves nothing to make.

    Raises:
        ProtocolError: The stored repeat options cannot be read: another client made the scheduler.

    Source: protocol spec 02 sections 4.2 and 4.4; 05 section 6.3.
    """
    scheduler_id, repeat = job.scheduler_id, job.options.repeat
    if "repeat" in job.options.extra:
        raise ProtocolError(
            f"no job can follow {job.id} of scheduler {scheduler_id}: its repeat options cannot be read here "
            "(expected either every or a cron pattern of 5 or 6 fields, and a time zone this machine knows)"
        )
    if scheduler_id is None or repeat is None:
        return None
    iteration = next_iteration(repeat, now_ms=now_ms, previous_ms=_slot_of(job), local_zone=local_zone)
    if iteration is None:
        return None
    keys = job.keys
    return ScriptCall(
        script="updateJobScheduler",
        keys=(
            *(keys.repeat, keys.delayed, keys.wait, keys.paused, keys.meta, keys.prioritized),
            *(keys.marker, keys.id_counter, keys.events, keys.priority_counter, job.key, keys.active),
        ),
        args=(
            *("" if iteration.slot_ms is None else str(iteration.slot_ms), scheduler_id, job.raw_data),
            *(codec.pack(_job_wire(job.options.to_wire(), scheduler_id, iteration, now_ms)), now_ms, keys.base, job.id),
        ),
        decode=replies.optional_text,
        repeatable=True,
    )


def _slot_of(job: Job) -> int:
    return codec.lenient_int(job.options.extra.get("prevMillis") or job.id.rpartition(":")[2])


def is_legacy_id(scheduler_id: str) -> bool:
    """Tell whether an id looks like a repeatable job of a client before 6.0; :func:`has_job_scheduler` knows.

    Source: protocol spec 05 section 6.3.
    """
    parts = scheduler_id.split(":")
    return len(parts) >= 5 and re.fullmatch(r"\d*", parts[2]) is not None and (parts[-1].isdigit() or " " in parts[-1])


def has_job_scheduler(keys: Keys, scheduler_id: str) -> Command[bool]:
    """Ask whether a scheduler's record exists, and is one of ours."""
    return Command(parts=("HEXISTS", keys.scheduler(scheduler_id), "ic"), decode=replies.flag, repeatable=True)


@attrs.frozen(kw_only=True, slots=False)
class JobScheduler:
    """A job scheduler, as stored.

    Attributes:
        id: Unique in the queue.
        name: Name of its jobs.
        next_ms: Slot of the job that is pending or running.
        iteration_count: Jobs made so far.
        every: Interval in ms, or None.
        pattern: Cron pattern, or None.
        tz: Zone of the pattern.
        limit: Most jobs to make.
        start_date: No job before this moment, in ms.
        end_date: No job after this moment, in ms.
        offset: Phase inside ``every``, in ms.
        raw_data: Data of its jobs, as JSON text.
        raw_options: Options of its jobs, as JSON text.
    """

    id: str
    name: str
    next_ms: int
    iteration_count: int = 0
    every: int | None = None
    pattern: str | None = None
    tz: str | None = None
    limit: int | None = None
    start_date: int | None = None
    end_date: int | None = None
    offset: int | None = None
    raw_data: Raw = attrs.field(default="{}", repr=False)
    raw_options: Raw = attrs.field(default="{}", repr=False)

    @cached_property
    def data(self) -> Any:
        """Data of its jobs.

        Raises:
            ProtocolError: Another client stored something that is not JSON.
        """
        try:
            return codec.decode_json(self.raw_data)
        except ProtocolError as error:
            raise ProtocolError(f"data of job scheduler {self.id} is {error}") from None

    @cached_property
    def options(self) -> JobOptions:
        """Options of its jobs."""
        return read_options(self.raw_options)


_TEXTS = {"name": "name", "pattern": "pattern", "tz": "tz", "data": "raw_data", "opts": "raw_options"}
_NUMBERS = {
    "ic": "iteration_count",
    "every": "every",
    "limit": "limit",
    "startDate": "start_date",
    "endDate": "end_date",
    "offset": "offset",
}


@attrs.frozen
class _ReadScheduler:
    scheduler_id: str

    def __call__(self, reply: Reply) -> JobScheduler | None:
        if not reply:
            return None
        if not isinstance(reply, (list, tuple)) or len(reply) != 2:
            raise replies.unexpected(reply, "a scheduler and its next slot")
        fields = replies.pairs(reply[0])
        found: dict[str, Any] = {field: fields[wire] for wire, field in _TEXTS.items() if wire in fields}
        found.update({field: codec.lenient_int(fields[wire]) for wire, field in _NUMBERS.items() if wire in fields})
        found.setdefault("name", "")
        return JobScheduler(id=self.scheduler_id, next_ms=replies.number(reply[1]), **found)


def get_job_scheduler(keys: Keys, scheduler_id: str) -> ScriptCall[JobScheduler | None]:
    """Read a job scheduler; decodes to None if there is none. Repeatable: it only reads."""
    return ScriptCall(
        script="getJobScheduler",
        keys=(keys.repeat,),
        args=(scheduler_id,),
        decode=_ReadScheduler(scheduler_id),
        repeatable=True,
    )


def get_job_scheduler_ids(keys: Keys, start: int = 0, end: int = -1, *, ascending: bool = False) -> Command[list[str]]:
    """Read the ids of job schedulers, by their next slot.

    Args:
        keys: The queue.
        start: First index, from 0.
        end: Last index; -1 for all.
        ascending: Soonest first.
    """
    command = "ZRANGE" if ascending else "ZREVRANGE"
    return Command(parts=(command, keys.repeat, start, end), decode=replies.texts, repeatable=True)


def count_job_schedulers(keys: Keys) -> Command[int]:
    """Count the job schedulers of a queue."""
    return Command(parts=("ZCARD", keys.repeat), decode=replies.number, repeatable=True)


def _is_zero(reply: Reply) -> bool:
    return replies.number(reply) == 0


def remove_job_scheduler(keys: Keys, scheduler_id: str) -> ScriptCall[bool]:
    """Remove a job scheduler with its delayed job; one that waits or runs already stays.

    Repeatable: the second run finds none and answers False.

    Returns:
        Decodes to False if there was none.
    """
    return ScriptCall(
        script="removeJobScheduler",
        keys=(keys.repeat, keys.delayed, keys.events),
        args=(scheduler_id, keys.base),
        decode=_is_zero,
        repeatable=True,
    )
