"""User code with web frameworks and databases that must type-check, strictly (pain 37); never run."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from echomq import AsyncConnection, Job, Queue, Worker, sync
from echomq.web import Queues
from echomq_django import job_options, on_commit, on_commit_of
from echomq_sqlalchemy import on_commit as on_commit_of_session


async def work(job: Job) -> None:
    """Do a job."""
    print(job.data)


def make(connection: AsyncConnection) -> Worker:
    """Make a worker for the application."""
    return Worker("mails", work, connection)


queues = Queues("redis://localhost", workers=[make], close_timeout=5_000)
Mails = Annotated[Queue, Depends(queues.queue("mails"))]


async def signup(name: str, mails: Mails) -> str:
    """Handle a request."""
    return (await mails.add("welcome", {"to": name}, attempts=3)).id


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    """Open what the application needs."""
    async with queues.lifespan(app):
        yield


apps = [FastAPI(lifespan=queues.lifespan), FastAPI(lifespan=lifespan)]


@job_options(attempts=3, backoff=1_000)
def pack(order: int) -> str:
    """Be a task's function; it keeps its signature."""
    return str(order)


def produce(mails: sync.Queue, session: Session) -> None:
    """Add when databases have committed."""
    on_commit(mails.add, "welcome", {"to": "ada"}, attempts=3)
    on_commit_of("default", mails.add_bulk, [("welcome", {"to": "ada"})])
    on_commit_of_session(session, mails.add, "welcome", delay=5_000)
    packed: str = pack(7)
    print(packed)


async def produce_async(mails: Queue, session: AsyncSession) -> None:
    """Do the same on an event loop."""
    on_commit_of_session(session, mails.add, "welcome", {"to": "ada"}, priority=1)
    await session.commit()
