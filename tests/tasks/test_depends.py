"""What tasks are given beside their arguments."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

import pytest

from echomq import UsageError
from echomq.aio.context import Context, ThreadContext, current_context
from echomq.tasks import INJECTED, CurrentJob, Depends

from .conftest import Office


class Notes:
    """Providers of every kind that note what happens to them."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.threads: dict[str, int] = {}

    def plain(self) -> str:
        """Give at once."""
        self.threads["plain"] = threading.get_ident()
        self.rows.append("plain")
        return "plain"

    async def awaited(self) -> str:
        """Give after a while."""
        await asyncio.sleep(0)
        self.rows.append("awaited")
        return "awaited"

    def generator(self) -> Iterator[str]:
        """Give, and clean up."""
        self.threads["generator"] = threading.get_ident()
        self.rows.append("generator opens")
        try:
            yield "generator"
        except ValueError as error:
            self.rows.append(f"generator sees {error}")
            raise
        finally:
            self.rows.append("generator closes")

    async def asyncgen(self) -> AsyncIterator[str]:
        """Give, and clean up."""
        self.rows.append("asyncgen opens")
        try:
            yield "asyncgen"
        finally:
            await asyncio.sleep(0)
            self.rows.append("asyncgen closes")


@pytest.fixture
def notes() -> Notes:
    """Fresh providers."""
    return Notes()


async def test_every_kind(office: Office, notes: Notes) -> None:
    """Plain and async functions and generators fill parameters; the generators end in turn, after the task."""
    one = Annotated[str, Depends(notes.plain)]
    two = Annotated[str, Depends(notes.awaited)]
    three = Annotated[str, Depends(notes.generator)]
    four = Annotated[str, Depends(notes.asyncgen)]

    @office.tasks.task(queue="emails")
    async def send(
        to: str, *, a: one = INJECTED, b: two = INJECTED, c: three = INJECTED, d: four = INJECTED
    ) -> list[str]:
        notes.rows.append("task")
        return [to, a, b, c, d]

    sent = await send.delay("ada")
    await office.work()

    assert await sent.result(timeout=60_000) == ["ada", "plain", "awaited", "generator", "asyncgen"]
    opened = ["plain", "awaited", "generator opens", "asyncgen opens"]
    assert notes.rows == [*opened, "task", "asyncgen closes", "generator closes"]
    assert threading.get_ident() not in notes.threads.values()


async def test_every_kind_for_a_plain_task(office: Office, notes: Notes) -> None:
    """A plain task takes async providers too: they run on the event loop, while its thread waits."""
    two = Annotated[str, Depends(notes.awaited)]
    three = Annotated[str, Depends(notes.generator)]
    four = Annotated[str, Depends(notes.asyncgen)]

    @office.tasks.task(queue="emails")
    def send(b: two = INJECTED, c: three = INJECTED, d: four = INJECTED) -> list[str]:
        notes.rows.append("task")
        notes.threads["task"] = threading.get_ident()
        return [b, c, d]

    sent = await send.delay()
    await office.work()

    assert await sent.result(timeout=60_000) == ["awaited", "generator", "asyncgen"]
    opened = ["awaited", "generator opens", "asyncgen opens"]
    assert notes.rows == [*opened, "task", "asyncgen closes", "generator closes"]
    assert notes.threads["task"] == notes.threads["generator"] != threading.get_ident()


@pytest.mark.parametrize("is_async", [True, False])
async def test_nested_and_shared(office: Office, notes: Notes, is_async: bool) -> None:
    """Providers may depend on others, and each runs once for a job, whoever needs it."""
    base = Annotated[str, Depends(notes.generator)]

    def upper(of: base) -> str:
        return of.upper()

    def length(of: base) -> int:
        return len(of)

    def plain(a: Annotated[str, Depends(upper)] = INJECTED, b: Annotated[int, Depends(length)] = INJECTED) -> str:
        return f"{a} {b}"

    async def awaited(
        a: Annotated[str, Depends(upper)] = INJECTED, b: Annotated[int, Depends(length)] = INJECTED
    ) -> str:
        return f"{a} {b}"

    if is_async:
        sent = await office.tasks.task(queue="emails", name="send")(awaited).delay()
    else:
        sent = await office.tasks.task(queue="emails", name="send")(plain).delay()
    await office.work()

    assert await sent.result(timeout=60_000) == "GENERATOR 9"
    assert notes.rows == ["generator opens", "generator closes"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_failure(office: Office, notes: Notes, is_async: bool) -> None:
    """A generator sees what its task raised and cleans up; it cannot hide the failure."""

    def hiding(of: Annotated[str, Depends(notes.generator)]) -> Iterator[str]:
        try:
            yield of
        except ValueError:
            notes.rows.append("hidden")

    hidden = Annotated[str, Depends(hiding)]

    async def awaited(of: hidden = INJECTED) -> None:
        raise ValueError(of)

    def plain(of: hidden = INJECTED) -> None:
        raise ValueError(of)

    define = office.tasks.task(queue="emails", name="send")
    sent = await (define(awaited) if is_async else define(plain)).delay()
    await office.work()

    assert (await office.job(sent.id)).failed_reason == "generator"
    assert notes.rows == ["generator opens", "hidden", "generator closes"]


async def test_failing_provider(office: Office, notes: Notes) -> None:
    """What a provider raises fails the attempt as if the task had raised it; those that were open are closed."""

    def broken() -> str:
        raise ValueError("no database")

    @office.tasks.task(queue="emails", retries=1)
    async def send(
        a: Annotated[str, Depends(notes.generator)] = INJECTED, b: Annotated[str, Depends(broken)] = INJECTED
    ) -> None:
        notes.rows.append(a + b)

    sent = await send.delay()
    await office.work()
    job = await office.job(sent.id)

    assert (job.failed_reason, job.attempts_made) == ("no database", 2)
    assert notes.rows == ["generator opens", "generator sees no database", "generator closes"] * 2


async def test_job_and_context(office: Office) -> None:
    """A task can be given its job, and the ``ctx`` that logs and reports progress, of the kind that fits it."""

    @office.tasks.task(queue="emails")
    async def awaited(job: CurrentJob = INJECTED, ctx: Annotated[Context, Depends(current_context)] = INJECTED) -> str:
        await ctx.log("from a coroutine")
        return job.name

    @office.tasks.task(queue="emails")
    def plain(job: CurrentJob = INJECTED, ctx: Annotated[ThreadContext, Depends(current_context)] = INJECTED) -> str:
        ctx.log("from a thread")
        return job.name

    sent = [await awaited.delay(), await plain.delay()]
    await office.work()

    assert [await one.result(timeout=60_000) for one in sent] == ["awaited", "plain"]
    logs = [await office.tasks.queue("emails").get_job_logs(one.id) for one in sent]
    assert logs == [["from a coroutine"], ["from a thread"]]


async def test_override(office: Office, notes: Notes) -> None:
    """Tests put something else in a provider's place."""

    @office.tasks.task(queue="emails")
    async def send(a: Annotated[str, Depends(notes.plain)] = INJECTED) -> str:
        return a

    office.tasks.overrides[notes.plain] = lambda: "fake"
    sent = await send.delay()
    await office.work()

    assert await sent.result(timeout=60_000) == "fake"
    assert notes.rows == []


async def test_injected_is_not_sent(office: Office, notes: Notes) -> None:
    """Whoever enqueues a task cannot pass what is injected, and neither can a job's data."""

    @office.tasks.task(queue="emails")
    async def send(a: Annotated[str, Depends(notes.plain)] = INJECTED) -> str:
        return a

    with pytest.raises(UsageError, match="unexpected keyword argument 'a'"):
        await send.delay(a="mine")
    job_id = await office.add("send", {"a": "theirs"})
    await office.work()

    reason = (await office.job(job_id)).failed_reason
    assert reason is not None
    assert "unknown field `a`" in reason
