"""Adds that wait for the commit of a session of SQLAlchemy."""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, event, select
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

import echomq
from echomq import Job, UsageError, sync
from echomq_sqlalchemy import on_commit
from support.servers import Server


class Base(DeclarativeBase):
    """What is stored."""


class User(Base):
    """Somebody to greet."""

    __tablename__ = "users"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


def _with_savepoints(engine: Engine) -> None:
    """Leave transactions to SQLAlchemy: the driver of SQLite begins them too late for savepoints."""
    event.listen(engine, "connect", lambda link, _: setattr(link, "isolation_level", None))
    event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN"))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A database."""
    engine = create_engine(f"sqlite:///{tmp_path / 'users.sqlite3'}")
    _with_savepoints(engine)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def queue(redis_server: Server, prefix: str) -> Iterator[sync.Queue]:
    """A queue."""
    with sync.Queue("mail", redis_server.url, prefix=prefix) as queue:
        yield queue


def names(queue: sync.Queue) -> list[str]:
    """Return the names of the jobs, oldest first."""
    return [job.name for job in queue.get_jobs("waiting", ascending=True)]


def test_commit_adds(engine: Engine, queue: sync.Queue) -> None:
    """What waits for a commit is added with it, in order, and once (pain 34)."""
    with Session(engine) as session:
        on_commit(session, queue.add, "before anything")
        session.add(User(name="ada"))
        session.flush()
        on_commit(session, queue.add, "welcome", {"to": "ada"}, attempts=3)
        assert names(queue) == []
        session.commit()
        assert names(queue) == ["before anything", "welcome"]
        session.add(User(name="grace"))
        session.commit()

    assert names(queue) == ["before anything", "welcome"]
    assert queue.get_jobs("waiting")[0].options.attempts == 3


def test_worker_sees_the_row(engine: Engine, queue: sync.Queue, redis_server: Server, prefix: str) -> None:
    """A worker that looks for the row finds it, however fast it is (pain 34)."""
    found: list[str] = []

    def greet(job: Job) -> None:
        with Session(engine) as session:
            found.append(session.scalars(select(User.name).where(User.id == job.data["id"])).one())

    with Session(engine) as session, session.begin():
        user = User(name="ada")
        session.add(user)
        session.flush()
        on_commit(session, queue.add, "greet", {"id": user.id})
        sync.Worker("mail", greet, redis_server.url, prefix=prefix).run("drained")
        assert found == []
    sync.Worker("mail", greet, redis_server.url, prefix=prefix).run("drained")

    assert found == ["ada"]


def test_rollback_adds_nothing(engine: Engine, queue: sync.Queue) -> None:
    """A transaction that is rolled back, closed, or left by an exception adds nothing, also not later (pain 34)."""
    with Session(engine) as session:
        session.add(User(name="ada"))
        on_commit(session, queue.add, "rolled back")
        session.rollback()
        session.add(User(name="ada"))
        on_commit(session, queue.add, "closed")
        session.close()
        with suppress(ZeroDivisionError), session.begin():
            on_commit(session, queue.add, "left by an exception")
            _ = 1 / 0
        session.add(User(name="ada"))
        session.commit()

    assert names(queue) == []


def test_commit_that_fails(engine: Engine, queue: sync.Queue) -> None:
    """A commit that the database refuses adds nothing."""
    with Session(engine) as session:
        session.add(User(id=1, name="ada"))
        session.commit()
        on_commit(session, queue.add, "twice")
        session.add(User(id=1, name="grace"))
        with pytest.raises(Exception, match="UNIQUE"):
            session.commit()
        session.rollback()
        session.commit()

    assert names(queue) == []


def test_savepoints(engine: Engine, queue: sync.Queue) -> None:
    """A savepoint that is rolled back drops what was added in it, and in those inside, and nothing else."""
    with Session(engine) as session, session.begin():
        on_commit(session, queue.add, "outside")
        with suppress(ZeroDivisionError), session.begin_nested():
            on_commit(session, queue.add, "in one that fails")
            with session.begin_nested():
                session.add(User(name="ada"))
                on_commit(session, queue.add, "inside one that fails")
            _ = 1 / 0
        with session.begin_nested():
            on_commit(session, queue.add, "in one that holds")
            session.add(User(name="grace"))
            inner = session.begin_nested()
            on_commit(session, queue.add, "in one that is taken back")
            inner.rollback()
            with session.begin_nested():
                on_commit(session, queue.add, "inside one that holds")
        on_commit(session, queue.add, "after all")
        assert names(queue) == []

    assert names(queue) == ["outside", "in one that holds", "inside one that holds", "after all"]
    with Session(engine) as session:
        assert session.scalars(select(User.name)).all() == ["grace"]
        with session.begin_nested():
            on_commit(session, queue.add, "held, and rolled back with the whole")
        session.rollback()
    assert len(names(queue)) == 4


def test_sessions_do_not_mix(engine: Engine, queue: sync.Queue) -> None:
    """What waits for one session is not added by another, and the same session may be used again and again."""
    make = sessionmaker(engine, info={"made": "here"})
    with make() as one, make() as other:
        on_commit(one, queue.add, "one")
        on_commit(other, queue.add, "other")
        other.scalars(select(User)).all()
        other.commit()
        assert names(queue) == ["other"]
        for number in range(3):
            on_commit(other, queue.add, f"other {number}")
            other.scalars(select(User)).all()
            other.commit()

    assert names(queue) == ["other", "other 0", "other 1", "other 2"]


def test_scoped_session(engine: Engine, queue: sync.Queue) -> None:
    """A scoped session stands for the session of the present thread."""
    scoped = scoped_session(sessionmaker(engine))
    scoped.add(User(name="ada"))
    on_commit(scoped, queue.add, "welcome")
    scoped.commit()
    scoped.remove()

    assert names(queue) == ["welcome"]


def test_without_greenlet(tmp_path: Path) -> None:
    """Who has no sessions for asyncio does not need the library that SQLAlchemy wants for them."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nsys.modules['greenlet'] = None\n"
        "from sqlalchemy import create_engine, text\nfrom sqlalchemy.orm import Session\n"
        "from echomq_sqlalchemy import on_commit\n"
        "with Session(create_engine('sqlite://')) as session:\n"
        "    session.execute(text('select 1'))\n    on_commit(session, print, 'added')\n    session.commit()\n"
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=180, check=False)

    assert (done.stdout, done.stderr) == ("added\n", "")


def test_add_that_fails(engine: Engine, queue: sync.Queue) -> None:
    """What an add raises comes out of the commit, which has happened; the session goes on."""
    with Session(engine) as session:
        session.add(User(name="ada"))
        on_commit(session, queue.add, "wrong", attempts=-1)
        on_commit(session, queue.add, "behind it")
        with pytest.raises(UsageError, match="attempts"):
            session.commit()
        assert session.scalars(select(User.name)).all() == ["ada"]
        on_commit(session, queue.add, "later")
        session.commit()

    assert names(queue) == ["later"]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[async_sessionmaker[AsyncSession]]:
    """Makes sessions for asyncio."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'users.sqlite3'}")
    _with_savepoints(engine.sync_engine)
    async with engine.begin() as link:
        await link.run_sync(Base.metadata.create_all)
    yield async_sessionmaker(engine)
    await engine.dispose()


async def test_asynchronous_sessions(
    make: async_sessionmaker[AsyncSession], queue: sync.Queue, redis_server: Server, prefix: str
) -> None:
    """The commit of an asynchronous session awaits the adds; rolled back ones and savepoints add nothing (pain 34)."""
    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as mail, make() as session:
        session.add(User(name="ada"))
        on_commit(session, mail.add, "welcome", {"to": "ada"})
        with suppress(ZeroDivisionError):
            async with session.begin_nested():
                on_commit(session, mail.add, "in one that fails")
                _ = 1 / 0
        assert names(queue) == []
        await session.commit()
        assert names(queue) == ["welcome"]
        on_commit(session, mail.add, "wrong", priority=-1)
        session.add(User(name="grace"))
        with pytest.raises(UsageError, match="priority"):
            await session.commit()
        session.add(User(name="eve"))
        on_commit(session, mail.add, "rolled back")
        await session.rollback()
        await session.commit()
        assert (await session.scalars(select(User.name))).all() == ["ada", "grace"]

    assert names(queue) == ["welcome"]


async def test_asynchronous_scoped_session(
    make: async_sessionmaker[AsyncSession], redis_server: Server, prefix: str
) -> None:
    """So does one that is scoped to the present task."""
    scoped = async_scoped_session(make, scopefunc=lambda: 1)
    async with echomq.Queue("mail", redis_server.url, prefix=prefix) as mail:
        scoped.add(User(name="ada"))
        on_commit(scoped, mail.add, "welcome")
        await scoped.commit()
        await scoped.remove()

        assert await mail.count() == 1


async def test_kinds_do_not_mix(
    engine: Engine, make: async_sessionmaker[AsyncSession], queue: sync.Queue, redis_server: Server
) -> None:
    """A function that the session cannot call is refused at once."""
    mail = echomq.Queue("mail", redis_server.url)
    with Session(engine) as session, pytest.raises(UsageError, match="async def"):
        on_commit(session, mail.add, "welcome")
    async with make() as other:
        with pytest.raises(UsageError, match="hold up the event loop"):
            on_commit(other, queue.add, "welcome")
    await mail.close()


def test_what_is_no_session(engine: Engine) -> None:
    """The maker of sessions, or a connection, is refused by name."""
    for wrong in (sessionmaker(engine), engine):
        with pytest.raises(UsageError, match="expected a Session or an AsyncSession"):
            on_commit(wrong, print)  # type: ignore[arg-type]
