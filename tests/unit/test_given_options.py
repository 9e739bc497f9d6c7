"""Options that jobs share: checked once, and never taken for others."""

from datetime import timedelta
from typing import Any

import pytest

from echomq.backoff import Backoff
from echomq.errors import InvalidOption
from echomq.options import JobOptions, given_options, job_options


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
