"""The link's errors, and the server's."""

from .roots import EchoMQError

__all__ = ["ConnectionClosed", "ConnectionLost", "DriverError", "ReplyTimeout", "ServerNotReady", "ServerRefused"]


class DriverError(EchoMQError):
    """The link or the server failed; raised from the client's own error."""


class ConnectionLost(DriverError):
    """The server cannot be reached, or the link broke.

    Attributes:
        may_have_run: True if the request had been written when the link broke,
            so that the server may have carried it out. False: it certainly has not.
    """

    def __init__(self, message: str, *, may_have_run: bool = False) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class ConnectionClosed(ConnectionLost):
    """The connection's owner closed it; it does not come back, so trying again is pointless."""


class ReplyTimeout(ConnectionLost):
    """No reply within the deadline; whether the request ran is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(message, may_have_run=True)


class ServerRefused(DriverError):
    """The server answered with an error.

    Attributes:
        prefix: First word of the answer: ``"NOPERM"``, ``"OOM"``, ``"WRONGTYPE"``, ``"ERR"``.
    """

    def __init__(self, message: str, *, prefix: str = "ERR") -> None:
        super().__init__(message)
        self.prefix = prefix


class ServerNotReady(ServerRefused):
    """The server cannot serve just now (LOADING, BUSY, READONLY, MASTERDOWN, ...): wait and try again."""
