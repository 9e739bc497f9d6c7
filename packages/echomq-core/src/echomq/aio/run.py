"""Run plans on an asyncio connection, and make connections out of what users pass."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from echomq.call import Batch
from echomq.driver import ConnectionOptions
from echomq.errors import EchoMQError, UsageError

from .connecting import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from echomq.driver import AsyncConnection, ConnectionSource
    from echomq.plans import Plan

__all__ = ["is_open", "opened", "perform", "refuse_loop"]

T = TypeVar("T")

_of_clients: WeakKeyDictionary[object, AsyncConnection] = WeakKeyDictionary()
"""One connection for each ready client that adds without a queue; gone with the client or its loop."""


async def perform(connection: AsyncConnection, plan: Plan[T]) -> T:
    """Run a plan to its end and return its result."""
    reply: Any = None
    error: EchoMQError | None = None
    while True:
        try:
            request = plan.send(reply) if error is None else plan.throw(error)
        except StopIteration as end:
            return cast("T", end.value)
        try:
            if isinstance(request, Batch):
                reply = await connection.send_batch(request)
            else:
                reply = await connection.send(request)
            error = None
        except EchoMQError as failure:
            error = failure


def is_open(source: ConnectionSource) -> bool:
    """Tell whether the user passed one of our connections, which he then owns.

    Raises:
        UsageError: It is a blocking one, which would hold up the event loop.
    """
    if not hasattr(source, "send_batch"):
        return False
    if not hasattr(source, "blocking_twin"):
        raise UsageError("this is a blocking connection, here an asyncio one is needed: open it by echomq.connect")
    return True


def refuse_loop(what: str, instead: str) -> None:
    """Refuse to wait where an event loop runs.

    Raises:
        UsageError: One runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"{what} makes an event loop, and one runs here already: {instead} instead")


@asynccontextmanager
async def opened(source: ConnectionSource) -> AsyncIterator[AsyncConnection]:
    """Give a connection for one operation; one made from a URL or options is closed after it."""
    if is_open(source):
        yield source
    elif source is None or isinstance(source, (str, ConnectionOptions)):
        connection = connect(source)
        try:
            yield connection
        finally:
            await connection.close()
    else:
        if source not in _of_clients:
            _of_clients[source] = connect(source)
        yield _of_clients[source]
