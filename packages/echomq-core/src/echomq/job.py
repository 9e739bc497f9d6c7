"""One job, as a frozen value.

A job comes from options (before it is added) or from its hash (afterwards).
The hash is decoded once, straight into the value; JSON stays raw bytes until
somebody asks for it, since most code asks for little of it. Hashes are read
leniently: other clients, of other ages, wrote them.

Source: protocol spec 01 section 3; 05 section 3.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

import attrs

from . import codec
from .checks import filled
from .codec import Raw
from .errors import InvalidOption, ProtocolError
from .keys import Keys
from .late import Late
from .moments import to_datetime
from .options import JobOptions
from .states import JobState, state_from_fields
from .stored_options import read_options

__all__ = ["Job"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NO_FIELDS: Mapping[str, Raw] = {}


@attrs.frozen(kw_only=True, slots=False, hash=False)
class Job:
    """A job of a queue.

    Attributes:
        keys: Names of the queue's keys.
        id: Unique in the queue; empty until the server numbered it.
        name: What kind of work it is.
        raw_data: Data as JSON text; decoded by ``data``.
        raw_options: Options as JSON text; decoded by ``options``.
        timestamp_ms: When it was made.
        delay_ms: Its wait before it may run; 0 once it is over.
        priority: 0 (none, first), then 1 (most urgent) to 2,097,151.
        attempts_made: Attempts that ended.
        attempts_started: Times a worker took it.
        stalled_count: Times its worker went silent.
        processed_by: Name of the worker that took it last.
        processed_on_ms: When it was taken last.
        finished_on_ms: When it completed or failed.
        deferred_failure: Decided failure; the next worker fails the job with this text without running it.
        scheduler_id: Scheduler that made it.
        deduplication_id: Deduplication id it holds or held.
        parent_key: Key of its parent's hash.
        failed_reason: Message of its last failure.
        raw_parent: Parent with its policy, as JSON text.
        raw_progress: Progress as JSON text.
        raw_return_value: Result as JSON text.
        raw_stacktrace: Stack traces as JSON text.
        other_fields: Fields of the hash this version does not know.
        state: Where the job is, if that was asked or is certain.
        given_options: Options of a job that is about to be added; None if it was read from the server.
    """

    keys: Keys
    id: str
    name: str
    raw_data: Raw = attrs.field(default="{}", repr=False)
    raw_options: Raw = attrs.field(default="{}", repr=False)
    timestamp_ms: int = attrs.field(default=0, repr=False)
    delay_ms: int = attrs.field(default=0, repr=False)
    priority: int = attrs.field(default=0, repr=False)
    attempts_made: int = 0
    attempts_started: int = attrs.field(default=0, repr=False)
    stalled_count: int = attrs.field(default=0, repr=False)
    processed_by: str | None = attrs.field(default=None, repr=False)
    processed_on_ms: int | None = attrs.field(default=None, repr=False)
    finished_on_ms: int | None = attrs.field(default=None, repr=False)
    deferred_failure: str | None = attrs.field(default=None, repr=False)
    scheduler_id: str | None = attrs.field(default=None, repr=False)
    deduplication_id: str | None = attrs.field(default=None, repr=False)
    parent_key: str | None = attrs.field(default=None, repr=False)
    failed_reason: str | None = attrs.field(default=None, repr=False)
    raw_parent: Raw | None = attrs.field(default=None, repr=False)
    raw_progress: Raw = attrs.field(default="0", repr=False)
    raw_return_value: Raw | None = attrs.field(default=None, repr=False)
    raw_stacktrace: Raw | None = attrs.field(default=None, repr=False)
    other_fields: Mapping[str, Raw] = attrs.field(default=_NO_FIELDS, repr=False)
    state: JobState | None = None
    given_options: JobOptions | None = attrs.field(default=None, repr=False)

    def __hash__(self) -> int:
        """Jobs are told apart by queue and id."""
        return hash((self.keys, self.id))

    @classmethod
    def from_options(cls, keys: Keys, name: str, data: object, options: JobOptions, now_ms: int) -> "Job":
        """Return a job that has not been added yet.

        Args:
            keys: The queue it goes to.
            name: What kind of work it is; not empty.
            data: Any JSON value.
            options: See there.
            now_ms: Its timestamp, unless the options fix one.

        Raises:
            InvalidOption: The name is empty, or the data is larger than ``size_limit``.
            NotEncodable: The data is not strict JSON.
        """
        filled("name", name, "a job's name is text that is not empty")
        raw = codec.quick_json(data)
        if raw is None:
            raw = codec.strict_json(f"data of job {name!r}", data)
        limit = options.size_limit
        if limit is not None and (size := len(raw.encode())) > limit:
            raise InvalidOption("size_limit", f"data of job {name!r} has {size} bytes, the limit is {limit}")
        job = _new(cls)
        fields = job.__dict__
        fields["keys"], fields["name"], fields["raw_data"], fields["timestamp_ms"] = keys, name, raw, now_ms
        fields["given_options"] = fields["options"] = options
        fields.update(options.job_fields)
        return job

    @classmethod
    def from_hash(
        cls,
        keys: Keys,
        job_id: str,
        fields: Sequence[Raw] | Mapping[Any, Raw],
        state: JobState | None = None,
    ) -> "Job":
        """Return a job from its hash.

        Args:
            keys: The queue it was read from.
            job_id: Its id; the hash does not hold it.
            fields: HGETALL: a flat list of names and values, or a mapping.
            state: Where it was found, if known.

        Raises:
            ProtocolError: The reply is no hash at all. Odd values of fields never raise.
        """
        if (plain := codec.plain_hash(fields)) is not None:
            data, options = plain.get(b"data", "{}"), plain.get(b"opts", "{}")
            return _made_of(
                {"keys": keys, "id": job_id, "state": state, _HASH: plain, "raw_data": data, "raw_options": options}
            )
        try:
            values, unknown = codec.read_hash(fields)
        except TypeError:
            raise ProtocolError(f"the hash of job {job_id} cannot be read: expected names and values") from None
        if unknown:
            values["other_fields"] = unknown
        values.setdefault("name", "")
        values["keys"], values["id"], values["state"] = keys, job_id, state
        return _made_of(values)

    def with_id(self, job_id: str) -> "Job":
        """Return the job as the server numbered it."""
        return _made_of({**self.__dict__, "id": job_id})

    def with_options(self, options: JobOptions) -> "Job":
        """Return the job, before it is added, with options that decide the same of its fields."""
        return _made_of({**self.__dict__, "given_options": options, "options": options})

    def numbered(self, job_id: str) -> "Job":
        """Do as :meth:`with_id`, for a job that nobody else has seen: its one owner spares the copy."""
        self.__dict__["id"] = job_id
        return self

    @property
    def queue_name(self) -> str:
        """Name of the queue, without the prefix."""
        return self.keys.queue

    @property
    def key(self) -> str:
        """Key of the job's hash."""
        return self.keys.base + self.id

    @Late
    def data(self) -> Any:
        """What the producer handed in.

        Raises:
            ProtocolError: Another client stored something that is not JSON.
        """
        try:
            return codec.decode_json(self.raw_data)
        except ProtocolError as error:
            raise ProtocolError(f"data of job {self.id} in queue {self.queue_name} is {error}") from None

    @Late
    def options(self) -> JobOptions:
        """What was said about the job when it was added."""
        return read_options(self.raw_options) if self.given_options is None else self.given_options

    @Late
    def progress(self) -> Any:
        """How far the job has come, as its code reported; 0 at first, None if it cannot be read."""
        return _or_none(self.raw_progress)

    @Late
    def return_value(self) -> Any:
        """What the job's code returned; None until then, and if it cannot be read."""
        return None if self.raw_return_value is None else _or_none(self.raw_return_value)

    @Late
    def stacktrace(self) -> tuple[str, ...]:
        """Stack traces of its failures, oldest first; empty if they cannot be read."""
        rows = None if self.raw_stacktrace is None else _or_none(self.raw_stacktrace)
        return tuple(row for row in rows if isinstance(row, str)) if isinstance(rows, list) else ()

    @Late
    def parent(self) -> Mapping[str, Any] | None:
        """Parent id, queue and failure policy as stored, or None."""
        stored = None if self.raw_parent is None else _or_none(self.raw_parent)
        return stored if isinstance(stored, dict) else None

    @property
    def timestamp(self) -> datetime:
        """When it was made; a moment that no calendar holds is shown as the epoch."""
        return _moment(self.timestamp_ms) or _EPOCH

    @property
    def processed_on(self) -> datetime | None:
        """When it was taken last."""
        return _moment(self.processed_on_ms)

    @property
    def finished_on(self) -> datetime | None:
        """When it completed or failed."""
        return _moment(self.finished_on_ms)

    @Late
    def presumed_state(self) -> JobState:
        """The known state, else what the hash suggests."""
        if self.state is not None:
            return self.state
        return state_from_fields(
            is_finished=self.finished_on_ms is not None,
            has_return_value=self.raw_return_value is not None,
            is_delayed=self.delay_ms > 0,
            priority=self.priority,
        )

    @property
    def is_waiting(self) -> bool:
        """It waits to be taken, in order of arrival."""
        return self.presumed_state is JobState.WAITING

    @property
    def is_prioritized(self) -> bool:
        """It waits to be taken, by priority."""
        return self.presumed_state is JobState.PRIORITIZED

    @property
    def is_delayed(self) -> bool:
        """It may not run yet."""
        return self.presumed_state is JobState.DELAYED

    @property
    def is_active(self) -> bool:
        """A worker has it."""
        return self.presumed_state is JobState.ACTIVE

    @property
    def is_waiting_children(self) -> bool:
        """It waits for its children."""
        return self.presumed_state is JobState.WAITING_CHILDREN

    @property
    def is_completed(self) -> bool:
        """Its code returned."""
        return self.presumed_state is JobState.COMPLETED

    @property
    def is_failed(self) -> bool:
        """Its code raised, and no attempt is left."""
        return self.presumed_state is JobState.FAILED

    @property
    def is_finished(self) -> bool:
        """It completed or failed."""
        return self.presumed_state.is_finished


_new = object.__new__
_set_fields = Job.__dict__["__dict__"].__set__

_HASH = "_hash"
"""Where a job keeps what was not read yet of its hash."""


def _late(wire: bytes, read: Callable[[Raw], Any], default: Any) -> Callable[[Job], Any]:
    def work_out(job: Job) -> Any:
        fields: Mapping[bytes, Raw] = job.__dict__.get(_HASH, _NO_FIELDS)
        raw = fields.get(wire)
        return default if raw is None else read(raw)

    return work_out


for _field in attrs.fields(Job):
    if _field.default is not attrs.NOTHING:
        setattr(Job, _field.name, _field.default)
for _wire, (_name, _read) in codec.PLAIN_FIELDS.items():
    _default = getattr(Job, _name, "")
    setattr(Job, _name, Late(_late(_wire, _read, _default), _name))


def _made_of(fields: dict[str, Any]) -> Job:
    """Return a job that holds these fields, and has the class's value of any other.

    Adding makes two jobs and taking makes one; passing each of twenty-five fields would take longer than the rest.
    """
    job = _new(Job)
    _set_fields(job, fields)
    return job


def _or_none(raw: Raw) -> Any:
    try:
        return codec.decode_json(raw)
    except ProtocolError:
        return None


def _moment(value_ms: int | None) -> datetime | None:
    try:
        return to_datetime(value_ms)
    except OverflowError:  # a foreign client wrote a moment beyond the calendar
        return None
