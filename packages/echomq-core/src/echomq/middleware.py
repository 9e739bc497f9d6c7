"""Code around adding and around processing, in layers. Pure.

A layer is a generator function: what stands before its ``yield`` runs before,
what stands after it runs after. It yields the job that goes on inwards, and
receives what came back. The layer with the lowest ``order`` is the outermost.

A layer can do no harm: what it raises is reported with its plugin's name, and the
job goes on as if the layer were not there, unless the layer is ``required``.

Source: design.md section 7.
"""

import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, TypeVar

import attrs

from .calls.add import add_job
from .errors import BulkAddFailed, EchoMQError, JobSignal, PluginError
from .family import add_flow as plan_flow
from .flow import Flow, FlowTree
from .job import Job
from .layers import AroundAdd, AroundOperation, AroundProcessing, Layer, Middleware, Operation, Report, within
from .plans import Plan
from .plans import add_bulk as plan_bulk

__all__ = [
    "AroundAdd",
    "AroundOperation",
    "AroundProcessing",
    "Layer",
    "Middleware",
    "Operation",
    "Report",
    "add",
    "add_bulk",
    "add_flow",
    "around_add",
    "process",
    "process_plainly",
    "through",
]

Yielded = TypeVar("Yielded")


@attrs.define
class _Passage:
    """One way through one layer.

    Attributes:
        layer: The layer.
        report: Told what goes wrong in it.
        steps: Its generator between ``enter`` and the way out; None: the layer has failed and is left alone.
    """

    layer: Layer
    report: Report
    steps: Any = None

    def entered(self, job: object, before: Job) -> Job:
        """Take what was yielded."""
        if isinstance(job, Job):
            return job
        return self.refused(TypeError(f"yielded {job!r}, expected the job"), before)

    def refused(self, error: Exception, job: Job) -> Job:
        """Go on without the layer, unless it is required."""
        self.steps = None
        problem = self.layer.problem(error)
        self.report(problem)
        if self.layer.required:
            raise problem
        return job

    def failed(self, error: BaseException, cause: BaseException | None = None) -> None:
        """Report what the layer raised on the way out, unless it passed on what it got."""
        if error is not cause:
            self.report(self.layer.problem(error))

    def enter(self, job: Job) -> Job:
        try:
            self.steps = self.layer.function(job)
            return self.entered(next(self.steps), job)
        except PluginError:
            raise
        except Exception as error:  # noqa: BLE001  # a plugin may raise anything
            return self.refused(error, job)

    def leave(self, added: Job) -> None:
        if self.steps is None:
            return
        try:
            self.steps.send(added)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  # the job is added, whatever a plugin does then
            self.failed(error)
        else:
            self.failed(_TWICE)

    def leave_failed(self, cause: EchoMQError) -> None:
        if self.steps is None:
            return
        try:
            self.steps.throw(cause)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001  # the caller gets the cause
            self.failed(error, cause)
        else:
            self.failed(_TWICE)


_TWICE = RuntimeError("it must yield once, and yielded again")


def add(layers: Sequence[Layer], job: Job, report: Report) -> Plan[Job]:
    """Add a job through all layers; raises as :func:`through`."""
    [added] = yield from through(layers, [job], report, _send_one)
    return added


def around_add(layers: Sequence[Layer], job: Job, report: Report) -> Generator[Job, Job, Job]:
    """Lead a job through all layers: gives the job to add, and receives it added or what adding raised.

    Raises as :func:`through`.
    """
    [added] = yield from through(layers, [job], report, _by_receiver)
    return added


def _by_receiver(jobs: Sequence[Job]) -> Generator[Job, Job, list[Job]]:
    [job] = jobs
    return [(yield job)]


def _send_one(jobs: Sequence[Job]) -> Plan[list[Job]]:
    [job] = jobs
    return [job.with_id((yield add_job(job)))]


def add_bulk(
    layers: Sequence[Layer], jobs: Sequence[Job], report: Report, *, atomic: bool, around: Sequence[Layer] = ()
) -> Plan[list[Job]]:
    """Add many jobs, each through all layers, inside those around operations; raises as :func:`through`."""
    plan = through(layers, jobs, report, partial(plan_bulk, atomic=atomic))
    if not jobs:
        return (yield from plan)
    return (yield from within(around, Operation(name="add_bulk", keys=jobs[0].keys, jobs=jobs), plan, report))


def add_flow(
    layers: Sequence[Layer], flow: Flow, report: Report, *, around: Sequence[Layer] = ()
) -> Plan[tuple[FlowTree, ...]]:
    """Add flows as :func:`add_bulk` adds jobs. Layers cannot change ids and queues."""
    operation = Operation(name="add_flow", keys=flow.jobs[0].keys, jobs=flow.jobs)
    return (yield from within(around, operation, _flow(layers, flow, report), report))


def _flow(layers: Sequence[Layer], flow: Flow, report: Report) -> Plan[tuple[FlowTree, ...]]:
    trees: list[FlowTree] = []

    def send(jobs: list[Job]) -> Plan[list[Job]]:
        if [job.key for job in jobs] != [job.key for job in flow.jobs]:
            raise PluginError("a layer around adding changed id or queue of a job whose flow holds it by them")
        trees.extend((yield from plan_flow(flow.with_jobs(jobs))))
        return [job for tree in trees for job in tree.jobs()]

    yield from through(layers, flow.jobs, report, send)
    return tuple(trees)


def through(
    layers: Sequence[Layer],
    jobs: Sequence[Job],
    report: Report,
    send: Callable[[list[Job]], Generator[Yielded, Any, list[Job]]],
) -> Generator[Yielded, Any, list[Job]]:
    """Add jobs, each through all layers.

    Args:
        layers: From the outermost.
        jobs: As their caller gave them.
        report: Told what goes wrong in a layer.
        send: Adds the jobs as the innermost layers left them, and returns them with their ids, in order.

    Raises:
        PluginError: A required layer raised; nothing was sent.
        EchoMQError: What ``send`` raises.
    """
    passages = [[_Passage(layer, report) for layer in layers] for _ in jobs]
    entered = [_entered(way, job) for way, job in zip(passages, jobs, strict=True)]
    try:
        added = yield from send(entered)
    except EchoMQError as error:
        _all_left(passages, error.outcomes if isinstance(error, BulkAddFailed) else [error] * len(jobs))
        raise
    _all_left(passages, added)
    return added


def _entered(passages: Sequence[_Passage], job: Job) -> Job:
    for passage in passages:
        job = passage.enter(job)
    return job


def _all_left(passages: Sequence[Sequence[_Passage]], outcomes: Sequence[Job | EchoMQError]) -> None:
    for way, outcome in zip(passages, outcomes, strict=True):
        _left(way, outcome)


def _left(passages: Sequence[_Passage], outcome: Job | EchoMQError) -> None:
    for passage in reversed(passages):
        if isinstance(outcome, EchoMQError):
            passage.leave_failed(outcome)
        else:
            passage.leave(outcome)


async def process(layers: Sequence[Layer], job: Job, report: Report, run: Callable[[Job], Awaitable[Any]]) -> Any:
    """Run a job through all layers.

    Args:
        layers: From the outermost.
        job: As taken.
        report: Told what goes wrong in a layer.
        run: Processes the job.

    Returns:
        The result.

    Raises:
        PluginError: A required layer raised.
        JobSignal: A layer steers the job.
        BaseException: What the job raised.
    """
    if not layers:
        return await run(job)
    passage = _Passage(layers[0], report)
    job = await _enter(passage, job)
    try:
        result = await process(layers[1:], job, report, run)
    except BaseException as error:
        await _leave_failed(passage, error)
        raise
    return await _leave(passage, result)


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


async def _enter(passage: _Passage, job: Job) -> Job:
    try:
        passage.steps = steps = passage.layer.function(job)
        return passage.entered(await anext(steps) if hasattr(steps, "asend") else next(steps), job)
    except (PluginError, JobSignal):
        raise
    except Exception as error:  # noqa: BLE001  # a plugin may raise anything
        return passage.refused(error, job)


async def _leave(passage: _Passage, result: Any) -> Any:
    steps = passage.steps
    if steps is None:
        return result
    try:
        await _awaited(steps.asend(result) if hasattr(steps, "asend") else steps.send(result))
    except (StopIteration, StopAsyncIteration) as end:
        value = getattr(end, "value", None)
        return result if value is None else value
    except JobSignal:
        raise
    except Exception as error:
        passage.failed(error)
        if passage.layer.required:
            raise passage.layer.problem(error) from error
    else:
        passage.failed(_TWICE)
    return result


async def _leave_failed(passage: _Passage, cause: BaseException) -> None:
    steps = passage.steps
    if steps is None:
        return
    try:
        await _awaited(steps.athrow(cause) if hasattr(steps, "athrow") else steps.throw(cause))
    except (StopIteration, StopAsyncIteration):
        return
    except JobSignal as signal:
        if signal is not cause:
            raise
    except BaseException as error:  # noqa: BLE001  # the caller gets the cause
        passage.failed(error, cause)
    else:
        passage.failed(_TWICE)


def process_plainly(layers: Sequence[Layer], job: Job, report: Report, run: Callable[[Job], Any]) -> Any:
    """Run a job through all layers where there is no event loop; as :func:`process`.

    Raises:
        PluginError: A required layer raised, or a layer waits for something, which nothing here can.
    """

    async def awaited(changed: Job) -> Any:
        return run(changed)

    # With plain layers nothing in it ever waits, so that one step leads to its end.
    work = process(layers, job, report, awaited)
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise PluginError(f"one of the plugins {', '.join(layer.plugin for layer in layers)} waits for an event loop")
