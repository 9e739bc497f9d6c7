"""Who is the master: what sentinels are asked, and what their answers mean. Pure.

Sentinels watch a master and its replicas and name another master when it is
gone. They are asked at every attempt to connect, so a link that broke, or whose
server became a replica (READONLY), leads to the master of this moment. Whether
the server named is a master indeed is asked of itself by HELLO, which any user
may send.

Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/
"""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import attrs

from .call import Reply
from .driver import Address
from .errors import ConnectionLost, DriverError, ServerNotReady, ServerRefused

__all__ = ["ROLE", "Sentinels", "check_master", "nobody_knows", "question", "read_master"]

T = TypeVar("T")

ROLE = ("HELLO",)
"""Asks a server, among others, for its role; the reply goes to :func:`check_master`."""


@attrs.define(eq=False)
class Sentinels(Generic[T]):
    """The sentinels of one master.

    Attributes:
        service: Name they have for it.
        places: How to connect to each; the one that answered last comes first.
    """

    service: str
    places: tuple[T, ...]

    def answered(self, place: T) -> None:
        """Ask this one first the next time."""
        self.places = (place, *(one for one in self.places if one is not place))

    def patience_s(self, limit_s: float) -> float:
        """Return how long to wait for each step of one of them, so that a deaf one leaves time for the others.

        Args:
            limit_s: Longest wait for all of them and the master.
        """
        return limit_s / (len(self.places) + 1)


def question(service: str) -> tuple[str, ...]:
    """Return the command that asks a sentinel where the master is."""
    return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)


def read_master(reply: Reply) -> Address | None:
    """Read the answer; None if the sentinel does not know that name."""
    if not isinstance(reply, list | tuple) or len(reply) != 2:
        return None
    return Address(_text(reply[0]), int(reply[1]))


def check_master(reply: Reply, where: str) -> None:
    """Check what a server says of itself.

    Raises:
        ServerNotReady: It is no master, or not any more.
    """
    fields = dict(reply) if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=False))
    role = next((value for name, value in fields.items() if _text(name) == "role"), b"master")
    if _text(role) != "master":
        raise ServerNotReady(f"READONLY {where}, which the sentinels name, is a {_text(role)}", prefix="READONLY")


def nobody_knows(where: str, service: str, errors: Sequence[DriverError], silent: Sequence[str]) -> DriverError:
    """Return the error of asking all sentinels in vain.

    Args:
        where: For the message.
        service: Name of the master.
        errors: How the sentinels failed that did not answer.
        silent: Sentinels that answered, and know no such master.
    """
    reasons = [str(error) for error in errors]
    if silent:
        verb = "knows" if len(silent) == 1 else "know"
        reasons.append(f"{', '.join(silent)} {verb} no master of that name; check the name {service!r}")
    told = f"no sentinel tells where {where} is: {'; '.join(reasons)}"
    refusal = next((error for error in errors if _is_refusal(error)), None)
    if refusal is not None and len(errors) == len(reasons):
        return ServerRefused(told, prefix=getattr(refusal, "prefix", "ERR"))
    return ConnectionLost(told)


def _is_refusal(error: DriverError) -> bool:
    return isinstance(error, ServerRefused) and not isinstance(error, ServerNotReady)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
