"""Type checkers and the library know the same options."""

from datetime import timedelta
from typing import Any

import attrs
import pytest

from echomq import backoff, options
from echomq.errors import InvalidOption
from echomq.keywords import JobKeywords, WorkerKeywords
from echomq.options import JobOptions, WorkerOptions, job_options, worker_options

MADE_BY_SCHEDULERS = {"repeat"}


def test_job_options_have_the_same_names() -> None:
    """What a type checker lets a job say is what the library takes: not one name more or less (pain 38)."""
    assert set(JobKeywords.__annotations__) == {field.name for field in attrs.fields(JobOptions)} - MADE_BY_SCHEDULERS


def test_worker_options_have_the_same_names() -> None:
    """What a type checker lets a worker say is what the library takes: not one name more or less (pain 38)."""
    assert set(WorkerKeywords.__annotations__) == {field.name for field in attrs.fields(WorkerOptions)}


def test_options_of_schedulers_are_not_for_adds() -> None:
    """An option that only job schedulers set is refused, since it would do nothing."""
    with pytest.raises(InvalidOption, match="repeat: only a job scheduler sets it"):
        job_options(repeat={"every": 1_000})


FORMS: dict[str, list[Any]] = {
    "delay": [5, timedelta(seconds=1)],
    "backoff": [5, timedelta(seconds=1), {"type": "exponential", "delay": 5}, backoff.Backoff("fixed", 5)],
    "remove_on_complete": [True, False, 5, {"count": 5}, options.Keep(count=5)],
    "remove_on_fail": [True, False, 5, {"count": 5}, options.Keep(count=5)],
    "deduplication": ["id", {"id": "id"}, options.Deduplication(id="id")],
    "parent": [{"id": "p", "queue": "bull:mail"}, options.Parent("p", "bull:mail")],
    "limiter": [{"max": 1, "duration": 5}, options.RateLimit(1, 5)],
}
"""Forms that the types of an option name; every one must be taken."""


@pytest.mark.parametrize(("name", "form"), [(name, form) for name, forms in FORMS.items() for form in forms], ids=repr)
def test_each_form_is_taken(name: str, form: Any) -> None:
    """Every form that the type of an option allows is taken by the library."""
    found = [
        read(**{name: form})
        for keywords, read in ((JobKeywords, job_options), (WorkerKeywords, worker_options))
        if name in keywords.__annotations__
    ]

    assert found
