"""Options as users name them with each job: what many jobs have in common is checked once and shared.

Source: protocol spec 05 section 2.1.
"""

from collections.abc import Mapping
from datetime import timedelta
from operator import attrgetter
from typing import Any

import attrs

from .backoff import Backoff
from .checks import check_names
from .options import JobOptions, job_options
from .retention import Keep

__all__ = ["given_options"]

_NONE_GIVEN = JobOptions()
_SHARED: dict[tuple[object, ...], JobOptions] = {}
_SHARED_MOST = 512
_OWN = frozenset({"job_id", "timestamp", "telemetry_metadata"})
"""Options that are another for each job."""

_FIXED = frozenset({type(None), bool, int, str, timedelta, Keep, Backoff})
"""Types whose values never change, and are the same options wherever type and value are the same."""

_FIELDS: Mapping[str, Any] = attrs.fields_dict(JobOptions)
_read = attrgetter(*_FIELDS)
_WRITERS = [getattr(JobOptions, name).__set__ for name in _FIELDS]


def given_options(given: Mapping[str, Any]) -> JobOptions:
    """Return the options a user named, checked; equal ones are checked once and shared.

    Args:
        given: As the arguments of :func:`~echomq.options.job_options`; names may be of any type.

    Raises:
        UnknownOption: No option has that name; tells the nearest one.
        InvalidOption: A value is outside what its field allows.
    """
    if not given:
        return _NONE_GIVEN
    kinds = (*map(type, given.values()),)
    if not _FIXED.issuperset(kinds):
        check_names(JobOptions, given)  # names that are no text cannot be keywords
        return job_options(**given)
    if _OWN.isdisjoint(given):
        return _shared(given, kinds)
    own = {name: value for name, value in given.items() if name in _OWN}
    return _with_own(given_options({name: value for name, value in given.items() if name not in own}), own)


def _shared(given: Mapping[str, Any], kinds: tuple[type, ...]) -> JobOptions:
    key = (*given, *kinds, *given.values())  # types too, for True equals 1
    options = _SHARED.get(key)
    if options is None:
        check_names(JobOptions, given)
        options = job_options(**given)
        if len(_SHARED) >= _SHARED_MOST:
            _SHARED.clear()
        _SHARED[key] = options
    return options


def _with_own(shared: JobOptions, own: Mapping[str, Any]) -> JobOptions:
    """Return shared options with some of a job's own, which alone are checked: a fifth of the time of checking all."""
    options = object.__new__(JobOptions)
    for write, value in zip(_WRITERS, _read(shared), strict=True):
        write(options, value)
    for name, value in own.items():
        field = _FIELDS[name]
        converted = value if field.converter is None else field.converter(value)
        if field.validator is not None:
            field.validator(options, field, converted)
        object.__setattr__(options, name, converted)
    options.__attrs_post_init__()
    return options
