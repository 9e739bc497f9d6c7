"""Errors on their way between a child process and its parent.

Errors of Python and of this library arrive as what they were. Of other classes only
name and text arrive: the other side may not know them, and must not have to import them.
"""

import builtins
import traceback
from typing import Any

import attrs

from echomq import errors, signals
from echomq.errors import EchoMQError, RaisedInProcess
from echomq.errors.outcomes import class_name

__all__ = ["Parcel", "packed", "unpacked"]

_PLAIN = (str, bytes, int, float, bool, type(None))
_SHARED = {module.__name__: module for module in (builtins, errors, signals)}


class _InChild(Exception):  # no error of its own: it carries the stack trace of one
    """Where an error was raised, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


@attrs.frozen(kw_only=True)
class Parcel:
    """An error as plain values.

    Attributes:
        module: Of the class that the other side makes.
        name: Of that class.
        args: Of the error.
        state: Its attributes.
        trace: Its stack trace.
    """

    module: str
    name: str
    args: tuple[Any, ...]
    state: dict[str, Any]
    trace: str


def packed(error: BaseException) -> Parcel:
    """Return an error as what can be sent."""
    trace = "".join(traceback.format_exception(error))
    shared = _nearest_shared(type(error))
    if shared is None or not _is_plain(error.args):
        text = _text(error)
        names = tuple(class_name(cls) for cls in type(error).__mro__ if issubclass(cls, BaseException))
        state = {"type_name": names[0], "type_names": names}
        return Parcel(module=errors.__name__, name=RaisedInProcess.__name__, args=(text,), state=state, trace=trace)
    state = {name: value for name, value in vars(error).items() if _is_plain((value,))}
    return Parcel(module=shared.__module__, name=shared.__name__, args=error.args, state=state, trace=trace)


def unpacked(parcel: Parcel) -> BaseException:
    """Return the error that was packed; its cause tells where it was raised."""
    cls: type[BaseException] = getattr(_SHARED[parcel.module], parcel.name)
    if parcel.module == builtins.__name__:
        error = cls(*parcel.args)
    else:  # its text was made on the other side already
        error = cls.__new__(cls)
        error.args = parcel.args
    error.__dict__.update(parcel.state)
    error.__cause__ = _InChild(parcel.trace)
    return error


def _nearest_shared(cls: type[BaseException]) -> type[BaseException] | None:
    """Return the class itself if both sides know it, or of a class of the user's the signal that it is."""
    for base in cls.__mro__:
        if getattr(_SHARED.get(base.__module__), base.__name__, None) is base:
            is_same = base is cls
            return base if is_same or (issubclass(base, EchoMQError) and base is not EchoMQError) else None
    return None


def _is_plain(values: Any) -> bool:
    return all(isinstance(value, _PLAIN) or (isinstance(value, tuple) and _is_plain(value)) for value in values)


def _text(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  # a class may raise anything in __str__
        return type(error).__name__
