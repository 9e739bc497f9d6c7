"""The caller's mistakes, raised before anything is sent."""

from collections.abc import Iterable

from .roots import EchoMQError

__all__ = ["DriverMissing", "InvalidOption", "NotEncodable", "UnknownOption", "UsageError"]


class UsageError(EchoMQError):
    """The caller asked for something impossible; nothing was sent."""


class InvalidOption(UsageError, ValueError):
    """A value is outside what the field allows.

    Attributes:
        field: Name of the option as the caller spells it, ``"backoff.jitter"``.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class UnknownOption(UsageError, TypeError):
    """An option of that name does not exist; the message tells the nearest, or all that there are.

    Attributes:
        field: The unknown name.
        nearest: The existing name that looks most like it, or None.
    """

    def __init__(self, field: str, nearest: str | None, known: Iterable[str] = ()) -> None:
        known = ", ".join(known)
        hint = f"; did you mean {nearest!r}?" if nearest else f"; there are: {known}" if known else ""
        super().__init__(f"unknown option {field!r}{hint}")
        self.field = field
        self.nearest = nearest


class NotEncodable(UsageError, ValueError):
    """Data or a result is not strict JSON.

    Attributes:
        path: Where in the value the culprit is, ``"$.items[3].price"``.
    """

    def __init__(self, subject: str, path: str, problem: str) -> None:
        super().__init__(f"{subject} is not JSON at {path}: {problem}")
        self.path = path


class DriverMissing(UsageError):
    """No installed driver serves the connection; the message says what to install."""
