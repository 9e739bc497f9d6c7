"""Jobs: made from options, read from hashes that any client of any age wrote."""

import pickle
from datetime import datetime, timezone
from typing import Any

import attrs
import pytest

from echomq.errors import InvalidOption, NotEncodable, ProtocolError
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import Parent, job_options
from echomq.states import JobState

KEYS = Keys("q")

TAKEN = {
    "name": "n2",
    "data": '{"to":"ada"}',
    "opts": '{"attempts":3,"delay":1000}',
    "timestamp": "1795953876319",
    "delay": "0",
    "priority": "3",
    "processedOn": "1795953876400",
    "finishedOn": "1795953876500",
    "pb": "w",
    "atm": "1",
    "ats": "2",
    "stc": "1",
    "defa": "child x failed",
    "rjk": "s:1",
    "deid": "d1",
    "parentKey": "bull:p:1",
    "parent": '{"id":"1","queueKey":"bull:p","fpof":true}',
    "progress": "50",
    "failedReason": "boom",
    "stacktrace": '["Error: boom"]',
    "returnvalue": "null",
    "later": "x",
}


def flat(fields: dict[str, str]) -> list[bytes]:
    """A hash as the server replies it."""
    return [part.encode() for pair in fields.items() for part in pair]


def test_each_field_of_a_hash() -> None:
    """Each field of the contract is read into the attribute of its meaning."""
    job = Job.from_hash(KEYS, "2", flat(TAKEN))

    assert (job.id, job.key, job.queue_name, job.name, job.data) == ("2", "bull:q:2", "q", "n2", {"to": "ada"})
    assert (job.timestamp_ms, job.processed_on_ms, job.finished_on_ms) == (1795953876319, 1795953876400, 1795953876500)
    assert (job.delay_ms, job.priority, job.options.attempts, job.options.delay) == (0, 3, 3, 1_000)
    assert (job.attempts_made, job.attempts_started, job.stalled_count, job.processed_by) == (1, 2, 1, "w")
    assert (job.deferred_failure, job.scheduler_id, job.deduplication_id) == ("child x failed", "s:1", "d1")
    assert (job.parent_key, job.parent) == ("bull:p:1", {"id": "1", "queueKey": "bull:p", "fpof": True})
    assert (job.progress, job.return_value, job.failed_reason) == (50, None, "boom")
    assert (job.stacktrace, job.other_fields) == (("Error: boom",), {"later": b"x"})


def test_all_forms_of_a_hash() -> None:
    """Bytes or text, list or mapping: the same job."""
    job = Job.from_hash(KEYS, "2", flat({**TAKEN, "later": ""}))
    pairs = TAKEN | {"later": ""}

    as_texts = Job.from_hash(KEYS, "2", [part for pair in pairs.items() for part in pair])
    as_mapping = Job.from_hash(KEYS, "2", pairs)
    as_bytes_mapping = Job.from_hash(KEYS, "2", {name.encode(): value.encode() for name, value in pairs.items()})
    for other in (as_texts, as_mapping, as_bytes_mapping):
        for name in ("name", "data", "options", "progress", "parent", "stacktrace", "timestamp_ms", "attempts_made"):
            assert getattr(other, name) == getattr(job, name)


def test_fields_that_are_read_late() -> None:
    """A job whose hash is kept as it came is the same as one that was read at once, copied and sent elsewhere too."""
    special = ("defa", "rjk", "deid", "parentKey", "parent", "later")
    fields = {name: value for name, value in TAKEN.items() if name not in special}
    at_once = Job.from_hash(KEYS, "2", {name.encode(): value.encode() for name, value in fields.items()})

    assert Job.from_hash(KEYS, "2", flat(fields)) == at_once
    assert attrs.evolve(Job.from_hash(KEYS, "2", flat(fields)), name="other") == attrs.evolve(at_once, name="other")
    assert pickle.loads(pickle.dumps(Job.from_hash(KEYS, "2", flat(fields)))) == at_once  # noqa: S301  # our own bytes
    assert repr(Job.from_hash(KEYS, "2", flat(fields))) == repr(at_once)


def test_absent_fields() -> None:
    """A hash with nothing in it is a job with the contract's defaults."""
    job = Job.from_hash(KEYS, "x", [])

    assert (job.name, job.data, job.progress, job.return_value, job.stacktrace) == ("", {}, 0, None, ())
    assert (job.priority, job.attempts_made, job.processed_on, job.parent) == (0, 0, None, None)


def test_old_spelling_of_attempts() -> None:
    """Where an old client counted attempts under another name, that count is preferred."""
    assert Job.from_hash(KEYS, "1", [b"atm", b"1", b"attemptsMade", b"4"]).attempts_made == 4
    assert Job.from_hash(KEYS, "1", ["attemptsMade", "4", "atm", "1"]).attempts_made == 4


ODD: list[tuple[list[bytes], str, Any]] = [
    ([b"delay", b"10.5"], "delay_ms", 10),
    ([b"timestamp", b"1e+15"], "timestamp_ms", 10**15),
    ([b"priority", b"high"], "priority", 0),
    ([b"processedOn", b""], "processed_on_ms", None),
    ([b"processedOn", b"99999999999999999999"], "processed_on", None),
    ([b"timestamp", b"-99999999999999999999"], "timestamp", datetime(1970, 1, 1, tzinfo=timezone.utc)),
    ([b"name", b"\xff\xfe"], "name", "\ufffd\ufffd"),
    ([b"failedReason", b"caf\xe9"], "failed_reason", "caf\ufffd"),
    ([b"stacktrace", b"not json"], "stacktrace", ()),
    ([b"stacktrace", b'{"a":1}'], "stacktrace", ()),
    ([b"stacktrace", b'["a",null,5]'], "stacktrace", ("a",)),
    ([b"returnvalue", b"{broken"], "return_value", None),
    ([b"progress", b"\xff"], "progress", None),
    ([b"parent", b"null"], "parent", None),
    ([b"opts", b"\xff"], "options", job_options()),
    ([b"\xff", b"\xff"], "other_fields", {"\ufffd": b"\xff"}),
]


@pytest.mark.parametrize(("fields", "attribute", "value"), ODD)
def test_odd_values(fields: list[bytes], attribute: str, value: Any) -> None:
    """An odd value in a hash is read as well as it can be, and never takes the job down."""
    assert getattr(Job.from_hash(KEYS, "1", fields), attribute) == value


@pytest.mark.parametrize("reply", [5, b"x", "ab", [b"name"], [b"name", 5], [b"data", None], [[b"a"], b"b"], [None, 1]])
def test_no_hash_at_all(reply: Any) -> None:
    """A reply that is no hash is an error that names the job."""
    with pytest.raises(ProtocolError, match="job 77"):
        Job.from_hash(KEYS, "77", reply)


def test_broken_data() -> None:
    """Data that is no JSON stops only who asks for it, and the error names the job and the queue."""
    job = Job.from_hash(KEYS, "77", [b"name", b"n", b"data", b"{broken"])

    assert job.name == "n"
    with pytest.raises(ProtocolError, match="data of job 77 in queue q"):
        _ = job.data


def test_data_is_decoded_once() -> None:
    """Asking twice gives the same object."""
    job = Job.from_hash(KEYS, "1", flat(TAKEN))
    assert job.data is job.data


def test_from_options() -> None:
    """A job takes what the options say, and the time given for what they do not."""
    parent = Parent("p1", "bull:p")
    job = Job.from_options(KEYS, "n", {"a": 1}, job_options(job_id="mine", delay=5, priority=2, parent=parent), 99)

    assert (job.id, job.name, job.raw_data, job.timestamp_ms) == ("mine", "n", '{"a":1}', 99)
    assert (job.delay_ms, job.priority, job.parent_key, job.options.parent) == (5, 2, "bull:p:p1", parent)
    assert Job.from_options(KEYS, "n", None, job_options(timestamp=7), 99).timestamp_ms == 7
    assert Job.from_options(KEYS, "n", None, job_options(), 99).id == ""


def test_numbering() -> None:
    """A job is numbered as a copy, or in place by whoever alone has it; its options keep what they decided."""
    job = Job.from_options(KEYS, "n", 5, job_options(delay=5), 99)

    copied = job.with_id("1")
    assert (job.id, copied.id, copied.data, copied.delay_ms) == ("", "1", 5, 5)
    assert job.numbered("1") is job
    assert job == copied
    assert Job.from_options(KEYS, "n", 5, job.options, 99).id == ""


@pytest.mark.parametrize("name", ["", None, 5, b"n"])
def test_bad_names(name: Any) -> None:
    """A job has a name that is text."""
    with pytest.raises(InvalidOption, match="name"):
        Job.from_options(KEYS, name, None, job_options(), 0)


def test_size_limit() -> None:
    """Data is measured in UTF-8 bytes of its JSON, and refused above the limit with both numbers."""
    Job.from_options(KEYS, "n", "é" * 4, job_options(size_limit=10), 0)
    with pytest.raises(InvalidOption, match="12 bytes, the limit is 10"):
        Job.from_options(KEYS, "n", "é" * 5, job_options(size_limit=10), 0)


def test_bad_data_names_the_job() -> None:
    """Data that is no JSON is refused with the job's name and the path."""
    with pytest.raises(NotEncodable, match=r"data of job 'welcome' .*\$\.to"):
        Job.from_options(KEYS, "welcome", {"to": b"x"}, job_options(), 0)


def test_moments_are_aware() -> None:
    """Moments are given as aware datetimes too."""
    job = Job.from_hash(KEYS, "1", flat(TAKEN))
    assert job.timestamp == datetime(2026, 11, 29, 12, 4, 36, 319_000, tzinfo=timezone.utc)


PRESUMED: list[tuple[dict[str, str], str]] = [
    ({}, "is_waiting"),
    ({"priority": "3"}, "is_prioritized"),
    ({"delay": "50"}, "is_delayed"),
    ({"finishedOn": "5", "returnvalue": "null"}, "is_completed"),
    ({"finishedOn": "5", "failedReason": "x"}, "is_failed"),
]


@pytest.mark.parametrize(("fields", "predicate"), PRESUMED)
def test_presumed_state(fields: dict[str, str], predicate: str) -> None:
    """Without a known state, the hash alone tells; exactly one predicate holds."""
    job = Job.from_hash(KEYS, "1", fields)
    names = [
        "is_waiting",
        "is_prioritized",
        "is_delayed",
        "is_active",
        "is_waiting_children",
        "is_completed",
        "is_failed",
    ]

    assert [name for name in names if getattr(job, name)] == [predicate]
    assert job.is_finished == (predicate in ("is_completed", "is_failed"))


def test_known_state_wins() -> None:
    """A job that was found somewhere is what it was found as."""
    assert Job.from_hash(KEYS, "1", {"delay": "50"}, JobState.ACTIVE).is_active


def test_repr_shows_no_payload() -> None:
    """A job can be logged: its data, results and reasons are not shown."""
    job = Job.from_hash(
        KEYS, "1", flat({**TAKEN, "data": '"secret"', "returnvalue": '"secret"', "failedReason": "secret"})
    )
    assert "secret" not in repr(job)


def test_jobs_are_values() -> None:
    """Jobs are equal by content, hashable, and changed only by making another one."""
    job = Job.from_hash(KEYS, "1", flat(TAKEN))
    _ = job.data
    changed = attrs.evolve(job, raw_data=b"[1]", id="3")

    assert job == Job.from_hash(KEYS, "1", flat(TAKEN))
    assert len({job, Job.from_hash(KEYS, "1", flat(TAKEN)), changed}) == 2
    assert (changed.data, changed.id, job.data) == ([1], "3", {"to": "ada"})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        job.id = "4"  # type: ignore[misc]  # that is the point


def test_other_options_before_the_add() -> None:
    """A job that a plugin gives other options has them, keeps all else, and leaves the first job alone."""
    options = job_options(delay=5, priority=2)
    job = Job.from_options(KEYS, "welcome", {"to": "ada"}, options, 7)
    changed = job.with_options(options.carrying("{}"))

    assert changed == attrs.evolve(job, given_options=options.carrying("{}"))
    assert (changed.options.telemetry_metadata, changed.delay_ms, changed.data) == ("{}", 5, {"to": "ada"})
    assert job.options is options
