"""What can be told of a processor by looking at it.

Source: design.md section 2; protocol spec 05 section 4.7.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from .errors import EchoMQError, UsageError
from .job import Job

__all__ = ["Processor", "Processors", "check_processor", "is_coroutine_function", "no_processor", "takes_context"]

Processor: TypeAlias = Callable[[Job], Any] | Callable[[Job, Any], Any]
"""``processor(job)`` or ``processor(job, ctx)``; ``async def`` or plain."""

Processors: TypeAlias = Processor | Mapping[str, Processor]
"""A processor for all jobs, or one for each name of a job."""


def check_processor(function: object) -> None:
    """Refuse what cannot process jobs.

    Raises:
        UsageError: It cannot be called, or not with a job, or with a job and ``ctx``.
    """
    if not callable(function):
        was_called = "; it was called already, pass the function itself" if inspect.iscoroutine(function) else ""
        raise UsageError(f"processor: expected a function of (job) or (job, ctx), not {function!r}{was_called}")
    signature = _signature(function)
    if signature is None:
        return
    try:
        signature.bind(*((None, None) if takes_context(function) else (None,)))
    except TypeError as problem:
        name = getattr(function, "__qualname__", repr(function))
        raise UsageError(
            f"processor: expected a function of (job) or (job, ctx), not {name}{signature}: {problem}"
        ) from None


def is_coroutine_function(function: Any) -> bool:
    """Tell whether calling this gives something to be awaited."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def takes_context(function: Callable[..., Any]) -> bool:
    """Tell whether a processor has a second argument for ``ctx``."""
    signature = _signature(function)
    if signature is None:
        return False
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    positional = kinds.count(inspect.Parameter.POSITIONAL_ONLY) + kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return positional >= 2 or inspect.Parameter.VAR_POSITIONAL in kinds


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return None


def no_processor(job: Job, processors: Mapping[str, Processor]) -> EchoMQError:
    """Return what a job fails with for whose name there is no processor."""
    known = ", ".join(sorted(processors))
    return EchoMQError(f"no processor for jobs called {job.name!r}; this worker has: {known}")
