"""User code with web frameworks and databases that must not type-check (pain 37); never run.

Each mistake is marked with the kind of error it must cause; see ``bad.py``.
"""

from sqlalchemy.orm import Session

from echomq import sync
from echomq.web import Queues
from echomq_django import job_options, on_commit, on_commit_of
from echomq_sqlalchemy import on_commit as on_commit_of_session

queues = Queues("redis://localhost", worker=[])  # type: ignore[call-arg]
Queues(workers=[lambda connection: connection])  # type: ignore[list-item, return-value]


def produce(mails: sync.Queue, session: Session) -> None:
    """Make mistakes in what waits for a commit."""
    on_commit(mails.add, 7)  # type: ignore[arg-type]
    on_commit(mails.add, "welcome", dealy=5)  # type: ignore[call-arg]
    on_commit(mails.add)  # type: ignore[call-arg]
    on_commit_of("default", mails.add, "welcome", attempts="3")  # type: ignore[arg-type]
    on_commit_of_session(mails, mails.add, "welcome")  # type: ignore[arg-type]
    on_commit_of_session(session, mails.add, "welcome", delay="5s")  # type: ignore[arg-type]
    number: int = queues.get("mails")  # type: ignore[assignment]
    print(number)


@job_options(delay=5)  # type: ignore[call-arg]
def pack(order: int) -> str:
    """Be a task's function."""
    return str(order)


pack("seven")  # type: ignore[arg-type]
