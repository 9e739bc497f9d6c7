"""Calls of tasks become jobs, and jobs become calls."""

import asyncio
import enum
import math
import threading
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

import echomq
from echomq import InvalidOption, NotEncodable, ProtocolError, UsageError
from echomq.tasks import INJECTED, Tasks
from support.servers import Server

from .conftest import Office


class Colour(enum.Enum):
    """An enumeration."""

    RED = "red"


@dataclass
class Point:
    """A dataclass."""

    x: int
    y: int


@attrs.frozen
class Size:
    """An attrs class."""

    width: float


class Box(msgspec.Struct):
    """A type of msgspec's."""

    at: Point
    sizes: list[Size]


class Address(pydantic.BaseModel):
    """A model of pydantic's."""

    street: str
    since: date
    number: int = 1


VALUES = [
    (Colour, Colour.RED),
    (Point, Point(1, 2)),
    (Box, Box(Point(1, 2), [Size(1.5)])),
    (Address, Address(street="Main", since=date(2026, 1, 31))),
    (list[Address], [Address(street="Main", since=date(2026, 1, 31))]),
    (Address | None, None),
    (datetime, datetime(2026, 1, 31, tzinfo=timezone.utc)),
    (dict[str, Decimal], {"price": Decimal("1.10")}),
    (dict[int, UUID], {7: UUID(int=7)}),
    (bytes, b"\x00\xff"),
    (tuple[int, str], (1, "a")),
    (Any, {"anything": [1, None]}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda value: str(value)[:30])
async def test_types(office: Office, kind: Any, value: object) -> None:
    """Arguments and results of every kind arrive as the annotation says, also where they have defaults."""
    seen = []

    async def give_back(value, other=None):  # type: ignore[no-untyped-def]  # annotated below
        seen.append((value, other))
        return value

    give_back.__annotations__ = {"value": kind, "other": kind, "return": kind}
    task = office.tasks.task(queue="emails")(give_back)
    sent = await task.delay(value)
    await office.work()

    assert await sent.result(timeout=60_000) == value
    assert seen == [(value, None)]
    assert task.result_of(await office.job(sent.id)) == value


async def test_plain_json(office: Office) -> None:
    """A producer in another language sends an object of named arguments; what it leaves out takes its default."""
    seen = []

    @office.tasks.task(queue="emails")
    async def send(to: str, copies: int = 1, *, tags: frozenset[str] = frozenset()) -> None:
        seen.append((to, copies, tags))

    await office.add("send", {"to": "ada"})
    await office.add("send", {"tags": ["a", "a"], "copies": 2, "to": "bob"})
    await office.work()

    assert seen == [("ada", 1, frozenset()), ("bob", 2, frozenset("a"))]


@pytest.mark.parametrize("data", [None, {}])
async def test_no_arguments(office: Office, data: object) -> None:
    """A task without arguments runs for a job without data."""

    @office.tasks.task(queue="emails")
    async def tick() -> str:
        return "tock"

    job_id = await office.add("tick", data)
    await office.work()

    assert await tick.enqueued(job_id).result(timeout=60_000) == "tock"


MISFITS = [
    ({}, "Object missing required field `to`"),
    ({"to": 7}, "Expected `str`, got `int` - at `to`"),
    ({"to": "ada", "at": [{"x": 1, "y": "2"}]}, "Expected `int`, got `str` - at `at[0].y`"),
    ({"to": "ada", "colour": "blue"}, "Invalid enum value 'blue' - at `colour`"),
    ({"to": "ada", "home": {"street": "Main"}}, "since: Field required - at `home`"),
    ({"to": "ada", "copies": 0}, "Expected `int` >= 1 - at `copies`"),
    ({"to": "ada", "cc": "bob"}, "Object contains unknown field `cc`"),
    (["ada"], "Expected `object`, got `array`"),
    ("ada", "Expected `object`, got `str`"),
]


@pytest.mark.parametrize(("data", "problem"), MISFITS, ids=[problem for _, problem in MISFITS])
async def test_misfit(office: Office, data: object, problem: str) -> None:
    """Data that do not fit fail their job at once, saying which field and why; the jobs beside it run."""

    @office.tasks.task(queue="emails")
    async def send(
        to: str,
        at: tuple[Point, ...] = (),
        colour: Colour | None = None,
        home: Address | None = None,
        copies: Annotated[int, msgspec.Meta(ge=1)] = 1,
    ) -> tuple[str, int]:
        return to, len([at, colour, home]) * copies

    bad, good = await office.add("send", data, attempts=5), await office.add("send", {"to": "ada"}, attempts=5)
    await office.work()
    failed = await office.job(bad)

    assert failed.failed_reason == f"the data of this job are no arguments of task 'send': {problem}"
    assert (failed.attempts_made, len(failed.stacktrace)) == (1, 1)
    assert (await office.job(good)).return_value == ["ada", 3]


async def test_wrong_call(office: Office) -> None:
    """A call that does not fit is refused where it is made, with the field's path, and nothing is sent."""

    @office.tasks.task(queue="emails")
    async def send(to: str, at: Point | None = None, weight: float = 0.0) -> None: ...

    untyped: Any = send
    with pytest.raises(InvalidOption, match=r"arguments of task 'send': Expected `int`, got `str` - at `at.x`"):
        await untyped.delay("ada", at={"x": "1", "y": 2})
    with pytest.raises(InvalidOption, match="missing a required argument: 'to'"):
        await untyped.delay()
    with pytest.raises(InvalidOption, match="unexpected keyword argument 'too'"):
        await untyped.delay("ada", too=1)
    with pytest.raises(InvalidOption, match=r"object.* has no JSON form|Encoding objects"):
        await untyped.delay(object())
    with pytest.raises(NotEncodable, match="weight"):
        await send.delay("ada", weight=math.nan)

    assert await office.tasks.queue("emails").count() == 0


async def test_results(office: Office) -> None:
    """A result that has no JSON form fails its job; one that is not what was promised is an error for who reads it."""

    @office.tasks.task(queue="emails", retries=3)
    async def odd() -> Any:
        return object()

    @office.tasks.task(queue="emails")
    async def liar() -> list[int]:
        return ["one"]  # type: ignore[list-item]  # the mistake under test

    failing, lying = await odd.delay(), await liar.delay()
    await office.work()

    with pytest.raises(
        echomq.JobFailed, match=r"result of task 'odd' is not JSON at \$: a builtins.object has no JSON form"
    ):
        await failing.result(timeout=60_000)
    with pytest.raises(ProtocolError, match=r"'liar' promises.*Expected `int`, got `str` - at `\[0\]`"):
        await lying.result(timeout=60_000)
    with pytest.raises(UsageError, match="has no result"):
        odd.result_of(await office.job(failing.id))


async def test_options(office: Office) -> None:
    """Options of the definition hold for each job, unless those of the call say otherwise."""

    @office.tasks.task(queue="emails", name="mail", retries=3, priority=5)
    async def send(to: str) -> None: ...

    first = await office.job((await send.delay("ada")).id)
    other = await office.job((await send.options(delay=60_000).options(priority=1).enqueue(to="ada")).id)
    name, data, options = send.options(lifo=True).new_job("ada")

    assert (first.name, first.data, first.options.attempts, first.priority) == ("mail", {"to": "ada"}, 4, 5)
    assert (other.delay_ms, other.priority, other.options.attempts) == (60_000, 1, 4)
    assert (name, data, options) == ("mail", {"to": "ada"}, {"attempts": 4, "priority": 5, "lifo": True})


async def test_blocking_twin(office: Office) -> None:
    """Code without an event loop enqueues and waits with the same task, also from several threads."""

    @office.tasks.task(queue="emails")
    def double(number: int) -> int:
        return 2 * number

    def produce(number: int) -> int:
        return double.delay_sync(number).result_sync(timeout=60_000)

    async with office.tasks.worker("emails", concurrency=4, drain_delay=100) as worker:
        running = asyncio.ensure_future(worker.run())
        results = await asyncio.gather(*(asyncio.to_thread(produce, number) for number in range(4)))
    await running

    assert results == [0, 2, 4, 6]


async def test_plain_function_runs_in_a_thread(office: Office) -> None:
    """A task that is a plain function never runs on the event loop."""

    @office.tasks.task(queue="emails")
    def where() -> int:
        return threading.get_ident()

    sent = await where.delay()
    await office.work()

    assert await sent.result(timeout=60_000) != threading.get_ident()


async def test_calling_a_task(office: Office) -> None:
    """A task called like a function is that function, with its name and documentation."""

    @office.tasks.task(queue="emails")
    async def send(to: str) -> str:
        """Send a mail."""
        return to

    untyped: Any = send
    assert await send("ada") == "ada"
    assert (untyped.__name__, send.__doc__) == ("send", "Send a mail.")


async def test_hostile_names(office: Office) -> None:
    """Names in jobs only choose among the tasks; nothing is imported or evaluated by them (pain 57)."""
    ran = []

    @office.tasks.task(queue="emails")
    async def send() -> None:
        ran.append("send")

    hostile = ["os.system", "__import__('os')", "send.__globals__", "function", "echomq.tasks.registry"]
    ids = [await office.add(name, {"to": "x"}) for name in hostile]
    await office.work()

    assert ran == []
    for name, job_id in zip(hostile, ids, strict=True):
        reason = (await office.job(job_id)).failed_reason
        assert reason == f"no processor for jobs called {name!r}; this worker has: send"


def test_wrong_definitions() -> None:
    """What cannot be a task is refused where it is defined, with the reason."""
    tasks = Tasks("redis://localhost")
    define: Any = tasks.task(queue="emails")

    @tasks.task(queue="emails")
    def send(to: str) -> None: ...

    def many(*to: str) -> None: ...

    def named(**to: str) -> None: ...

    def unknown(to: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def ambiguous(to: Address | Nameless) -> None: ...

    def forgotten(to: str = INJECTED) -> None: ...

    for function, problem in {
        many: r"\*to.* has no place",
        named: r"\*\*to.* has no place",
        unknown: "Nowhere.*import it outside",
        ambiguous: "ambiguous.*custom",
        forgotten: "to is INJECTED",
    }.items():
        with pytest.raises(UsageError, match=problem):
            define(function)
    with pytest.raises(UsageError, match="has a task called 'send' already"):
        define(send.function)
    with pytest.raises(InvalidOption, match="does not go with attempts"):
        tasks.task(queue="emails", retries=3, attempts=3)
    with pytest.raises(InvalidOption, match="retries"):
        tasks.task(queue="emails", retries=-1)
    with pytest.raises(InvalidOption):
        tasks.task(queue="a:b")
    with pytest.raises(UsageError, match=r"no task of queue 'mails' is defined \(queues with tasks: emails\)"):
        tasks.worker("mails")


class Nameless(pydantic.BaseModel):
    """A second model, which JSON does not tell from the first."""


async def test_errors_after_which_no_attempt_follows(office: Office) -> None:
    """An error of a class that the task calls unrecoverable ends the job; of another class, it is retried."""

    @office.tasks.task(queue="emails", retries=3, unrecoverable=LookupError)
    async def send(to: str) -> None:
        raise (KeyError if to == "nobody" else OSError)(to)

    @office.tasks.task(queue="emails", retries=3, unrecoverable=[ValueError, LookupError])
    def print_it(number: str) -> int:
        return int(number)

    gone, again, wrong = await send.delay("nobody"), await send.delay("ada"), await print_it.delay("ten")
    await office.work()

    assert [(await office.job(job.id)).attempts_made for job in (gone, again, wrong)] == [1, 4, 1]
    assert (await office.job(wrong.id)).failed_reason == ("ValueError: invalid literal for int() with base 10: 'ten'")
    with pytest.raises(InvalidOption, match="unrecoverable"):
        office.tasks.task(queue="emails", unrecoverable=KeyError("x"))  # type: ignore[arg-type]


async def test_open_connection(redis_server: Server, prefix: str) -> None:
    """Tasks on a connection of the host's leave it open."""
    connection = echomq.connect(redis_server.url)
    async with Tasks(connection, prefix=prefix) as tasks:

        @tasks.task(queue="emails")
        async def send() -> None: ...

        await send.delay()
        await asyncio.to_thread(send.delay_sync)
        assert await tasks.queue("emails").count() == 2

    assert (await connection.server()).version
    await connection.close()
