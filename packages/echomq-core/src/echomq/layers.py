"""What a plugin may put around adding, around processing and around whole operations. Pure.

A layer is a generator function: what stands before its ``yield`` runs before,
what stands after it runs after. :mod:`echomq.middleware` leads jobs through layers.

Source: design.md section 7.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import attrs

from .errors import EchoMQError, PluginError
from .job import Job
from .keys import Keys

__all__ = [
    "AroundAdd",
    "AroundOperation",
    "AroundProcessing",
    "Layer",
    "Middleware",
    "Operation",
    "Report",
    "within",
]

Yielded = TypeVar("Yielded")
T = TypeVar("T")

AroundAdd: TypeAlias = Callable[[Job], Generator[Job, Job, None]]
"""Called with the job, yields the job to add, receives it with its id; a failed add is raised at the ``yield``."""

AroundProcessing: TypeAlias = Callable[[Job], Generator[Job, Any, Any] | AsyncGenerator[Job, Any]]
"""Called with the job, yields the job to process, receives the result; what the job raised is raised at the
``yield``. What a plain generator returns, unless None, becomes the result."""

Report: TypeAlias = Callable[[PluginError], None]
"""Is told what a plugin did wrong."""


@attrs.frozen(kw_only=True)
class Operation:
    """A call that adds several jobs, or has the server make them.

    Attributes:
        name: What is called.
        keys: Of its queue; of a flow, that of the first root.
        jobs: To be added, as they were given; empty for a scheduler.
        scheduler_id: Of the scheduler that is made or changed.
    """

    name: Literal["add_bulk", "add_flow", "upsert_job_scheduler"]
    keys: Keys
    jobs: Sequence[Job] = ()
    scheduler_id: str | None = None


AroundOperation: TypeAlias = Callable[[Operation], Generator[None, Any, None]]
"""Called with the operation, yields nothing, receives what it gave; what it raised is raised at the ``yield``."""


@attrs.frozen(kw_only=True)
class Middleware:
    """Code around adding, around processing, or both.

    Attributes:
        around_add: A generator function of (job); on the event loop it must not block.
        around_processing: A generator function of (job), plain or ``async``.
        around_operation: A plain generator function of (operation), around bulks, flows and upserts of
            schedulers, outside of the layers of their jobs. It watches: what it raises is reported, no more.
        in_child: A plain generator function of (job, handed), as ``around_processing`` but in the child process
            that has the job (``run_in="process"``); of plugins that an entry point names, since a child knows
            no other.
        for_child: Gives the text that is handed to ``in_child``, or None. It is called in the worker, inside of
            the layers around processing, whose context variables it sees.
        order: Layers of lower order lie further out; those of the same order go by the plugin's name.
        required: What it raises before its ``yield`` fails the add or the attempt, and what it raises
            after a job was processed fails the attempt. False: it is only reported.
    """

    around_add: AroundAdd | None = None
    around_processing: AroundProcessing | None = None
    around_operation: AroundOperation | None = None
    in_child: Callable[[Job, str | None], Generator[Job, Any, Any]] | None = None
    for_child: Callable[[], str | None] | None = None
    order: int = 0
    required: bool = False


@attrs.frozen(kw_only=True)
class Layer:
    """One generator function of a plugin.

    Attributes:
        plugin: Its name.
        role: Field of :class:`Middleware` that brought it.
        function: The generator function.
        required: See :class:`Middleware`.
    """

    plugin: str
    role: str
    function: Callable[..., Any]
    required: bool = False

    def problem(self, error: BaseException) -> PluginError:
        """Return what to report when the function has raised this."""
        told = PluginError(f"plugin {self.plugin!r}: {self.role} raised {error!r}")
        told.__cause__ = error
        return told


def within(
    layers: Sequence[Layer], operation: Operation, plan: Generator[Yielded, Any, T], report: Report
) -> Generator[Yielded, Any, T]:
    """Run an operation inside its layers.

    Args:
        layers: Around operations, from the outermost.
        operation: What it is.
        plan: Does it.
        report: Told what goes wrong in a layer, which never keeps the operation from being done.

    Raises:
        EchoMQError: What the plan raises.
    """
    if not layers:
        return (yield from plan)
    watching = [watch for layer in layers if (watch := _Watch(layer, report)).begin(operation)]
    try:
        result = yield from plan
    except EchoMQError as error:
        for watch in reversed(watching):
            watch.fail(error)
        raise
    else:
        for watch in reversed(watching):
            watch.end(result)
        return result
    finally:  # also where nobody waits for the operation any more
        for watch in reversed(watching):
            watch.close()


@attrs.define
class _Watch:
    layer: Layer
    report: Report
    steps: Any = None

    def begin(self, operation: Operation) -> bool:
        try:
            self.steps = self.layer.function(operation)
            next(self.steps)
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            self.report(self.layer.problem(error))
            return False
        return True

    def end(self, result: object) -> None:
        self._left(lambda: self.steps.send(result))

    def fail(self, cause: EchoMQError) -> None:
        self._left(lambda: self.steps.throw(cause), cause)

    def close(self) -> None:
        try:
            self.steps.close()
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            self.report(self.layer.problem(error))

    def _left(self, leave: Callable[[], Any], cause: EchoMQError | None = None) -> None:
        try:
            leave()
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            if error is not cause:
                self.report(self.layer.problem(error))
        else:
            self.report(self.layer.problem(RuntimeError("it must yield once, and yielded again")))
