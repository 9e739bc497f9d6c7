"""What a user may say about a job or a worker, checked before anything is sent.

Names are Python's; the wire's spelling is :mod:`echomq.codec`'s. Each class
refuses what its fields do not allow, so an options value that exists is a
valid one. Options of jobs that other clients made are read, without any
refusal, by :mod:`echomq.stored_options`.

Source: protocol spec 01 section 4; 05 sections 2.1, 2.3 and 4.1.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import attrs

from . import codec
from .backoff import Backoff
from .checks import check_names, filled, from_mapping, is_bool, is_text, is_whole, nested
from .errors import InvalidOption
from .keys import names_family
from .moments import Duration, Moment, duration_ms, moment_ms
from .repeat import Repeat
from .retention import Keep, remove_on_complete, remove_on_fail
from .worker_options import RateLimit, WorkerOptions, worker_options

__all__ = [
    "MAX_PRIORITY",
    "Backoff",
    "Deduplication",
    "JobOptions",
    "Keep",
    "Parent",
    "RateLimit",
    "Repeat",
    "WorkerOptions",
    "check_job_id",
    "job_options",
    "worker_options",
]

MAX_PRIORITY = 2**21 - 1
"""Highest (least urgent) priority; one more and scores lose their order (01 section 5)."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_FAILURE_FLAGS = (
    "fail_parent_on_failure",
    "continue_parent_on_failure",
    "ignore_dependency_on_failure",
    "remove_dependency_on_failure",
)


def _or_zero(value: int | None) -> int:
    return 0 if value is None else value


def _or_false(value: bool | None) -> bool:
    return False if value is None else value


def _id(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    filled(f"deduplication.{field.name}", value)


def _ttl(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("deduplication.ttl", value)


@attrs.frozen(kw_only=True)
class Deduplication:
    """Refuse a job while another one holds the same id.

    Attributes:
        id: What makes two jobs the same; not empty.
        ttl: The id is free again this many ms (or a ``timedelta``) after it was taken; None: when its job ends.
        extend: A refused job starts the ``ttl`` anew.
        replace: A new job takes the place of a delayed one.
        reschedule: A refused job gives its delay to the delayed one.
        keep_last_if_active: The last job refused while the owner is active runs after it.

    Source: protocol spec 02 section 1, S13.
    """

    id: str = attrs.field(validator=_id)
    ttl: int | None = attrs.field(default=None, converter=_ttl)
    extend: bool = attrs.field(default=False, validator=is_bool)
    replace: bool = attrs.field(default=False, validator=is_bool)
    reschedule: bool = attrs.field(default=False, validator=is_bool)
    keep_last_if_active: bool = attrs.field(default=False, validator=is_bool)


def _parent_id(_: object, __: "attrs.Attribute[str]", value: object) -> None:
    if ":" in filled("parent.id", value):
        raise InvalidOption("parent.id", f"a job whose id holds a colon cannot be a parent: {value!r}")


def _parent_queue(_: object, __: "attrs.Attribute[str]", value: object) -> None:
    if not all(filled("parent.queue", value, "expected prefix and name, 'bull:mail'").rpartition(":")):
        raise InvalidOption("parent.queue", f"expected prefix and name, 'bull:mail', not {value!r}")


@attrs.frozen
class Parent:
    """The job that waits for this one.

    Attributes:
        id: Its id; no colon.
        queue: Its queue's name with the prefix, ``"bull:mail"``.
    """

    id: str = attrs.field(validator=_parent_id)
    queue: str = attrs.field(validator=_parent_queue)

    @property
    def key(self) -> str:
        """Key of the parent's hash."""
        return f"{self.queue}:{self.id}"


def check_job_id(job_id: object, *, in_flow: bool = False) -> None:
    """Refuse an id that the wire cannot carry.

    Args:
        job_id: As the user wrote it.
        in_flow: The job has a parent or children, whose keys are split at the last colon.

    Raises:
        InvalidOption: Says which rule it breaks.

    Source: protocol spec 05 section 2.1; 01 section 1.
    """
    if not isinstance(job_id, str):
        raise InvalidOption("job_id", f"expected text, not {job_id!r}")
    if job_id:
        filled("job_id", job_id)
    if _INTEGER.fullmatch(job_id) or job_id.startswith("0:"):
        raise InvalidOption("job_id", f"{job_id!r} is a number, and those are the server's to give; prefix it")
    if names_family(job_id):
        raise InvalidOption("job_id", f"{job_id!r} names a key of the queue itself; choose another")
    colons = job_id.count(":")
    if colons and (in_flow or colons != 2):
        allowed = "no colon in a flow" if in_flow else "no colon, or exactly two"
        raise InvalidOption("job_id", f"holds {allowed}, but {job_id!r} has {colons}")


def _delay(value: Duration | None) -> int:
    return 0 if value is None else duration_ms("delay", value)


def _timeout(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("timeout", value, minimum=1)


def _timestamp(value: Moment | None) -> int | None:
    return None if value is None else moment_ms("timestamp", value)


def _backoff(value: Backoff | Duration | Mapping[str, Any] | None) -> Backoff | None:
    if value is None or isinstance(value, Backoff):
        return value
    if isinstance(value, Mapping):
        return from_mapping(Backoff, "backoff", value)
    return Backoff("fixed", duration_ms("backoff", value))


def _deduplication(value: Deduplication | str | Mapping[str, Any] | None) -> Deduplication | None:
    if isinstance(value, str):
        return Deduplication(id=value)
    return nested(Deduplication, "deduplication", value)


def _parent(value: Parent | Mapping[str, Any] | None) -> Parent | None:
    return nested(Parent, "parent", value)


def _repeat(value: Repeat | Mapping[str, Any] | None) -> Repeat | None:
    return nested(Repeat, "repeat", value)


def _extra(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidOption("extra", f"expected a mapping of option names, not {value!r}")
    return value or {}


@attrs.frozen(kw_only=True)
class JobOptions:
    """What may be said about a job when it is added; everything has a default.

    Attributes:
        job_id: An id of your own; a second job of that id is not added. None: the server gives a number.
        delay: Wait this many ms (or a ``timedelta``) before the job may run.
        priority: 0 (none, runs first), then 1 (most urgent) to 2,097,151.
        attempts: How often the job may run in all; 0 and 1 both mean once.
        backoff: Wait between attempts; a number is a fixed wait in ms.
        lifo: Run before all that wait already.
        timestamp: When the job was made, in place of now.
        remove_on_complete: Which completed jobs stay, see :class:`Keep`; True removes at once. None: the worker's.
        remove_on_fail: The same for failed ones.
        keep_logs: Keep only the last so many log rows.
        stack_trace_limit: Keep only the last so many stack traces.
        size_limit: Refuse data of more bytes.
        timeout: Longest time for one attempt, in ms or as ``timedelta``; None: the worker's option.
        deduplication: Refuse the job while another holds the same id; text is the id alone.
        parent: The job that waits for this one.
        fail_parent_on_failure: If this job fails, its parent fails.
        continue_parent_on_failure: If this job fails, its parent runs at once.
        ignore_dependency_on_failure: If this job fails, its parent no longer waits for it, and can read why.
        remove_dependency_on_failure: If this job fails, its parent forgets it.
        telemetry_metadata: Context of the trace that the job belongs to.
        omit_context: Start a new trace.
        repeat: Set in the jobs of a scheduler.
        extra: Options this version does not know, by their wire names.

    Raises:
        InvalidOption: Names the field and the limit.

    Source: protocol spec 01 section 4; 05 section 2.1.
    """

    job_id: str | None = None
    delay: int = attrs.field(default=0, converter=_delay)
    priority: int = attrs.field(default=0, converter=_or_zero, validator=is_whole(0, MAX_PRIORITY))
    attempts: int = attrs.field(default=0, converter=_or_zero, validator=is_whole(0))
    backoff: Backoff | None = attrs.field(default=None, converter=_backoff)
    lifo: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    timestamp: int | None = attrs.field(default=None, converter=_timestamp)
    remove_on_complete: Keep | None = attrs.field(default=None, converter=remove_on_complete)
    remove_on_fail: Keep | None = attrs.field(default=None, converter=remove_on_fail)
    keep_logs: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    stack_trace_limit: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    size_limit: int | None = attrs.field(default=None, validator=is_whole(0, optional=True))
    timeout: int | None = attrs.field(default=None, converter=_timeout)
    deduplication: Deduplication | None = attrs.field(default=None, converter=_deduplication)
    parent: Parent | None = attrs.field(default=None, converter=_parent)
    fail_parent_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    continue_parent_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    ignore_dependency_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    remove_dependency_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    telemetry_metadata: str | None = attrs.field(default=None, validator=is_text)
    omit_context: bool = attrs.field(default=False, converter=_or_false, validator=is_bool)
    repeat: Repeat | None = attrs.field(default=None, converter=_repeat)
    extra: Mapping[str, Any] = attrs.field(factory=dict, converter=_extra, hash=False)

    def __attrs_post_init__(self) -> None:
        """Check what concerns more than one field."""
        if self.job_id == "":
            object.__setattr__(self, "job_id", None)  # other clients' way to say "none"
        if self.job_id is not None and self.repeat is None:
            check_job_id(self.job_id, in_flow=self.parent is not None)
        if self.deduplication is not None and self.parent is not None:
            raise InvalidOption("deduplication", "does not go with parent: a refused child would never report")
        chosen = [flag for flag in _FAILURE_FLAGS if getattr(self, flag)]
        if len(chosen) > 1:
            raise InvalidOption(chosen[1], f"does not go with {chosen[0]}; choose one")
        if self.extra:
            codec.check_json("extra", dict(self.extra))

    def carrying(self, metadata: str) -> "JobOptions":
        """Return these options with ``telemetry_metadata``, which concerns no other field, so none is checked again."""
        options = object.__new__(JobOptions)
        for name in _OPTION_NAMES:
            object.__setattr__(options, name, getattr(self, name))
        object.__setattr__(options, "telemetry_metadata", metadata)
        return options

    def to_wire(self) -> dict[str, Any]:
        """Return the options as they are sent and stored: short names, defaults left out but ``attempts``."""
        wire = codec.to_wire(codec.JOB_OPTION_NAMES, self)
        for field, names in codec.NESTED_OPTION_NAMES.items():
            if (value := getattr(self, field)) is not None:
                wire[codec.JOB_OPTION_NAMES[field]] = codec.to_wire(names, value)
        if self.backoff is not None and not self.backoff.jitter:
            del wire["backoff"]["jitter"]  # other clients leave it out, too
        for field in ("remove_on_complete", "remove_on_fail"):
            if (keep := getattr(self, field)) is not None:
                wire[codec.JOB_OPTION_NAMES[field]] = keep.to_wire()
        for name in ("delay", "priority"):
            if not wire[name]:
                del wire[name]
        return {**self.extra, **wire}

    @cached_property
    def packed(self) -> bytes:
        """The wire form as msgpack; made once, since many jobs share their options."""
        return codec.pack(self.to_wire())

    @cached_property
    def job_fields(self) -> Mapping[str, Any]:
        """What they decide of a new :class:`~echomq.job.Job`, by its attributes; what is absent has its default."""
        # Absent, these two would be looked for in a hash that such a job does not have, at each add.
        fields: dict[str, Any] = {"id": self.job_id or "", "delay_ms": self.delay, "priority": self.priority}
        if self.timestamp is not None:
            fields["timestamp_ms"] = self.timestamp
        if self.deduplication is not None:
            fields["deduplication_id"] = self.deduplication.id
        if self.parent is not None:
            fields["parent_key"] = self.parent.key
        return fields

    @cached_property
    def is_plain(self) -> bool:
        """True if adding such a job looks at no other job: no id of its own, no parent, no deduplication."""
        named = (self.job_id, self.parent, self.deduplication)
        return named == (None, None, None) and self.extra.keys().isdisjoint(("jobId", "parent", "de"))


_OPTION_NAMES = tuple(attrs.fields_dict(JobOptions))


def job_options(**given: Any) -> JobOptions:
    """Return the options a user named, checked.

    Args:
        **given: Fields of :class:`JobOptions`; None means "not given".

    Raises:
        UnknownOption: No option has that name; tells the nearest one.
        InvalidOption: A value is outside what its field allows.
    """
    check_names(JobOptions, given)
    if given.get("repeat") is not None:
        raise InvalidOption(
            "repeat", "only a job scheduler sets it, in the jobs it makes; it would repeat nothing here"
        )
    options = JobOptions(**given)
    for name in options.extra:
        if name in codec.JOB_OPTION_FIELDS:
            raise InvalidOption("extra", f"{name!r} has a field of its own; use {codec.JOB_OPTION_FIELDS[name]}")
        if name in ("debounce", "telemetry", "deduplication", "keepLogs"):
            raise InvalidOption("extra", f"{name!r} is not stored under that name; use the fields of JobOptions")
    return options
