"""What stands in the place of a connection once its user was closed.

A connection that several objects share stays open when one of them is closed;
the closed one must not go on as if nothing had happened.
"""

from typing import Any

import attrs

from .errors import ConnectionClosed

__all__ = ["closed"]


@attrs.frozen
class _Closed:
    what: str

    def __getattr__(self, name: str) -> Any:
        raise ConnectionClosed(f"{self.what} was closed; make another one")


def closed(what: str) -> Any:
    """Return a connection that answers whatever is asked of it with ``ConnectionClosed``.

    Args:
        what: What was closed, for the message.
    """
    return _Closed(what)
