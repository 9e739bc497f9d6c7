"""The queues of a process: one connection for each server, whatever asks for it.

Django makes a backend for each thread, and for each request under ASGI; none of them may cost a connection.
"""

import atexit
import os
import threading
from typing import Any

from echomq.driver import ConnectionOptions
from echomq.sync import Queue, connect

__all__ = ["close_connections", "shared_connection", "shared_queue"]

_lock = threading.RLock()  # made anew in a forked process, where whoever held it may be missing
_links: dict[object, tuple[Any, Any]] = {}
"""By server: what was passed, which must not go while its id stands for it, and the connection."""

_queues: dict[tuple[object, str, str], Queue] = {}


def shared_queue(source: Any, prefix: str, name: str) -> Queue:
    """Return a queue, always the same one; threads share it, and a forked process connects anew.

    Args:
        source: As the ``connection`` of :class:`echomq.sync.Queue`.
        prefix: Its name space.
        name: Its name.

    Raises:
        UsageError: There is no such connection, or the name is not acceptable.
    """
    with _lock:
        server = _server(source)
        queue = _queues.get((server, prefix, name))
        if queue is None:
            queue = Queue(name, shared_connection(source), prefix=prefix)
            _queues[server, prefix, name] = queue
        return queue


def shared_connection(source: Any) -> Any:
    """Return the connection that all queues of this server share; an open one is shared as it is."""
    if hasattr(source, "send_batch"):
        return source
    with _lock:
        server = _server(source)
        if server not in _links:
            _links[server] = (source, connect(source))
        return _links[server][1]


def _server(source: Any) -> object:
    return source if source is None or isinstance(source, str | ConnectionOptions) else id(source)


def _renew_lock() -> None:
    global _lock  # the same name, another process
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@atexit.register
def close_connections() -> None:
    """Close what was opened here; whoever needs a queue then gets a new one."""
    with _lock:
        for _, link in _links.values():
            link.close()
        _links.clear()
        _queues.clear()
