"""Checks that option classes share.

Each refuses with the field's name, what was seen and what is allowed.

Source: protocol spec 05 section 2.1.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import attrs

from .errors import InvalidOption, UnknownOption

__all__ = ["MAX_INTEGER", "check_names", "filled", "from_mapping", "is_bool", "is_text", "is_whole", "nested", "whole"]

Nested = TypeVar("Nested", bound="attrs.AttrsInstance")

MAX_INTEGER = 2**53 - 1
"""Largest whole number that every runtime can hold."""


def whole(field: str, value: object, minimum: int = 0, maximum: int = MAX_INTEGER) -> int:
    """Return a whole number within bounds, or refuse it.

    Raises:
        InvalidOption: Not an int (a bool is none), or out of bounds; names the field.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidOption(field, f"expected a whole number, not {value!r}")
    if not minimum <= value <= maximum:
        raise InvalidOption(field, f"must be between {minimum} and {maximum}, not {value}")
    return value


def filled(field: str, value: object, expected: str = "expected text that is not empty") -> str:
    """Return text that is not empty and that UTF-8 can express, or refuse it.

    Raises:
        InvalidOption: It is something else; names the field.
    """
    if not isinstance(value, str) or not value:
        raise InvalidOption(field, f"{expected}, not {value!r}")
    if not value.isascii():
        _expressible(field, value)
    return value


def _expressible(field: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(
            field, f"{value!r} holds a lone surrogate at index {error.start}, which UTF-8 cannot express"
        ) from None


def is_whole(minimum: int, maximum: int = MAX_INTEGER, *, optional: bool = False) -> Any:
    """Return a validator of a field for :func:`whole`; ``optional`` lets None pass."""

    def check(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
        if not (optional and value is None):
            whole(field.name, value, minimum, maximum)

    return check


def is_bool(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    """Refuse what is neither True nor False; a validator."""
    if not isinstance(value, bool):
        raise InvalidOption(field.name, f"expected True or False, not {value!r}")


def is_text(_: object, field: "attrs.Attribute[Any]", value: object) -> None:
    """Refuse what is neither text nor None; a validator."""
    if value is not None and not isinstance(value, str):
        raise InvalidOption(field.name, f"expected text, not {value!r}")
    if value is not None:
        _expressible(field.name, value)


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(attribute.name for attribute in attrs.fields(cls))


def check_names(cls: Any, given: Mapping[Any, object], prefix: str = "") -> None:
    """Refuse names that are no fields of a class, with the nearest that is.

    Raises:
        UnknownOption: The first such name, after the prefix.
    """
    names = _field_names(cls)
    for name in given:
        if name not in names:
            raise UnknownOption(f"{prefix}{name}", _nearest(str(name), names), names)


def _nearest(name: str, names: Sequence[str]) -> str | None:
    spelled = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()  # users of other runtimes write camelCase
    return next(iter(get_close_matches(spelled, names, n=1)), None)


def from_mapping(cls: type[Nested], field: str, value: Mapping[Any, Any]) -> Nested:
    """Build an option that has parts from a mapping; errors name the whole path.

    Raises:
        UnknownOption: It has no part of that name.
        InvalidOption: A part is outside what it allows, or lacks.
    """
    check_names(cls, value, f"{field}.")
    try:
        return cls(**value)
    except InvalidOption as problem:
        path = problem.field if problem.field.startswith(f"{field}.") else f"{field}.{problem.field}"
        raise InvalidOption(path, str(problem).partition(": ")[2]) from None
    except TypeError:
        parts = ", ".join(_field_names(cls))
        raise InvalidOption(field, f"lacks a part; expected those of {cls.__name__}: {parts}") from None


def nested(cls: type[Nested], field: str, value: object) -> Nested | None:
    """Return an option that has parts, given as such or as a mapping; None stays None.

    Raises:
        UnknownOption: As :func:`from_mapping`.
        InvalidOption: It is something else, or as :func:`from_mapping`.
    """
    if value is None or isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        return from_mapping(cls, field, value)
    raise InvalidOption(field, f"expected {cls.__name__}, not {value!r}")
