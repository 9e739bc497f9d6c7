"""Adding when the database has committed, so that no worker looks for a row that is not there.

Source: user pain 34.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec

from django.db import connections, transaction

from echomq.errors import UsageError
from echomq.processors import is_coroutine_function

__all__ = ["after_commits", "on_commit", "on_commit_of", "open_transactions"]

P = ParamSpec("P")


def on_commit(add: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call ``add`` when all transactions that this thread has open are committed; at once if there is none.

    ``on_commit(queue.add, "welcome", {"user": user.pk})``. When one of them is rolled back, or the savepoint in
    which this was called, nothing is added.

    Args:
        add: A plain function, such as ``add`` or ``add_bulk`` of an :class:`echomq.sync.Queue`.
        *args: Its arguments.
        **kwargs: Its arguments by name.

    Raises:
        UsageError: It is an ``async def``, and nobody would await it.
    """
    after_commits(open_transactions(), _plain(add, *args, **kwargs))


def on_commit_of(using: str, add: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Do the same, but wait for the transaction of one database alone.

    Args:
        using: Its alias in ``DATABASES``.
        add: As for :func:`on_commit`.
        *args: Its arguments.
        **kwargs: Its arguments by name.

    Raises:
        UsageError: As :func:`on_commit`.
    """
    transaction.on_commit(_plain(add, *args, **kwargs), using=using)


def open_transactions() -> list[str]:
    """Return the aliases of the databases whose transactions are open in this thread."""
    # Where autocommit is off, Django itself refuses hooks, and says why.
    return [
        link.alias
        for link in connections.all(initialized_only=True)
        if link.in_atomic_block or (link.connection is not None and not link.autocommit)
    ]


def after_commits(aliases: list[str], function: Callable[[], object]) -> None:
    """Call a function when the transactions of these databases, all of them, are committed."""
    for alias in aliases:
        function = partial(transaction.on_commit, function, using=alias)
    function()


def _plain(add: Any, *args: Any, **kwargs: Any) -> Callable[[], object]:
    if is_coroutine_function(add):
        raise UsageError(
            f"{add!r} is an async def, and nobody awaits it at a commit; next step: use a queue of echomq.sync"
        )
    return partial(add, *args, **kwargs)
