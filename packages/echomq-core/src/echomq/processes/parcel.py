"""Errors on their way between a child process and its parent.

Errors of Python and of this library arrive as what they were, and so do those of classes
that a user made of the latter, if the other side has them too. Of other classes only name
and text arrive: the other side may not know them, and must not have to import them.
"""

import builtins
from collections.abc import Iterator
from typing import Any

import attrs

from echomq import errors, signals
from echomq.errors import EchoMQError, RaisedInProcess
from echomq.errors.outcomes import class_name
from echomq.stacktraces import RaisedElsewhere, stack_trace

__all__ = ["Parcel", "packed", "unpacked"]

_PLAIN = (str, bytes, int, float, bool, type(None))
_SHARED = {module.__name__: module for module in (builtins, errors, signals)}


@attrs.frozen(kw_only=True)
class Parcel:
    """An error as plain values.

    Attributes:
        module: Of the class that the other side makes.
        name: Of that class.
        args: Of the error.
        state: Its attributes.
        trace: Its stack trace.
        own_name: Module and name of the class that a user made of it, if the error was of one.
        text: Its text.
    """

    module: str
    name: str
    args: tuple[Any, ...]
    state: dict[str, Any]
    trace: str
    own_name: str | None = None
    text: str = ""


def packed(error: BaseException) -> Parcel:
    """Return an error as what can be sent."""
    trace = stack_trace(error)
    shared, text = _nearest_shared(type(error)), _text(error)
    args = error.args if _is_plain(error.args) else None
    if shared is None or (args is None and not issubclass(shared, EchoMQError)):
        names = tuple(class_name(cls) for cls in type(error).__mro__ if issubclass(cls, BaseException))
        state = {"type_name": names[0], "type_names": names}
        return Parcel(module=errors.__name__, name=RaisedInProcess.__name__, args=(text,), state=state, trace=trace)
    return Parcel(
        module=shared.__module__,
        name=shared.__name__,
        args=(text,) if args is None else args,
        state={name: value for name, value in vars(error).items() if _is_plain((value,))},
        trace=trace,
        own_name=None if type(error) is shared else class_name(type(error)),
        text=text,
    )


def unpacked(parcel: Parcel) -> BaseException:
    """Return the error that was packed; its cause tells where it was raised."""
    cls: type[BaseException] = getattr(_SHARED[parcel.module], parcel.name)
    if parcel.module == builtins.__name__:
        error = cls(*parcel.args)
        error.__dict__.update(parcel.state)
    elif parcel.own_name is not None:
        error = _own(cls, parcel) or _made(cls, (f"{parcel.own_name}: {parcel.text}",), parcel)
    else:
        error = _made(cls, parcel.args, parcel)
    error.__cause__ = RaisedElsewhere(parcel.trace)
    return error


def _made(cls: type[BaseException], args: tuple[Any, ...], parcel: Parcel) -> BaseException:
    """Return an error whose text was made on the other side already."""
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(parcel.state)
    return error


def _own(base: type[BaseException], parcel: Parcel) -> BaseException | None:
    """Return the error as one of the user's class; None if that is not known here, or wants more than was sent."""
    for cls in _made_of(base):
        if class_name(cls) == parcel.own_name:
            try:
                error = _made(cls, parcel.args, parcel)
            except Exception:  # noqa: BLE001  # a class may raise anything when one is made
                return None
            return error if _text(error) == parcel.text else None
    return None


def _made_of(base: type[BaseException]) -> Iterator[type[BaseException]]:
    """Give the classes below one, those that were defined last first: a module may have been loaded again."""
    for cls in reversed(type.__subclasses__(base)):
        yield cls
        yield from _made_of(cls)


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
