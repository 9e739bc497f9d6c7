"""Texts and hashes survive the way to the server and back, whatever they hold."""

import json
import math
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echomq.codec import JOB_OPTION_FIELDS, decode_json, encode_json, pack
from echomq.errors import NotEncodable, ProtocolError
from echomq.job import Job
from echomq.keys import Keys
from echomq.options import JobOptions, job_options
from echomq.states import JobState
from echomq.stored_options import options_from_wire, read_options

KEYS = Keys("q")

any_text = st.text(st.characters(codec="utf-8") | st.sampled_from("\ud800\udfff"))
atoms = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
strict = st.recursive(atoms, lambda inner: st.lists(inner) | st.dictionaries(any_text, inner), max_leaves=20)
loose = st.recursive(
    atoms | st.floats() | st.binary(max_size=3) | st.just(object()) | st.frozensets(st.integers(), max_size=2),
    lambda inner: st.lists(inner) | st.dictionaries(any_text | st.integers() | st.none(), inner) | st.tuples(inner),
    max_leaves=20,
)


@given(strict)
def test_json_round_trip(value: Any) -> None:
    """Strict JSON comes back as it went, by us and by the standard library."""
    encoded = encode_json("data", value)

    assert decode_json(encoded) == value
    assert decode_json(encoded.encode()) == value
    assert json.loads(encoded) == value


def _is_strict(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_strict(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_strict, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int))


@given(loose)
def test_nothing_else_passes(value: Any) -> None:
    """A value is encoded if and only if it is strict JSON; anything else is refused with a path."""
    if _is_strict(value):
        assert decode_json(encode_json("data", value)) == json.loads(json.dumps(value))
    else:
        with pytest.raises(NotEncodable) as caught:
            encode_json("data", value)
        assert caught.value.path.startswith("$")


@given(st.binary(max_size=40) | any_text)
def test_any_bytes(raw: bytes | str) -> None:
    """Any bytes decode to a value or to a protocol error."""
    with suppress(ProtocolError):
        decode_json(raw)


short = st.integers(0, 2**53 - 1)
options = st.fixed_dictionaries(
    {},
    optional={
        "job_id": st.from_regex(r"[a-z]{8}(:[a-z]+:[a-z]+)?", fullmatch=True),
        "delay": short,
        "priority": st.integers(0, 2_097_151),
        "attempts": short,
        "backoff": st.fixed_dictionaries(
            {"type": st.text(min_size=1), "delay": short, "jitter": st.floats(0, 1, width=32)}
        ),
        "lifo": st.booleans(),
        "timestamp": short,
        "remove_on_complete": st.booleans()
        | st.integers(-1, 99)
        | st.fixed_dictionaries({"age_s": short, "count": short}),
        "remove_on_fail": st.fixed_dictionaries({"limit": st.integers(1, 99)}),
        "keep_logs": short,
        "stack_trace_limit": short,
        "size_limit": short,
        "deduplication": st.fixed_dictionaries(
            {"id": st.text(min_size=1)}, optional={"ttl": short, "extend": st.booleans(), "replace": st.booleans()}
        ),
        "ignore_dependency_on_failure": st.booleans(),
        "telemetry_metadata": st.text(),
        "omit_context": st.booleans(),
        "repeat": st.fixed_dictionaries({"every": st.integers(1, 2**40)}, optional={"limit": short, "count": short}),
        "extra": st.dictionaries(st.from_regex("x[a-z]+", fullmatch=True), strict, max_size=3),
    },
)


@given(options)
def test_options_round_trip(given_options: dict[str, Any]) -> None:
    """Options that are sent, stored and read again say the same."""
    if "repeat" in given_options:
        given_options.pop("job_id", None)
    said = JobOptions(**given_options)
    wire = said.to_wire()

    assert options_from_wire(wire) == said
    assert read_options(json.dumps(wire)) == said
    try:
        assert msgspec.msgpack.decode(pack(wire)) == wire
    except NotEncodable:
        assert said.extra  # numbers of more than 64 bits and lone surrogates in options of other versions


odd = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
odd_values = st.recursive(
    odd,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "ttl", "type", "delay", "jitter", "age", "count", "every", "pattern", "queue", "tz"]
            ),
            inner,
        )
    ),
    max_leaves=6,
)
wire_names = st.sampled_from([*JOB_OPTION_FIELDS, "prevMillis", "later"])


@given(st.dictionaries(wire_names, odd_values))
def test_any_stored_options(wire: dict[str, Any]) -> None:
    """Stored options of any shape are read without an error, and what is set aside is still there."""
    read = options_from_wire(wire)
    written = read.to_wire()

    for name, value in read.extra.items():
        assert wire[name] == value
        assert written[name] == value or name == "attempts"


hash_names = st.sampled_from(
    [
        "name",
        "data",
        "opts",
        "timestamp",
        "delay",
        "priority",
        "atm",
        "ats",
        "stc",
        "pb",
        "processedOn",
        "finishedOn",
        "defa",
        "rjk",
        "deid",
        "parentKey",
        "parent",
        "progress",
        "returnvalue",
        "failedReason",
        "stacktrace",
        "attemptsMade",
        "tm",
        "later",
    ]
).map(str.encode)
hash_values = (
    st.binary(max_size=12)
    | st.integers().map(lambda n: str(n).encode())
    | strict.map(lambda value: encode_json("x", value).encode())
)


@given(st.dictionaries(hash_names | st.binary(max_size=5), hash_values))
def test_any_hash_is_a_job(fields: dict[bytes, bytes]) -> None:
    """Whatever a hash holds, it becomes a job all of whose attributes can be asked; only data may raise, by name."""
    job = Job.from_hash(KEYS, "7", [part for pair in fields.items() for part in pair], JobState.ACTIVE)

    for name in (
        "options",
        "progress",
        "return_value",
        "stacktrace",
        "parent",
        "timestamp",
        "processed_on",
        "finished_on",
    ):
        getattr(job, name)
    with suppress(ProtocolError):
        _ = job.data
    assert job == Job.from_hash(KEYS, "7", fields, JobState.ACTIVE)


@given(
    st.text(min_size=1).filter(lambda name: name.encode("utf-8", "ignore").decode() == name),
    strict,
    st.integers(0, 2**53 - 1),
    st.lists(any_text, max_size=3),
)
def test_job_hash_round_trip(name: str, data: Any, moment: int, traces: list[str]) -> None:
    """A hash as the scripts write it gives back what was said."""
    job = Job.from_options(KEYS, name, data, job_options(delay=moment), moment)
    stored: dict[str, str] = {
        "name": job.name,
        "data": str(job.raw_data),
        "opts": json.dumps(job.options.to_wire()),
        "timestamp": str(job.timestamp_ms),
        "delay": str(job.delay_ms),
        "stacktrace": encode_json("stacktrace", traces),
    }
    read = Job.from_hash(KEYS, "1", [part.encode() for pair in stored.items() for part in pair])

    assert (read.name, read.data, read.options) == (name, data, job.options)
    assert (read.timestamp_ms, read.delay_ms, read.stacktrace) == (moment, moment, tuple(traces))
