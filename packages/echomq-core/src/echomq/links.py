"""What the asyncio and the blocking connection share about links. Pure.

When to try again, what to tell a caller who waited in vain, and which failures
no repetition heals.

Source: design.md section 4.
"""

import attrs

from .driver import ConnectionOptions
from .errors import ConnectionClosed, ConnectionLost, DriverError, ReplyTimeout, ServerNotReady, ServerRefused

__all__ = ["Reconnecting", "broken", "closed", "is_demoted", "is_final", "no_reply"]


@attrs.define
class Reconnecting:
    """How the attempts to reach one server have gone.

    Attributes:
        where: Host and port, or path, for messages.
        options: Pauses between attempts.
        failures: Attempts since the server last answered something.
        failed_at_s: When the last of them failed, on the caller's clock.
        last: Why the last attempt failed.
    """

    where: str
    options: ConnectionOptions
    failures: int = 0
    failed_at_s: float = 0.0
    last: DriverError | None = None

    def pause_s(self, now_s: float, dice: float) -> float:
        """Return how long to wait before the next attempt.

        Args:
            now_s: On a monotonic clock, the same for all calls.
            dice: A random number from 0 to 1; spreads the attempts of many clients.
        """
        if self.failures == 0:
            return 0.0
        longest = min(self.options.reconnect_max_ms, self.options.reconnect_min_ms * 2.0 ** min(self.failures - 1, 30))
        pause_s = longest * (0.5 + dice / 2) / 1000
        return max(0.0, self.failed_at_s + pause_s - now_s)

    def failed(self, error: DriverError, now_s: float) -> None:
        """Note a failed attempt."""
        self.failures += 1
        self.failed_at_s = now_s
        self.last = error

    def succeeded(self) -> None:
        """Note that the server answered."""
        self.failures = 0
        self.last = None

    def out_of_time(self, deadline_ms: int, *, connected: bool) -> ConnectionLost:
        """Return the error of a request that could not be written in time."""
        if connected or self.last is None:
            return ConnectionLost(f"the request could not be written to {self.where} within {deadline_ms} ms")
        return ConnectionLost(
            f"no connection to {self.where} within {deadline_ms} ms; attempts: {self.failures}; the last: {self.last}. "
            "Check that the server runs and that host and port are right."
        )


def is_final(error: BaseException) -> bool:
    """Tell whether connecting again is pointless: the server refused us, or its certificate is not trusted."""
    if isinstance(error, ServerRefused):
        return not isinstance(error, ServerNotReady)
    cause: BaseException | None = error
    while cause is not None:
        # Only the failed check of a certificate has a verify code.
        if hasattr(cause, "verify_code"):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def is_demoted(*replies: object) -> bool:
    """Tell whether a reply shows that the master was made a replica: its address may lead to the new master now."""
    return any(isinstance(reply, ServerNotReady) and reply.prefix == "READONLY" for reply in replies)


def broken(where: str, reason: object) -> ConnectionLost:
    """Return the error of a request that was written before the link broke."""
    return ConnectionLost(
        f"the link to {where} broke before the reply ({reason}); the request may or may not have run", may_have_run=True
    )


def closed(where: str, *, may_have_run: bool = False) -> ConnectionClosed:
    """Return the error of a request on a connection that its owner closed."""
    return ConnectionClosed(f"the connection to {where} was closed by its owner", may_have_run=may_have_run)


def no_reply(where: str, deadline_ms: int) -> ReplyTimeout:
    """Return the error of a request that was written and not answered in time."""
    return ReplyTimeout(f"no reply from {where} within {deadline_ms} ms; the request may or may not have run")
