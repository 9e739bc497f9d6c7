"""What redis-py and valkey-py raise while connecting, as our errors. Pure.

Both libraries name their exceptions alike, so a driver hands its library's
``exceptions`` module over. Error replies to requests never pass through here:
they are parsed by :mod:`echomq.resp`.

Source: design.md section 4.
"""

from typing import Any

from .errors import ConnectionLost, DriverError, ServerNotReady, ServerRefused

__all__ = ["connect_failure"]


def connect_failure(exceptions: Any, error: BaseException, where: str) -> DriverError:
    """Return our error for what a client raised while it connected.

    Args:
        exceptions: ``redis.exceptions`` or ``valkey.exceptions``.
        error: What was raised.
        where: Host and port, or path, for the message.
    """
    if isinstance(error, DriverError):
        return error
    passing = {
        exceptions.BusyLoadingError: "LOADING",
        exceptions.MasterDownError: "MASTERDOWN",
        exceptions.ClusterDownError: "CLUSTERDOWN",
        exceptions.TryAgainError: "TRYAGAIN",
        exceptions.ReadOnlyError: "READONLY",
    }
    refusals = {
        exceptions.AuthenticationError: "WRONGPASS",
        exceptions.AuthorizationError: "NOPERM",
        exceptions.NoPermissionError: "NOPERM",
        exceptions.ResponseError: "ERR",
    }
    # A unix socket connection wraps what the server said, so the cause counts as well.
    for cause in (error, error.__cause__):
        for kind, prefix in passing.items():
            if isinstance(cause, kind):
                return ServerNotReady(f"{where} is not ready: {cause}", prefix=prefix)
        for kind, prefix in refusals.items():
            if isinstance(cause, kind):
                return ServerRefused(f"{where} refused the connection: {cause}", prefix=_prefix(cause, prefix))
    return ConnectionLost(f"cannot connect to {where}: {_reason(error)}")


def _reason(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        cause = cause.__cause__ or cause.__context__
    return str(error).rstrip(".") or type(error).__name__


def _prefix(cause: BaseException | None, otherwise: str) -> str:
    code = getattr(cause, "status_code", None)
    return code if isinstance(code, str) else otherwise
