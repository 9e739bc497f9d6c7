"""What goes over the pipe between a worker and a child process: plain values, in both directions.

Source: :mod:`echomq.processes`.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from echomq.job import Job

from .parcel import Parcel

__all__ = ["CALLS", "Answer", "Ask", "Began", "FromChild", "Raised", "Returned", "Run", "ToChild"]

CALLS = frozenset({"log", "progress", "update_data", "add_child", "extend", "get_children_values"})
"""What a child may ask for: methods of ``ctx``."""


@attrs.frozen
class Run:
    """Run a job.

    Attributes:
        job: The job.
        token: What its lock holds.
        handed: To the layers of plugins in the child, by the names of the plugins.
    """

    job: Job
    token: str
    handed: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Began:
    """The child has the job, and is to blame for what becomes of it."""


@attrs.frozen
class Ask:
    """Call a method of the job's ``ctx`` for the child.

    Attributes:
        number: Of the question, in this job.
        method: One of :data:`CALLS`.
        args: Positional arguments.
        options: Others.
    """

    number: int
    method: str
    args: tuple[Any, ...]
    options: dict[str, Any]


@attrs.frozen
class Answer:
    """What the method returned or raised.

    Attributes:
        number: Of the question.
        value: What was returned.
        error: What was raised.
    """

    number: int
    value: Any = None
    error: Parcel | None = None


@attrs.frozen
class Returned:
    """The job's code returned.

    Attributes:
        value_json: Its result as JSON.
    """

    value_json: str


@attrs.frozen
class Raised:
    """The job's code raised."""

    error: Parcel


ToChild: TypeAlias = Run | Answer
FromChild: TypeAlias = Began | Ask | Returned | Raised
