"""What waits for the commit of a session.

Each function that waits belongs to the innermost transaction at the time: a savepoint, or the whole. A savepoint
that is released hands on to what surrounds it; one that is rolled back drops its own. At the end of the outermost
transaction, what it has is called if it was committed, and dropped if not.

SQLAlchemy's events tell of both: ``after_commit`` while a transaction, or a savepoint, is at its commit, and
``after_transaction_end`` when it is out of the session, which may be used again then.

Source: user pain 34.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import attrs
from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from echomq.errors import UsageError
from echomq.processors import is_coroutine_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session

    AnySession: TypeAlias = Session | AsyncSession | scoped_session[Session] | async_scoped_session[AsyncSession]

__all__ = ["on_commit"]

P = ParamSpec("P")

_KEY = "echomq_sqlalchemy"


def on_commit(session: AnySession, add: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call ``add`` when the session has committed what it does now: ``on_commit(session, queue.add, "welcome")``.

    When its transaction is rolled back, or the savepoint in which this was called, nothing is added. If the
    session has not begun anything yet, its next transaction counts. What ``add`` raises comes out of the commit,
    which has happened then; what waits behind it is not added.

    Args:
        session: Of either kind; one that is scoped stands for the present one.
        add: With a ``Session`` a plain function, such as ``add`` of an :class:`echomq.sync.Queue`; with an
            ``AsyncSession`` an ``async def``, such as ``add`` of an :class:`echomq.Queue`, which the commit awaits.
        *args: Its arguments.
        **kwargs: Its arguments by name.

    Raises:
        UsageError: The function is of the other kind, or the session is none, as its maker.
    """
    is_scoped = isinstance(session, scoped_session) or _is_asynchronous(session, "async_scoped_session")
    found: Any = session() if is_scoped else session  # type: ignore[operator]  # what is scoped can be called
    is_async = _is_asynchronous(found, "AsyncSession")
    if not is_async and not isinstance(found, Session):
        raise UsageError(f"session: expected a Session or an AsyncSession, not {found!r}")
    if is_coroutine_function(add) != is_async:
        raise UsageError(_WRONG_KIND[is_async].format(add=add))
    call = partial(add, *args, **kwargs)
    waiting = _waiting_of(found.sync_session if is_async else found)
    waiting.put(partial(_awaited, call) if is_async else call)


_WRONG_KIND = {
    True: "{add!r} is a plain function, which would hold up the event loop at a commit; "
    "next step: use a queue of echomq, not of echomq.sync, with an AsyncSession",
    False: "{add!r} is an async def, and a Session's commit awaits nothing; next step: use a queue of echomq.sync",
}


def _is_asynchronous(session: object, kind: str) -> bool:
    """Tell whether a session is of a class for asyncio, whose module needs a library that others do without."""
    module = sys.modules.get("sqlalchemy.ext.asyncio")
    return module is not None and isinstance(session, getattr(module, kind))


def _awaited(call: Callable[[], Any]) -> Any:
    from sqlalchemy.util import await_only

    return await_only(call())  # the commit of an AsyncSession runs where this can wait


@attrs.define(eq=False)
class _Waiting:
    """What waits for the transactions of one session.

    Attributes:
        session: It.
        next: For a transaction that has not begun.
        of: By transaction, in their order.
        committed: Those that are at their commit.
    """

    session: Session
    next: list[Callable[[], object]] = attrs.field(factory=list)
    of: dict[SessionTransaction, list[Callable[[], object]]] = attrs.field(factory=dict)
    committed: set[SessionTransaction] = attrs.field(factory=set)

    def put(self, call: Callable[[], object]) -> None:
        """Let a call wait for the innermost transaction."""
        transaction = self.session.get_nested_transaction() or self.session.get_transaction()
        if transaction is None:
            self.next.append(call)
        else:
            self.of.setdefault(transaction, []).append(call)

    def began(self, _: Session, transaction: SessionTransaction) -> None:
        """Give what waited for a transaction to the outermost one."""
        if transaction.parent is None and self.next:
            self.of[transaction], self.next = self.next, []

    def commits(self, session: Session) -> None:
        """Remember that the innermost transaction is committed; a flush has one of its own, which tells nothing."""
        transaction = session.get_nested_transaction() or session.get_transaction()
        if transaction is not None:
            self.committed.add(transaction)

    def ended(self, _: Session, transaction: SessionTransaction) -> None:
        """Call, hand on or drop what waited for this transaction."""
        calls = self.of.pop(transaction, [])
        is_committed = transaction in self.committed
        self.committed.discard(transaction)
        if not is_committed:
            return
        around = transaction.parent
        while around is not None and around.parent is not None and not around.nested:
            around = around.parent
        if around is not None:
            self.of.setdefault(around, []).extend(calls)
            return
        for call in calls:
            call()


_EVENTS: tuple[tuple[str, Literal["began", "commits", "ended"]], ...] = (
    ("after_transaction_create", "began"),
    ("after_commit", "commits"),
    ("after_transaction_end", "ended"),
)


def _waiting_of(session: Session) -> _Waiting:
    waiting = session.info.get(_KEY)
    if not isinstance(waiting, _Waiting):
        waiting = session.info[_KEY] = _Waiting(session)
        for name, method in _EVENTS:
            event.listen(session, name, getattr(waiting, method))
    return waiting
