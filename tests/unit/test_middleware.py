"""Layers of plugins around adding and around processing."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import attrs
import pytest

from echomq import Delay, Job, Keys, PluginError
from echomq.errors import BulkAddFailed, EchoMQError, JobLocked
from echomq.middleware import Layer, add, add_bulk, process
from echomq.options import job_options

JOB = Job.from_options(Keys("mail"), "send", {"to": "ada"}, job_options(), 0)

Steps = Generator[Job, Any, Any]


@attrs.define
class Told:
    """What was reported, and what the layers noted."""

    problems: list[PluginError] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)

    def layer(self, name: str, *, function: Callable[[Job], Any] | None = None, required: bool = False) -> Layer:
        """A layer that notes its way in and out, or runs a function."""
        return Layer(plugin=name, role="around_test", function=function or self._noting(name), required=required)

    def _noting(self, name: str) -> Callable[[Job], Steps]:
        def noting(job: Job) -> Steps:
            self.notes.append(f"{name} in")
            try:
                result = yield attrs.evolve(job, name=f"{job.name}.{name}")
            except BaseException as error:
                self.notes.append(f"{name} {type(error).__name__}")
                raise
            self.notes.append(f"{name} out {getattr(result, 'id', result)}")

        return noting


def before(_: Job) -> Steps:
    """Raise on the way in."""
    raise ZeroDivisionError("before")
    yield JOB  # type: ignore[unreachable]  # makes it a generator


def after(job: Job) -> Steps:
    """Raise on the way out."""
    yield job
    raise ZeroDivisionError("after")


def twice(job: Job) -> Steps:
    """Yield once too often."""
    yield job
    yield job


def swallowing(job: Job) -> Steps:
    """Hide what was raised."""
    with contextlib.suppress(BaseException):
        yield job


def nothing(_: Job) -> Steps:
    """Yield something that is no job."""
    yield None  # type: ignore[misc]  # the mistake under test


def plain(_: Job) -> Any:
    """Be no generator at all."""
    return


HARMLESS = [before, after, twice, swallowing, nothing, plain]


def added(layers: list[Layer], told: Told, outcome: Any = "7") -> Job:
    """Add a job through layers, where the server answers with this."""
    plan = add(layers, JOB, told.problems.append)
    plan.send(None)
    told.notes.append("sent")
    try:
        plan.throw(outcome) if isinstance(outcome, EchoMQError) else plan.send(outcome)
    except StopIteration as end:
        job: Job = end.value
        return job
    raise AssertionError("it must send once")


async def processed(layers: list[Layer], told: Told, outcome: Any = "done") -> Any:
    """Process a job through layers, where its code returns or raises this."""

    async def run(job: Job) -> Any:
        told.notes.append(f"run {job.name}")
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return await process(layers, JOB, told.problems.append, run)


def test_layers_of_an_add() -> None:
    """An add passes the layers inwards with the job as each one leaves it, and outwards with its id."""
    told = Told()
    job = added([told.layer("a"), told.layer("b")], told)

    assert (job.id, job.name) == ("7", "send.a.b")
    assert told.notes == ["a in", "b in", "sent", "b out 7", "a out 7"]


def test_failed_add() -> None:
    """What the server answers is raised in each layer and reaches the caller."""
    told = Told()
    with pytest.raises(JobLocked):
        added([told.layer("a")], told, JobLocked("addStandardJob", "7"))

    assert told.notes == ["a in", "sent", "a JobLocked"]


def test_bulk() -> None:
    """Each job of a bulk passes the layers on its own, and its own failure is raised there."""
    told = Told()
    plan = add_bulk([told.layer("a")], [JOB, JOB], told.problems.append, atomic=False)
    batch: Any = plan.send(None)
    with pytest.raises(BulkAddFailed):
        plan.send(["7", JobLocked("addStandardJob", "8")])

    assert len(batch.requests) == 2
    assert told.notes == ["a in", "a in", "a out 7", "a JobLocked"]


async def test_layers_of_processing() -> None:
    """A job passes the layers inwards and outwards, and what it raises is raised in each."""
    told = Told()
    assert await processed([told.layer("a"), told.layer("b")], told) == "done"
    with pytest.raises(ZeroDivisionError):
        await processed([told.layer("c")], told, ZeroDivisionError())

    assert told.notes[:5] == ["a in", "b in", "run send.a.b", "b out done", "a out done"]
    assert told.notes[5:] == ["c in", "run send.c", "c ZeroDivisionError"]


async def test_async_layer() -> None:
    """A layer around processing may be an async generator, and await on both sides."""
    told = Told()

    async def noting(job: Job) -> AsyncGenerator[Job, Any]:
        result = yield job
        told.notes.append(result)

    assert await processed([told.layer("a", function=noting)], told) == "done"
    assert told.notes == ["run send", "done"]


async def test_result_of_a_layer() -> None:
    """What a layer around processing returns takes the place of the result."""
    told = Told()

    def upper(job: Job) -> Steps:
        return (yield job).upper()

    assert await processed([told.layer("a", function=upper)], told) == "DONE"


@pytest.mark.parametrize("function", HARMLESS, ids=lambda function: function.__name__)
async def test_broken_layers_do_no_harm(function: Any) -> None:
    """A layer that raises or breaks the rules is reported by its plugin's name; jobs go on as if it were not there."""
    told = Told()
    layers = [told.layer("outer"), told.layer("bad", function=function), told.layer("inner")]

    assert added(layers, told).name == "send.outer.inner"
    assert await processed(layers, told) == "done"
    with pytest.raises(ValueError, match="its own"):
        await processed(layers, told, ValueError("its own"))
    assert all("'bad'" in str(problem) for problem in told.problems)
    assert bool(told.problems) is (function is not swallowing)


async def test_required_layer() -> None:
    """What a required layer raises fails the add before it is sent, or the attempt."""
    told = Told()
    with pytest.raises(PluginError, match=r"'strict'.*before"):
        added([told.layer("strict", function=before, required=True)], told)
    with pytest.raises(PluginError, match=r"'strict'.*before"):
        await processed([told.layer("strict", function=before, required=True)], told)
    with pytest.raises(PluginError, match=r"'strict'.*after"):
        await processed([told.layer("strict", function=after, required=True)], told)

    assert added([told.layer("strict", function=after, required=True)], told).id == "7"
    assert told.notes == ["run send", "sent"]


async def test_layer_steers() -> None:
    """A layer around processing may raise the signals that job code raises."""

    def later(_: Job) -> Steps:
        raise Delay(5_000)
        yield JOB  # type: ignore[unreachable]  # makes it a generator

    told = Told()
    with pytest.raises(Delay):
        await processed([told.layer("a", function=later)], told)
    assert told.problems == []
