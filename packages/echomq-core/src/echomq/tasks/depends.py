"""What a task is given beside its arguments: ``Annotated[Session, Depends(open_session)]``.

A provider is a plain or ``async`` function, or a generator function of either
kind, whose rest runs when the job has ended. Providers may depend on others. Each
runs once for a job.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from echomq.aio.context import ThreadContext, current_context
from echomq.errors import UsageError
from echomq.job import Job

__all__ = [
    "INJECTED",
    "CurrentJob",
    "Depends",
    "Needs",
    "Overrides",
    "current_job",
    "hints_of",
    "needs_of",
    "run_plainly_with",
    "run_with",
]

T = TypeVar("T")


class _Injected:
    """Stands for what is filled in when the task runs."""

    def __repr__(self) -> str:
        return "INJECTED"


INJECTED: Any = _Injected()
"""Default of a parameter that is injected, for type checkers: callers leave it out."""

Overrides: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]
"""Provider -> what runs in its place."""


@attrs.frozen
class Depends:
    """Marks a parameter that a provider fills.

    Attributes:
        provider: A plain or ``async`` function or generator function, or a class.
        in_thread: Where the task is ``async``, plain providers run in a thread. False: it never
            blocks and runs on the event loop.
    """

    provider: Callable[..., Any]
    in_thread: bool = True


def current_job() -> Job:
    """Return the job that runs.

    Raises:
        UsageError: None does.
    """
    context = current_context()
    if context is None:
        raise UsageError("no job runs here")
    return context.job


CurrentJob: TypeAlias = Annotated[Job, Depends(current_job, in_thread=False)]
"""Annotation of a parameter that gets the job itself."""


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function.

    Raises:
        UsageError: One names something that does not exist where the function was defined.
    """
    target = function.__init__ if inspect.isclass(function) else function
    try:
        return get_type_hints(target, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"{function.__qualname__}: an annotation cannot be read: {error}; import it outside of TYPE_CHECKING"
        ) from None
    except TypeError:
        return {}  # some builtins have none


@attrs.frozen(kw_only=True)
class Provider:
    """A provider, looked at once.

    Attributes:
        function: As it was given.
        in_thread: See :class:`Depends`.
        needs: What it depends on itself.
    """

    function: Callable[..., Any]
    in_thread: bool
    needs: "Needs"


Needs: TypeAlias = Mapping[str, Provider]
"""Parameter -> its provider."""


def needs_of(function: Callable[..., Any]) -> Needs:
    """Return which parameters of a function are injected."""
    found = {}
    for name, hint in hints_of(function).items():
        for mark in _marks(hint):
            if isinstance(mark, Depends):
                found[name] = _provider(mark.provider, mark.in_thread)
    return found


def _marks(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Annotated:
        yield from get_args(hint)[1:]
    elif get_origin(hint) is Union:  # Python 3.10 adds None to the annotation where it is the default
        for part in get_args(hint):
            yield from _marks(part)


def _provider(function: Callable[..., Any], in_thread: bool) -> Provider:
    return Provider(function=function, in_thread=in_thread, needs=needs_of(function))


@attrs.define
class _Asking:
    """The providers' answers for one job.

    Attributes:
        overrides: See there.
        made: What has been made, by provider.
    """

    overrides: Overrides
    made: dict[Callable[..., Any], Any] = attrs.field(factory=dict)

    def chosen(self, provider: Provider) -> Provider:
        other = self.overrides.get(provider.function)
        return provider if other is None else _provider(other, provider.in_thread)

    async def fill(self, needs: Needs, stack: AsyncExitStack) -> dict[str, Any]:
        return {name: await self._make(self.chosen(provider), stack) for name, provider in needs.items()}

    async def _make(self, provider: Provider, stack: AsyncExitStack) -> Any:
        function = provider.function
        if function not in self.made:
            arguments = await self.fill(provider.needs, stack)
            self.made[function] = await self._open(provider, arguments, stack)
        return self.made[function]

    async def _open(self, provider: Provider, arguments: dict[str, Any], stack: AsyncExitStack) -> Any:
        function = provider.function
        if inspect.isasyncgenfunction(function):
            return await stack.enter_async_context(asynccontextmanager(function)(**arguments))
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        if inspect.isgeneratorfunction(function):
            manager = contextmanager(function)(**arguments)
            value = await asyncio.to_thread(manager.__enter__)
            stack.push_async_exit(lambda *error: asyncio.to_thread(manager.__exit__, *error))
            return value
        return await asyncio.to_thread(function, **arguments) if provider.in_thread else function(**arguments)

    def fill_plainly(self, needs: Needs, stack: ExitStack) -> dict[str, Any]:
        return {name: self._make_plainly(self.chosen(provider), stack) for name, provider in needs.items()}

    def _make_plainly(self, provider: Provider, stack: ExitStack) -> Any:
        function = provider.function
        if function not in self.made:
            arguments = self.fill_plainly(provider.needs, stack)
            self.made[function] = _open_plainly(function, arguments, stack)
        return self.made[function]


def _open_plainly(function: Callable[..., Any], arguments: dict[str, Any], stack: ExitStack) -> Any:
    """Ask a provider in the thread of a plain task; an ``async`` one runs on the worker's event loop meanwhile."""
    if inspect.isgeneratorfunction(function):
        return stack.enter_context(contextmanager(function)(**arguments))
    if inspect.isasyncgenfunction(function):
        manager: Any = asynccontextmanager(function)(**arguments)
        value = _on_loop(manager.__aenter__())
        stack.push(lambda *error: _on_loop(manager.__aexit__(*error)))
        return value
    return _on_loop(function(**arguments)) if inspect.iscoroutinefunction(function) else function(**arguments)


def _on_loop(work: Coroutine[Any, Any, T]) -> T:
    context = current_context()
    if not isinstance(context, ThreadContext):
        work.close()
        raise UsageError("an async provider needs an event loop: run the task by tasks.worker, or make it plain")
    return context.wait_for(work)


async def run_with(needs: Needs, overrides: Overrides, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call an ``async`` function with what it needs; afterwards the generators among its providers end.

    A provider sees what the function raised, and cannot hide it.
    """
    failure: BaseException | None = None
    async with AsyncExitStack() as stack:
        try:
            injected = await _Asking(overrides).fill(needs, stack)
            return await function(**arguments, **injected)
        except BaseException as error:
            failure = error
            raise
    raise failure


def run_plainly_with(
    needs: Needs, overrides: Overrides, function: Callable[..., Any], arguments: dict[str, Any]
) -> Any:
    """Call a plain function as :func:`run_with` does."""
    failure: BaseException | None = None
    with ExitStack() as stack:
        try:
            injected = _Asking(overrides).fill_plainly(needs, stack)
            return function(**arguments, **injected)
        except BaseException as error:
            failure = error
            raise
    raise failure
