"""What the jobs of a worker share, blocking: made when it begins to work, let go of when its last job has ended.

Source: issue "The full API", Worker.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from echomq.worker_options import Lifespan, no_context_manager

__all__ = ["entered"]


@contextmanager
def entered(lifespan: Lifespan | None) -> Iterator[Any]:
    """Enter a lifespan for the length of a block, and give what it gives.

    Raises:
        UsageError: It makes no context manager, or an async one.
    """
    if lifespan is None:
        yield None
        return
    manager: Any = lifespan()
    if hasattr(manager, "__enter__"):
        with manager as shared:
            yield shared
    else:
        raise no_context_manager(manager, "a plain one, since this worker has no event loop")
