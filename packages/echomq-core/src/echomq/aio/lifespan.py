"""What the jobs of a worker share: made when it begins to work, let go of when its last job has ended.

Source: issue "The full API", Worker.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from echomq.worker_options import Lifespan, no_context_manager

__all__ = ["entered"]


@asynccontextmanager
async def entered(lifespan: Lifespan | None) -> AsyncIterator[Any]:
    """Enter a lifespan for the length of a block, and give what it gives.

    Raises:
        UsageError: It makes no context manager.
    """
    if lifespan is None:
        yield None
        return
    manager: Any = lifespan()
    if hasattr(manager, "__aenter__"):
        async with manager as shared:
            yield shared
    elif hasattr(manager, "__enter__"):
        with manager as shared:
            yield shared
    else:
        raise no_context_manager(manager, "an async or a plain one")
