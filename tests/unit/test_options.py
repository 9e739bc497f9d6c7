"""Options: each rule refuses with the field's name and the limit, and stored ones are read whatever they say."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import attrs
import pytest

from echomq.backoff import Backoff
from echomq.errors import InvalidOption, NotEncodable, UnknownOption
from echomq.keys import FAMILY_NAMES
from echomq.options import (
    Deduplication,
    JobOptions,
    Keep,
    Parent,
    RateLimit,
    WorkerOptions,
    check_job_id,
    job_options,
)
from echomq.repeat import Repeat
from echomq.stored_options import options_from_wire, read_options

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"job_id": "0"}, "job_id", "number"),
    ({"job_id": "0:x"}, "job_id", "number"),
    ({"job_id": "0:x:y"}, "job_id", "number"),
    ({"job_id": "123"}, "job_id", "number"),
    ({"job_id": "-5"}, "job_id", "number"),
    ({"job_id": 7}, "job_id", "text"),
    ({"job_id": "a:b"}, "job_id", "two"),
    ({"job_id": "a:b:c:d"}, "job_id", "3"),
    ({"job_id": "a:b:c", "parent": Parent("p", "bull:q")}, "job_id", "no colon in a flow"),
    ({"priority": -1}, "priority", "between 0 and 2097151"),
    ({"priority": 2_097_152}, "priority", "between 0 and 2097151"),
    ({"priority": 1.5}, "priority", "whole number"),
    ({"priority": "3"}, "priority", "whole number"),
    ({"priority": True}, "priority", "whole number"),
    ({"priority": float("nan")}, "priority", "whole number"),
    ({"delay": -1}, "delay", "at least 0"),
    ({"delay": 10.5}, "delay", "int"),
    ({"delay": "5"}, "delay", "int"),
    ({"delay": True}, "delay", "int"),
    ({"delay": timedelta(seconds=-1)}, "delay", "at least 0"),
    ({"delay": 2**53}, "delay", "at most 9007199254740991"),
    ({"attempts": -1}, "attempts", "between 0 and"),
    ({"attempts": 2**53}, "attempts", "between 0 and 9007199254740991"),
    ({"timestamp": 2**60}, "timestamp", "at most 9007199254740991"),
    ({"attempts": 2.0}, "attempts", "whole number"),
    ({"timestamp": datetime(2026, 1, 1)}, "timestamp", "time zone"),  # noqa: DTZ001  # that is the point
    ({"timestamp": -1}, "timestamp", "1970"),
    ({"lifo": 1}, "lifo", "True or False"),
    ({"keep_logs": -1}, "keep_logs", "between 0 and"),
    ({"stack_trace_limit": "2"}, "stack_trace_limit", "whole number"),
    ({"size_limit": -2}, "size_limit", "between 0 and"),
    ({"remove_on_complete": -2}, "remove_on_complete", "between 0 and"),
    ({"remove_on_complete": "all"}, "remove_on_complete", "whole number"),
    ({"remove_on_fail": {"age_s": -1}}, "remove_on_fail.age_s", "between 0 and"),
    ({"remove_on_fail": {"limit": 0}}, "remove_on_fail.limit", "between 1 and"),
    ({"backoff": -5}, "backoff", "at least 0"),
    ({"backoff": {"type": ""}}, "backoff.type", "strategy"),
    ({"backoff": {"jitter": 1.1}}, "backoff.jitter", "within 0 and 1"),
    ({"backoff": {"jitter": -0.1}}, "backoff.jitter", "within 0 and 1"),
    ({"backoff": {"jitter": float("nan")}}, "backoff.jitter", "within 0 and 1"),
    ({"backoff": {"delay": 1.5}}, "backoff.delay", "int"),
    ({"deduplication": ""}, "deduplication.id", "not empty"),
    ({"deduplication": {"ttl": 5}}, "deduplication", "lacks"),
    ({"deduplication": {"id": "d", "ttl": 0.5}}, "deduplication.ttl", "int"),
    ({"deduplication": 5}, "deduplication", "Deduplication"),
    ({"deduplication": "d", "parent": Parent("p", "bull:q")}, "deduplication", "parent"),
    ({"parent": {"id": "a:b", "queue": "bull:q"}}, "parent.id", "colon"),
    ({"parent": {"id": "", "queue": "bull:q"}}, "parent.id", "not empty"),
    ({"parent": {"id": "p", "queue": "q"}}, "parent.queue", "prefix"),
    ({"parent": {"id": "p"}}, "parent", "lacks"),
    ({"repeat": {"every": 5}}, "repeat", "only a job scheduler sets it"),
    ({"telemetry_metadata": b"x"}, "telemetry_metadata", "text"),
    ({"omit_context": "no"}, "omit_context", "True or False"),
    ({"extra": {"attempts": 3}}, "extra", "attempts"),
    ({"extra": {"kl": 3}}, "extra", "keep_logs"),
    ({"extra": {"debounce": {"id": "x"}}}, "extra", "debounce"),
    ({"extra": [1]}, "extra", "mapping"),
]


@pytest.mark.parametrize(("given", "field", "limit"), REFUSED)
def test_refused(given: dict[str, Any], field: str, limit: str) -> None:
    """A value outside its rule is refused before anything is sent, naming the field and the limit (pain 51)."""
    with pytest.raises(InvalidOption) as caught:
        job_options(**given)

    assert caught.value.field == field
    assert limit in str(caught.value)


@pytest.mark.parametrize("name", [*sorted(FAMILY_NAMES), "metrics:failed:data", "de:x:y", "dn:x:y", "repeat:x:y"])
def test_family_names_are_no_job_ids(name: str) -> None:
    """A job id that names a key of the queue itself is refused."""
    with pytest.raises(InvalidOption, match="key of the queue"):
        job_options(job_id=name)


FLAGS = [
    "fail_parent_on_failure",
    "continue_parent_on_failure",
    "ignore_dependency_on_failure",
    "remove_dependency_on_failure",
]


@pytest.mark.parametrize("first", FLAGS)
@pytest.mark.parametrize("second", FLAGS)
def test_failure_policies_exclude_each_other(first: str, second: str) -> None:
    """At most one policy says what a failed child does to its parent."""
    given = {first: True, second: True}
    if first == second:
        assert getattr(job_options(**given), first)
    else:
        with pytest.raises(InvalidOption, match="choose one"):
            job_options(**given)


@pytest.mark.parametrize("job_id", ["007", "1.5", "1e3", "a:b:c", "x", "wait2", "+5", "1 ", "\uff10"])
def test_accepted_job_ids(job_id: str) -> None:
    """Ids that other clients take are taken."""
    assert job_options(job_id=job_id).job_id == job_id


def test_empty_job_id_means_none() -> None:
    """An empty id lets the server number the job."""
    assert job_options(job_id="").job_id is None


def test_ids_in_flows_hold_no_colon() -> None:
    """Keys of a flow are split at colons, so its ids hold none."""
    check_job_id("a:b:c")
    with pytest.raises(InvalidOption, match="no colon in a flow"):
        check_job_id("a:b:c", in_flow=True)


@pytest.mark.parametrize(
    ("name", "nearest"), [("dealy", "delay"), ("removeOnComplete", "remove_on_complete"), ("zzz", None)]
)
def test_unknown_option(name: str, nearest: str | None) -> None:
    """A misspelt option is refused, with the name that was probably meant (pain 38)."""
    with pytest.raises(UnknownOption) as caught:
        job_options(**{name: 1})

    assert caught.value.nearest == nearest


def test_unknown_nested_option() -> None:
    """A misspelt part of an option is refused with its whole path."""
    with pytest.raises(UnknownOption, match=r"backoff\.dealy.*delay"):
        job_options(backoff={"dealy": 5})


def test_extra_is_strict_json() -> None:
    """Options of other versions that go along are JSON, or refused with the path."""
    with pytest.raises(NotEncodable, match=r"\$\.mine"):
        job_options(extra={"mine": {1, 2}})


def test_times() -> None:
    """Durations are ms or timedelta; moments are ms or aware datetimes."""
    options = job_options(
        delay=timedelta(seconds=1.5),
        backoff=timedelta(seconds=2),
        timestamp=datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc),
        deduplication=Deduplication(id="d", ttl=timedelta(minutes=1)),
    )

    assert (options.delay, options.timestamp, options.backoff) == (1_500, 1_000, Backoff("fixed", 2_000))
    assert options.deduplication == Deduplication(id="d", ttl=60_000)


def test_none_means_not_given() -> None:
    """None in place of an option is the same as leaving it out."""
    names = [field.name for field in attrs.fields(JobOptions)]
    assert job_options(**dict.fromkeys(names)) == JobOptions()


KEPT: list[tuple[Any, Keep | None, Any]] = [
    (True, Keep(count=0), True),
    (False, Keep(), False),
    (-1, Keep(), False),
    (0, Keep(count=0), True),
    (5, Keep(count=5), 5),
    (Keep(age_s=60), Keep(age_s=60), {"age": 60}),
    ({"age_s": 60, "count": 5}, Keep(age_s=60, count=5), {"age": 60, "count": 5}),
]


@pytest.mark.parametrize(("given", "keep", "wire"), KEPT)
def test_keep(given: Any, keep: Keep, wire: Any) -> None:
    """What to keep is said as bool, number or rule, and stored in the form all clients read."""
    options = job_options(remove_on_complete=given)

    assert options.remove_on_complete == keep
    assert options.to_wire()["removeOnComplete"] == wire
    assert options_from_wire(options.to_wire()) == options


def test_wire_form() -> None:
    """Long names are shortened, what was not said is left out, attempts are always there."""
    assert job_options().to_wire() == {"attempts": 0}
    assert job_options(
        keep_logs=5,
        deduplication=Deduplication(id="d", ttl=9, keep_last_if_active=True),
        ignore_dependency_on_failure=True,
        telemetry_metadata="tp",
        omit_context=True,
        backoff=100,
        extra={"mine": [1]},
    ).to_wire() == {
        "attempts": 0,
        "kl": 5,
        "de": {"id": "d", "ttl": 9, "keepLastIfActive": True},
        "idof": True,
        "tm": "tp",
        "omc": True,
        "backoff": {"type": "fixed", "delay": 100},
        "mine": [1],
    }


def test_stored_options_of_other_clients() -> None:
    """Numbers in any spelling are understood, unknown options kept, odd values set aside, nothing raises."""
    options = read_options(
        b'{"attempts":"3","delay":10.5,"priority":-4,"jobId":"wait","timestamp":1e+15,"backoff":1000,'
        b'"removeOnFail":{"age":3600.5,"count":-1},"kl":null,"lifo":"yes","de":"x","new":{"a":1},"fpof":true,"cpof":true}'
    )

    assert (options.attempts, options.delay, options.timestamp) == (3, 10, 10**15)
    assert (options.backoff, options.remove_on_fail) == (Backoff("fixed", 1_000), Keep(age_s=3_600))
    assert (options.priority, options.job_id, options.lifo, options.deduplication) == (0, None, False, None)
    assert options.extra["new"] == {"a": 1}
    assert options.to_wire()["priority"] == -4
    assert options.to_wire()["jobId"] == "wait"


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"5", b'"x"', b"\xff", "{}"])
def test_stored_options_that_are_broken(raw: bytes | str) -> None:
    """Options that are no JSON map read as none at all."""
    assert read_options(raw) == JobOptions()


def test_options_of_a_scheduler_job() -> None:
    """The options of a scheduler's job are read, with its slot among the unknown ones."""
    options = read_options(
        b'{"repeat":{"pattern":"* * * * *","count":2,"endDate":5,"key":"old"},"prevMillis":7,"jobId":"repeat:a:b:7"}'
    )

    assert options.repeat == Repeat(pattern="* * * * *", count=2, end_date=5)
    assert options.job_id == "repeat:a:b:7"
    assert options.extra == {"prevMillis": 7}


WORKER_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": 1.5}, "concurrency"),
    ({"concurrency": float("inf")}, "concurrency"),
    ({"lock_duration": 0}, "lock_duration"),
    ({"stalled_interval": 0}, "stalled_interval"),
    ({"max_stalled_count": -1}, "max_stalled_count"),
    ({"drain_delay": 0}, "drain_delay"),
    ({"max_started_attempts": -1}, "max_started_attempts"),
    ({"maximum_rate_limit_delay": 0}, "maximum_rate_limit_delay"),
    ({"limiter": {"max": 0, "duration": 5}}, "limiter.max"),
    ({"limiter": {"max": 1, "duration": 0}}, "limiter.duration"),
    ({"metrics": 0}, "metrics"),
    ({"close_timeout": -1}, "close_timeout"),
    ({"name": 5}, "name"),
]


@pytest.mark.parametrize(("given", "field"), WORKER_REFUSED)
def test_worker_options_refused(given: dict[str, Any], field: str) -> None:
    """A worker that could not work is refused when it is made."""
    with pytest.raises(InvalidOption) as caught:
        WorkerOptions(**given)

    assert caught.value.field == field


def test_worker_defaults() -> None:
    """A worker's defaults are those of the contract."""
    options = WorkerOptions()

    assert (options.concurrency, options.lock_duration, options.stalled_interval) == (1, 30_000, 30_000)
    assert (options.max_stalled_count, options.drain_delay, options.maximum_rate_limit_delay) == (1, 5_000, 30_000)
    assert WorkerOptions(limiter=RateLimit(3, timedelta(seconds=1))).limiter == RateLimit(3, 1_000)


VALUES: list[Callable[[], object]] = [JobOptions, WorkerOptions, lambda: Backoff("fixed", 1)]


@pytest.mark.parametrize("make", VALUES)
def test_options_are_values(make: Callable[[], Any]) -> None:
    """Options are equal by content, and cannot be changed in place."""
    assert make() == make()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        make().delay = 5


def test_options_that_carry_a_trace() -> None:
    """Options with the context of a trace are the same otherwise, are sent with it, and leave those before alone."""
    before = job_options(job_id="a", attempts=3, backoff=Backoff("fixed", 5), extra={"own": 1})
    sent_before = before.packed
    carrying = before.carrying("{}")

    assert carrying == job_options(
        job_id="a", attempts=3, backoff=Backoff("fixed", 5), extra={"own": 1}, telemetry_metadata="{}"
    )
    assert carrying.to_wire() == {**before.to_wire(), "tm": "{}"}
    assert carrying.packed != sent_before == before.packed
    assert before.telemetry_metadata is None
