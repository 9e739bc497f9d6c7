"""Layers of plugins around whole operations: bulks, flows, upserts of schedulers."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from echomq import Keys, PluginError
from echomq.errors import EchoMQError
from echomq.layers import Layer, Operation, within

BULK = Operation(name="add_bulk", keys=Keys("mail"))

Steps = Generator[None, Any, None]


def plan(outcome: object) -> Generator[str, Any, object]:
    """Send one request, then return or raise."""
    reply = yield "request"
    if isinstance(outcome, EchoMQError):
        raise outcome
    return outcome if outcome is not None else reply


def run(steps: Generator[str, Any, object]) -> object:
    """Run a plan whose requests are answered at once."""
    try:
        next(steps)
        steps.send("reply")
    except StopIteration as end:
        return end.value
    raise AssertionError("one request too many")


class Watching:
    """Layers, and what they noted and were told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.problems: list[PluginError] = []

    def layer(self, name: str, function: Callable[[Operation], Steps] | None = None) -> Layer:
        """A layer that notes its way in and out, or runs a function."""

        def noting(operation: Operation) -> Steps:
            self.notes.append(f"{name} in {operation.name}")
            try:
                result = yield
            except BaseException as error:
                self.notes.append(f"{name} {type(error).__name__}")
                raise
            self.notes.append(f"{name} out {result}")

        return Layer(plugin=name, role="around_operation", function=function or noting)

    def within(self, *layers: Layer, outcome: object = None) -> Generator[str, Any, object]:
        """The plan inside layers."""
        return within(layers, BULK, plan(outcome), self.problems.append)


def test_layers_lie_around() -> None:
    """The first layer is the outermost, and each sees what the operation gave."""
    watching = Watching()

    assert run(watching.within(watching.layer("a"), watching.layer("b"))) == "reply"
    assert watching.notes == ["a in add_bulk", "b in add_bulk", "b out reply", "a out reply"]


def test_failure_passes_through() -> None:
    """What the operation raises is raised in each layer and reaches the caller."""
    watching = Watching()

    with pytest.raises(EchoMQError, match="no"):
        run(watching.within(watching.layer("a"), watching.layer("b"), outcome=EchoMQError("no")))

    assert watching.notes[2:] == ["b EchoMQError", "a EchoMQError"]
    assert not watching.problems


def test_given_up_operation_ends_its_layers() -> None:
    """An operation that nobody waits for any more ends its layers at once, the innermost first."""
    watching = Watching()
    steps = watching.within(watching.layer("a"), watching.layer("b"))
    next(steps)

    steps.close()

    assert watching.notes[2:] == ["b GeneratorExit", "a GeneratorExit"]


def _before(_: Operation) -> Steps:
    raise ZeroDivisionError("before")
    yield  # type: ignore[unreachable]  # makes it a generator


def _after(_: Operation) -> Steps:
    yield
    raise ZeroDivisionError("after")


def _twice(_: Operation) -> Steps:
    yield
    yield


def _stubborn(_: Operation) -> Steps:
    try:
        yield
    finally:
        raise ZeroDivisionError("at the end")


@pytest.mark.parametrize("bad", [_before, _after, _twice, _stubborn])
def test_bad_layer_does_no_harm(bad: Callable[[Operation], Steps]) -> None:
    """A layer that raises or yields twice is reported with its plugin, and the operation is done all the same."""
    watching = Watching()

    assert run(watching.within(watching.layer("bad", bad), watching.layer("good"))) == "reply"
    assert watching.notes == ["good in add_bulk", "good out reply"]
    assert len(watching.problems) == 1
    assert "'bad'" in str(watching.problems[0])


def test_failure_and_bad_layer() -> None:
    """What a layer raises after a failure is reported, and the caller gets the failure."""
    watching = Watching()

    with pytest.raises(EchoMQError, match="no"):
        run(watching.within(watching.layer("bad", _stubborn), outcome=EchoMQError("no")))

    assert [str(problem.__cause__) for problem in watching.problems] == ["at the end"]
