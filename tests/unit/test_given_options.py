"""Options that jobs share: checked once, and never taken for others."""

from datetime import timedelta
from typing import Any

import pytest

from echomq.backoff import Backoff
from echomq.errors import InvalidOption, UsageError
from echomq.given import given_options
from echomq.options import JobOptions, job_options
from echomq.retention import Keep


def test_equal_options_are_checked_once() -> None:
    """Options that were named before are the same value again, so that adding many such jobs checks them once."""
    given = {"attempts": 3, "backoff": Backoff("exponential", 1_000), "delay": timedelta(seconds=1)}

    assert given_options(given) is given_options(dict(given))
    assert given_options(given) == job_options(**given)
    assert given_options({}) == JobOptions()


@pytest.mark.parametrize(
    ("good", "bad"),
    [({"lifo": True}, {"lifo": 1}), ({"attempts": 1}, {"attempts": True}), ({"delay": 1}, {"delay": 1.0})],
)
def test_remembered_options_let_nothing_else_pass(good: dict[str, Any], bad: dict[str, Any]) -> None:
    """A value that equals one seen before and is of another type is refused as ever."""
    given_options(good)

    with pytest.raises(InvalidOption):
        given_options(bad)


def test_changed_mapping_is_read_again() -> None:
    """A mapping that the caller changes between two adds counts as it is at each."""
    backoff = {"type": "fixed", "delay": 1}
    first = given_options({"backoff": backoff})
    backoff["delay"] = 2

    assert (first.backoff, given_options({"backoff": backoff}).backoff) == (Backoff("fixed", 1), Backoff("fixed", 2))


def test_many_different_options() -> None:
    """Options of which no two are equal are each what was named, however many there are."""
    assert [given_options({"delay": number}).delay for number in range(2_000)] == list(range(2_000))


@pytest.mark.parametrize(
    "given",
    [
        {"job_id": "mine"},
        {"job_id": "a:b:c", "attempts": 3},
        {"job_id": ""},
        {"job_id": None, "timestamp": None, "lifo": True},
        {"timestamp": 5, "telemetry_metadata": "{}", "remove_on_complete": Keep(count=1)},
    ],
)
def test_own_beside_shared(given: dict[str, Any]) -> None:
    """Options of one job beside those of many are the same as if all had been checked together."""
    options = given_options(given)

    assert options == job_options(**given)
    assert (options.packed, options.is_plain) == (job_options(**given).packed, job_options(**given).is_plain)
    assert given_options(given) == options
    assert given_options({name: value for name, value in given.items() if name == "attempts"}).job_id is None


@pytest.mark.parametrize(
    "given",
    [
        {"job_id": 5},
        {"job_id": "5"},
        {"job_id": "meta"},
        {"job_id": "a:b"},
        {"timestamp": -1},
        {"timestamp": True},
        {"telemetry_metadata": 5},
        {"telemetry_metadata": "\udce9"},
        {"job_id": "mine", "attempts": -1},
        {"job_id": "mine", "attemps": 1},
        {"job_id": "mine", "repeat": 1},
        {"job_id": "mine", "lifo": True, 5: 5},
    ],
)
def test_own_are_refused_as_ever(given: dict[Any, Any]) -> None:
    """A bad option of one job, or beside one, is refused in the words of checking all."""
    with pytest.raises(UsageError) as alone:
        job_options(**{str(name): value for name, value in given.items()})
    with pytest.raises(UsageError) as beside:
        given_options(given)

    assert (type(beside.value), str(beside.value)) == (type(alone.value), str(alone.value))
