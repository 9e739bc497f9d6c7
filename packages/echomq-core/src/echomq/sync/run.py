"""Run plans on a blocking connection, and make connections out of what users pass."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from echomq.call import Batch
from echomq.driver import ConnectionOptions
from echomq.errors import EchoMQError, UsageError

from .connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from echomq.driver import Connection, ConnectionSource
    from echomq.plans import Plan

__all__ = ["drive", "is_open", "opened", "perform"]

T = TypeVar("T")

_of_clients: WeakKeyDictionary[object, Connection] = WeakKeyDictionary()
"""One connection for each ready client that adds without a queue; gone with the client."""


def perform(connection: Connection, plan: Plan[T], *, deadline_ms: int | None = None) -> T:
    """Run a plan to its end and return its result; each reply within the deadline, if one is given."""

    def send(request: Any) -> Any:
        if isinstance(request, Batch):
            return connection.send_batch(request, deadline_ms=deadline_ms)
        return connection.send(request, deadline_ms=deadline_ms)

    return drive(plan, send)


def drive(plan: Generator[Any, Any, T], do: Callable[[Any], Any]) -> T:
    """Run a plan to its end and return its result.

    Args:
        plan: Wants things done.
        do: Does one of them; our errors that it raises are the plan's affair.
    """
    reply: Any = None
    error: EchoMQError | None = None
    while True:
        try:
            request = plan.send(reply) if error is None else plan.throw(error)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            reply, error = do(request), None
        except EchoMQError as failure:
            error = failure


def is_open(source: ConnectionSource) -> bool:
    """Tell whether the user passed one of our connections, which he then owns.

    Raises:
        UsageError: It is one for asyncio, which cannot be waited for here.
    """
    if not hasattr(source, "send_batch"):
        return False
    if hasattr(source, "blocking_twin"):
        raise UsageError("this is an asyncio connection, here a blocking one is needed: open it by echomq.sync.connect")
    return True


@contextmanager
def opened(source: ConnectionSource) -> Iterator[Connection]:
    """Give a connection for one operation; one made from a URL or options is closed after it."""
    if is_open(source):
        yield source
    elif source is None or isinstance(source, (str, ConnectionOptions)):
        connection = connect(source)
        try:
            yield connection
        finally:
            connection.close()
    else:
        if source not in _of_clients:
            _of_clients[source] = connect(source)
        yield _of_clients[source]
