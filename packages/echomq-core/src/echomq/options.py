"""What a user may say about a job or a worker, checked before anything is sent.

Names are Python's; the wire's spelling is :mod:`echomq.codec`'s. Each class
refuses what its fields do not allow, so an options value that exists is a
valid one. Options of jobs that other clients made are read by
:meth:`JobOptions.from_wire`, which never raises: what this version does not
understand is kept in ``extra``.

Source: protocol spec 01 section 4; 05 sections 2.1, 2.3 and 4.1.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

import attrs

from . import codec
from .backoff import Backoff, BackoffStrategy
from .errors import InvalidOption, ProtocolError, UnknownOption, UsageError
from .keys import FAMILY_NAMES
from .moments import Duration, Moment, duration_ms, moment_ms
from .repeat import Repeat

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
    "read_options",
    "worker_options",
]

Nested = TypeVar("Nested", bound="attrs.AttrsInstance")

MAX_PRIORITY = 2**21 - 1
"""Highest (least urgent) priority; one more and scores lose their order (01 section 5)."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]*")
_FAILURE_FLAGS = (
    "fail_parent_on_failure",
    "continue_parent_on_failure",
    "ignore_dependency_on_failure",
    "remove_dependency_on_failure",
)


def _whole(field: str, value: object, minimum: int = 0, maximum: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(field, f"expected a whole number, not {value!r}")
    if value < minimum or (maximum is not None and value > maximum):
        limit = f"at least {minimum}" if maximum is None else f"between {minimum} and {maximum}"
        raise InvalidOption(field, f"must be {limit}, not {value}")
    return value


def _is_whole(minimum: int, maximum: int | None = None, *, optional: bool = False) -> Any:
    def check(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
        if not (optional and value is None):
            _whole(field.name, value, minimum, maximum)

    return check


def _is_bool(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidOption(field.name, f"expected True or False, not {value!r}")


def _is_text(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidOption(field.name, f"expected text, not {value!r}")


def _or_zero(value: int | None) -> int:
    return 0 if value is None else value


def _or_false(value: bool | None) -> bool:
    return False if value is None else value


def _from_mapping(cls: type[Nested], field: str, value: Mapping[Any, Any]) -> Nested:
    """Build a nested option from a mapping; errors name the whole path."""
    names = [attribute.name for attribute in attrs.fields(cls)]
    for name in value:
        if name not in names:
            raise UnknownOption(f"{field}.{name}", _nearest(str(name), names))
    try:
        return cls(**value)
    except InvalidOption as problem:
        path = problem.field if problem.field.startswith(f"{field}.") else f"{field}.{problem.field}"
        raise InvalidOption(path, str(problem).partition(": ")[2]) from None
    except TypeError:
        raise InvalidOption(field, f"lacks a part; expected those of {cls.__name__}: {', '.join(names)}") from None


def _nearest(name: str, names: Sequence[str]) -> str | None:
    spelled = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()  # users of other runtimes write camelCase
    return next(iter(get_close_matches(spelled, names, n=1)), None)


def _id(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidOption(f"deduplication.{field.name}", f"expected text that is not empty, not {value!r}")


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
    extend: bool = attrs.field(default=False, validator=_is_bool)
    replace: bool = attrs.field(default=False, validator=_is_bool)
    reschedule: bool = attrs.field(default=False, validator=_is_bool)
    keep_last_if_active: bool = attrs.field(default=False, validator=_is_bool)


@attrs.frozen(kw_only=True)
class Keep:
    """Which finished jobs stay; all of them if nothing is said.

    Attributes:
        age_s: Remove jobs that finished longer ago than this, in seconds.
        count: Keep only the newest so many; 0 keeps none.
        limit: Most jobs removed for their age at one time (the script's own default: 1,000).

    Source: protocol spec 03 section 1.3 and S14.
    """

    age_s: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    count: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    limit: int | None = attrs.field(default=None, validator=_is_whole(1, optional=True))

    @classmethod
    def of(cls, field: str, value: "Keep | bool | int | Mapping[str, int] | None") -> "Keep | None":
        """Return what True (none), False (all), a count or a mapping stands for; None stays None.

        Raises:
            InvalidOption: It stands for nothing.
        """
        if value is None or isinstance(value, Keep):
            return value
        if isinstance(value, bool):
            return cls(count=0) if value else cls()
        if isinstance(value, Mapping):
            return _from_mapping(cls, field, value)
        if value == -1:  # how other clients spell "all of them"
            return cls()
        return cls(count=_whole(field, value))

    def to_wire(self) -> bool | int | dict[str, int]:
        """Return the form stored in ``opts``: a bool, a number, or a map."""
        found = codec.to_wire(codec.KEEP_NAMES, self)
        if not found:
            return False
        if list(found) == ["count"]:
            return self.count or True
        return found


def _parent_id(_: object, __: "attrs.Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidOption("parent.id", f"expected text that is not empty, not {value!r}")
    if ":" in value:
        raise InvalidOption("parent.id", f"a job whose id holds a colon cannot be a parent: {value!r}")


def _parent_queue(_: object, __: "attrs.Attribute[str]", value: object) -> None:
    if not isinstance(value, str) or not all(value.rpartition(":")):
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
    if _INTEGER.fullmatch(job_id) or job_id.startswith("0:"):
        raise InvalidOption("job_id", f"{job_id!r} is a number, and those are the server's to give; prefix it")
    if job_id in FAMILY_NAMES:
        raise InvalidOption("job_id", f"{job_id!r} names a key of the queue itself; choose another")
    colons = job_id.count(":")
    if colons and (in_flow or colons != 2):
        allowed = "no colon in a flow" if in_flow else "no colon, or exactly two"
        raise InvalidOption("job_id", f"holds {allowed}, but {job_id!r} has {colons}")


def _delay(value: Duration | None) -> int:
    return 0 if value is None else duration_ms("delay", value)


def _timestamp(value: Moment | None) -> int | None:
    return None if value is None else moment_ms("timestamp", value)


def _backoff(value: Backoff | Duration | Mapping[str, Any] | None) -> Backoff | None:
    if value is None or isinstance(value, Backoff):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(Backoff, "backoff", value)
    return Backoff("fixed", duration_ms("backoff", value))


def _deduplication(value: Deduplication | str | Mapping[str, Any] | None) -> Deduplication | None:
    if isinstance(value, str):
        return Deduplication(id=value)
    return _nested(Deduplication, "deduplication", value)


def _parent(value: Parent | Mapping[str, Any] | None) -> Parent | None:
    return _nested(Parent, "parent", value)


def _repeat(value: Repeat | Mapping[str, Any] | None) -> Repeat | None:
    return _nested(Repeat, "repeat", value)


def _nested(cls: type[Nested], field: str, value: object) -> Nested | None:
    if value is None or isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        return _from_mapping(cls, field, value)
    raise InvalidOption(field, f"expected {cls.__name__}, not {value!r}")


def _remove_on_complete(value: Keep | bool | int | Mapping[str, int] | None) -> Keep | None:
    return Keep.of("remove_on_complete", value)


def _remove_on_fail(value: Keep | bool | int | Mapping[str, int] | None) -> Keep | None:
    return Keep.of("remove_on_fail", value)


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
    priority: int = attrs.field(default=0, converter=_or_zero, validator=_is_whole(0, MAX_PRIORITY))
    attempts: int = attrs.field(default=0, converter=_or_zero, validator=_is_whole(0))
    backoff: Backoff | None = attrs.field(default=None, converter=_backoff)
    lifo: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
    timestamp: int | None = attrs.field(default=None, converter=_timestamp)
    remove_on_complete: Keep | None = attrs.field(default=None, converter=_remove_on_complete)
    remove_on_fail: Keep | None = attrs.field(default=None, converter=_remove_on_fail)
    keep_logs: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    stack_trace_limit: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    size_limit: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    deduplication: Deduplication | None = attrs.field(default=None, converter=_deduplication)
    parent: Parent | None = attrs.field(default=None, converter=_parent)
    fail_parent_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
    continue_parent_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
    ignore_dependency_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
    remove_dependency_on_failure: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
    telemetry_metadata: str | None = attrs.field(default=None, validator=_is_text)
    omit_context: bool = attrs.field(default=False, converter=_or_false, validator=_is_bool)
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

    def to_wire(self) -> dict[str, Any]:
        """Return the options as they are sent and stored: short names, defaults left out but ``attempts``."""
        wire = codec.to_wire(codec.JOB_OPTION_NAMES, self)
        for field, names in _NESTED.items():
            if (value := getattr(self, field)) is not None:
                wire[codec.JOB_OPTION_NAMES[field]] = codec.to_wire(names, value)
        for field in ("remove_on_complete", "remove_on_fail"):
            if (keep := getattr(self, field)) is not None:
                wire[codec.JOB_OPTION_NAMES[field]] = keep.to_wire()
        for name in ("delay", "priority"):
            if not wire[name]:
                del wire[name]
        return {**self.extra, **wire}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "JobOptions":
        """Return stored options of any client; what is odd or unknown goes to ``extra``, nothing raises."""
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in wire.items():
            field = _WIRE_FIELDS.get(name)
            read = None if field is None else _read(field, value)
            if field is None or read is None:
                extra[name] = value
            else:
                known[field] = read
        while True:
            try:
                return cls(**known, extra=extra)
            except InvalidOption as problem:
                for refused in [problem.field] if problem.field in known else list(known):
                    del known[refused]
                    extra[codec.JOB_OPTION_NAMES[refused]] = wire[codec.JOB_OPTION_NAMES[refused]]
            except UsageError:  # the unknown options are no JSON: only hand-made mappings can be like that
                return cls(**known)


_NESTED: Mapping[str, Mapping[str, str]] = {
    "backoff": codec.BACKOFF_NAMES,
    "deduplication": codec.DEDUPLICATION_NAMES,
    "parent": codec.PARENT_NAMES,
    "repeat": codec.REPEAT_NAMES,
}
_WIRE_FIELDS = {wire: field for field, wire in codec.JOB_OPTION_NAMES.items()}
_NUMBERS = frozenset(
    {"attempts", "delay", "priority", "timestamp", "keep_logs", "stack_trace_limit", "size_limit"}
    | {"age_s", "count", "limit", "ttl", "every", "offset", "start_date", "end_date"}
)
_NESTED_CLASSES: Mapping[str, type[Any]] = {
    "backoff": Backoff,
    "deduplication": Deduplication,
    "parent": Parent,
    "repeat": Repeat,
}


def _read(field: str, value: object) -> Any:
    """Return the stored value of an option as its field takes it, or None if it makes no sense."""
    if value is None:
        return None
    if field in ("remove_on_complete", "remove_on_fail"):
        return _read_keep(value)
    if field in _NESTED_CLASSES:
        if field == "backoff" and not isinstance(value, Mapping):
            value = {"delay": value}
        return _read_nested(_NESTED_CLASSES[field], _NESTED[field], value)
    return _read_plain(field, value)


def _read_plain(field: str, value: Any) -> Any:
    if field in _NUMBERS and not isinstance(value, bool):
        number = codec.lenient_int(value, -1)
        return None if number < 0 else number
    return value


def _read_keep(value: object) -> Keep | None:
    if isinstance(value, bool):
        return Keep(count=0) if value else Keep()
    if isinstance(value, Mapping):
        return _read_nested(Keep, codec.KEEP_NAMES, value)
    count = _read_plain("count", value)
    return Keep() if count is None else Keep(count=count)


def _read_nested(cls: type[Nested], names: Mapping[str, str], value: object) -> Nested | None:
    if not isinstance(value, Mapping):
        return None
    parts = {field: _read_plain(field, value[wire]) for field, wire in names.items() if value.get(wire) is not None}
    if cls is Backoff and "delay" in parts:
        parts["delay"] = codec.lenient_int(value["delay"])
    try:
        return cls(**{field: part for field, part in parts.items() if part is not None})
    except (InvalidOption, TypeError):
        return None


def job_options(**given: Any) -> JobOptions:
    """Return the options a user named, checked.

    Args:
        **given: Fields of :class:`JobOptions`; None means "not given".

    Raises:
        UnknownOption: No option has that name; tells the nearest one.
        InvalidOption: A value is outside what its field allows.
    """
    _check_names(JobOptions, given)
    options = JobOptions(**given)
    for name in options.extra:
        if name in _WIRE_FIELDS:
            raise InvalidOption("extra", f"{name!r} has a field of its own; use {_WIRE_FIELDS[name]}")
        if name in ("debounce", "telemetry", "deduplication", "keepLogs"):
            raise InvalidOption("extra", f"{name!r} is not stored under that name; use the fields of JobOptions")
    return options


def _check_names(cls: type[Any], given: Mapping[str, object]) -> None:
    names = [attribute.name for attribute in attrs.fields(cls)]
    for name in given:
        if name not in names:
            raise UnknownOption(name, _nearest(name, names))


def read_options(raw: codec.Raw) -> JobOptions:
    """Return the options stored with a job; broken ones read as none.

    Most jobs of a queue carry the same text, so short texts are remembered.
    """
    return _remembered(raw) if len(raw) <= 300 else _read_text(raw)


def _read_text(raw: codec.Raw) -> JobOptions:
    try:
        wire = codec.decode_json(raw)
    except ProtocolError:
        return JobOptions()
    return JobOptions.from_wire(wire) if isinstance(wire, dict) else JobOptions()


_remembered = lru_cache(maxsize=512)(_read_text)


def _duration(value: Duration) -> int:
    return duration_ms("duration", value, minimum=1)


def _lock_duration(value: Duration) -> int:
    return duration_ms("lock_duration", value, minimum=1)


def _stalled_interval(value: Duration) -> int:
    return duration_ms("stalled_interval", value, minimum=1)


def _drain_delay(value: Duration) -> int:
    return duration_ms("drain_delay", value, minimum=1)


def _maximum_rate_limit_delay(value: Duration) -> int:
    return duration_ms("maximum_rate_limit_delay", value, minimum=1)


def _close_timeout(value: Duration | None) -> int | None:
    return None if value is None else duration_ms("close_timeout", value)


@attrs.frozen
class RateLimit:
    """At most ``max`` jobs start in each ``duration``, over all workers of the queue.

    Attributes:
        max: Jobs in one window.
        duration: Length of the window in ms (or a ``timedelta``).
    """

    max: int = attrs.field(validator=_is_whole(1))
    duration: int = attrs.field(converter=_duration)


def _limiter(value: RateLimit | Mapping[str, Any] | None) -> RateLimit | None:
    return _nested(RateLimit, "limiter", value)


@attrs.frozen(kw_only=True)
class WorkerOptions:
    """How a worker works; everything has a default.

    Attributes:
        concurrency: Jobs at one time.
        name: Shown in lists of workers, and stored with the jobs it takes.
        lock_duration: A job whose worker is silent for so long (ms or ``timedelta``) may run elsewhere.
        stalled_interval: Look for such jobs this often.
        max_stalled_count: A job lost more often than this fails.
        skip_stalled_check: Leave the look-out to other workers.
        skip_lock_renewal: Never renew locks: each job must end within ``lock_duration``.
        drain_delay: Longest single wait for a job on an idle queue.
        limiter: Rate limit of this worker's queue.
        maximum_rate_limit_delay: Longest single sleep while rate limited.
        max_started_attempts: A job started more often than this fails; None for no limit.
        remove_on_complete: For jobs that say nothing themselves; None keeps all.
        remove_on_fail: The same for failed ones.
        metrics: Points (minutes) of history to keep; None counts nothing.
        backoff_strategies: Own backoff types: name -> function, see :func:`~echomq.backoff.next_delay_ms`.
        close_timeout: How long a close waits for running jobs; None without end.

    Raises:
        InvalidOption: Names the field and the limit.

    Source: protocol spec 05 section 4.1.
    """

    concurrency: int = attrs.field(default=1, validator=_is_whole(1))
    name: str | None = attrs.field(default=None, validator=_is_text)
    lock_duration: int = attrs.field(default=30_000, converter=_lock_duration)
    stalled_interval: int = attrs.field(default=30_000, converter=_stalled_interval)
    max_stalled_count: int = attrs.field(default=1, validator=_is_whole(0))
    skip_stalled_check: bool = attrs.field(default=False, validator=_is_bool)
    skip_lock_renewal: bool = attrs.field(default=False, validator=_is_bool)
    drain_delay: int = attrs.field(default=5_000, converter=_drain_delay)
    limiter: RateLimit | None = attrs.field(default=None, converter=_limiter)
    maximum_rate_limit_delay: int = attrs.field(default=30_000, converter=_maximum_rate_limit_delay)
    max_started_attempts: int | None = attrs.field(default=None, validator=_is_whole(0, optional=True))
    remove_on_complete: Keep | None = attrs.field(default=None, converter=_remove_on_complete)
    remove_on_fail: Keep | None = attrs.field(default=None, converter=_remove_on_fail)
    metrics: int | None = attrs.field(default=None, validator=_is_whole(1, optional=True))
    backoff_strategies: Mapping[str, BackoffStrategy] = attrs.field(factory=dict, hash=False)
    close_timeout: int | None = attrs.field(default=None, converter=_close_timeout)


def worker_options(**given: Any) -> WorkerOptions:
    """Return the options a user named, checked.

    Args:
        **given: Fields of :class:`WorkerOptions`.

    Raises:
        UnknownOption: No option has that name; tells the nearest one.
        InvalidOption: A value is outside what its field allows.
    """
    _check_names(WorkerOptions, given)
    return WorkerOptions(**given)
