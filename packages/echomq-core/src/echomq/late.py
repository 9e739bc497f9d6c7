"""Attributes that are worked out when somebody asks for them, once. Pure.

A worker reads two or three of a job's twenty-five fields, so most are left as the
server sent them. ``functools.cached_property`` would do, but takes a lock for each
value before Python 3.12, which costs more than most of these values.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["Late"]

T = TypeVar("T")


class Late(Generic[T]):
    """A decorator as ``functools.cached_property``; two threads that ask at once may both work it out."""

    def __init__(self, work_out: Callable[[Any], T], name: str = "") -> None:
        self._work_out, self._name = work_out, name
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> "Late[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> "T | Late[T]":
        if instance is None:
            return self
        # The instance's own value goes before this from now on.
        value = instance.__dict__[self._name] = self._work_out(instance)
        return value
