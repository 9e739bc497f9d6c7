"""Ends what must end, however often who waits for it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["outlasting"]

T = TypeVar("T")


async def outlasting(work: Awaitable[T], cancelled: Callable[[], object] = lambda: None) -> T:
    """Wait for something to its end; a cancellation goes on its way only then.

    One cancellation is not the last: the scopes of anyio cancel a task again whenever
    it waits, and two limits of time cancel it twice.

    Args:
        work: What must end; a coroutine becomes a task of its own.
        cancelled: Called at the first cancellation.

    Raises:
        CancelledError: Who waits was cancelled meanwhile.
        BaseException: What the work raised.
    """
    future, first = asyncio.ensure_future(work), None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as error:
            if first is None:
                first = error
                cancelled()
    if first is None:
        return future.result()
    if not future.cancelled():
        future.exception()  # seen; the cancellation is what who waits asked for
    raise first
