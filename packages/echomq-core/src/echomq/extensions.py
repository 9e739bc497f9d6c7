"""What plugins bring beside drivers, ready for use.

It is computed when a plugin is registered, so that a job pays for the plugins
there are, and nothing where there is none.

Source: design.md section 7.
"""

import inspect
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import pluggy

from .backoff import BackoffStrategy
from .errors import PluginError
from .job import Job
from .keys import Keys
from .middleware import Layer, Middleware

__all__ = ["Extensions", "Hook", "hooks_of", "report"]

_log = logging.getLogger("echomq.plugins")

_HEARD = {
    "completed": ("echomq_job_completed", ("job", "result")),
    "failed": ("echomq_job_failed", ("job", "error")),
    "stalled": ("echomq_job_stalled", ("job_id",)),
    "lock_lost": ("echomq_lock_lost", ("job_id", "worker_name")),
}
"""Local event of a worker -> the hook that hears it, and the names of the event's arguments."""

Answers: TypeAlias = dict[tuple[str, str], Any]
"""What plugins bring, by plugin and hook."""


def report(problem: PluginError) -> None:
    """Log what a plugin did wrong; the message names it."""
    _log.error("%s", problem, exc_info=problem.__cause__)


@attrs.frozen
class Hook:
    """A plugin's implementation of a hook.

    Attributes:
        plugin: Name of the plugin.
        name: Of the hook.
        function: What to call.
        takes: Names of the arguments it wants.
    """

    plugin: str
    name: str
    function: Callable[..., Any]
    takes: tuple[str, ...]

    @property
    def is_async(self) -> bool:
        """Whether it is an ``async def``."""
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, **known: Any) -> Any:
        """Call it with the arguments it wants; an ``async`` one gives an awaitable.

        Raises:
            PluginError: It raised; tells which plugin.
        """
        try:
            answer = self.function(**{name: known[name] for name in self.takes})
        except Exception as error:
            raise self._problem(error) from error
        return self._awaited(answer) if inspect.isawaitable(answer) else answer

    async def _awaited(self, answer: Any) -> Any:
        try:
            return await answer
        except Exception as error:
            raise self._problem(error) from error

    def _problem(self, error: Exception) -> PluginError:
        return PluginError(f"plugin {self.plugin!r}: {self.name} raised {error!r}")


def hooks_of(manager: pluggy.PluginManager, name: str) -> list[Hook]:
    """Return who implements a hook, in the order in which they are called."""
    caller = getattr(manager.hook, name)
    return [
        Hook(implementation.plugin_name, name, implementation.function, tuple(implementation.argnames))
        for implementation in reversed(caller.get_hookimpls())
    ]


@attrs.define(eq=False)
class Extensions:
    """What the plugins of a process add to queues, workers and the command line.

    Attributes:
        add_layers: Around each add, from the outermost.
        processing_layers: Around each job of a worker, from the outermost.
        operation_layers: Around each bulk, flow and upsert of a scheduler, from the outermost.
        child_layers: Around each job of a child process, from the outermost.
        for_child: Give what is handed to those.
        backoff_strategies: By type.
        commands: Add commands to the command line.
    """

    add_layers: tuple[Layer, ...] = ()
    processing_layers: tuple[Layer, ...] = ()
    operation_layers: tuple[Layer, ...] = ()
    child_layers: tuple[Layer, ...] = ()
    for_child: tuple[Layer, ...] = ()
    backoff_strategies: Mapping[str, BackoffStrategy] = attrs.field(factory=dict)
    commands: tuple[Hook, ...] = ()
    _heard: tuple[tuple[str, Hook], ...] = ()
    _answers: Answers = attrs.field(factory=dict)

    def read(self, manager: pluggy.PluginManager) -> None:
        """Take in which plugins are registered; each is asked once what it brings.

        Raises:
            PluginError: One answers something else than its hook promises, or two claim a backoff type.
        """
        names = {name for name, _ in manager.list_name_plugin()}
        answers = {asked: answer for asked, answer in self._answers.items() if asked[0] in names}
        ordered = sorted(_middleware(manager, answers), key=lambda found: (found[1].order, found[0]))
        before = [_before_add(hook) for hook in hooks_of(manager, "echomq_before_add")]
        strategies = _strategies(manager, answers)
        # Nothing changes unless all of it can be read.
        self._answers = answers
        self.add_layers = (*before, *_layers(ordered, "around_add"))
        self.processing_layers = _layers(ordered, "around_processing")
        self.operation_layers = _layers(ordered, "around_operation")
        self.child_layers = _layers(ordered, "in_child")
        self.for_child = _layers(ordered, "for_child")
        self.backoff_strategies = strategies
        self.commands = tuple(hooks_of(manager, "echomq_register_commands"))
        self._heard = tuple((event, hook) for event, (name, _) in _HEARD.items() for hook in hooks_of(manager, name))

    def handed_to_child(self, report: Callable[[PluginError], None]) -> dict[str, str]:
        """Return what a child process is handed with a job, by the name of the plugin."""
        handed: dict[str, str] = {}
        for layer in self.for_child:
            try:
                text = layer.function()
            except Exception as error:  # noqa: BLE001  # a plugin may raise anything
                report(layer.problem(error))
            else:
                if text is not None:
                    handed[layer.plugin] = text
        return handed

    def layers_of_child(self, handed: Mapping[str, str]) -> tuple[Layer, ...]:
        """Return the layers of a child process, each with what it was handed with a job."""
        return tuple(
            attrs.evolve(layer, function=partial(_handing, layer.function, handed.get(layer.plugin)))
            for layer in self.child_layers
        )

    def listeners(self, keys: Keys) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Give the events of a worker that plugins hear, with the listener of each.

        Args:
            keys: Of the worker's queue.
        """
        for event, hook in self._heard:
            yield event, _listener(hook, _HEARD[event][1], keys)

    def plain_listeners(self, keys: Keys, report: Callable[[PluginError], None]) -> Iterator[tuple[str, Any]]:
        """As :meth:`listeners`, for workers without an event loop; those that need one are reported and left out."""
        for event, hook in self._heard:
            if hook.is_async:
                report(_needs_loop(hook.plugin, hook.name))
            else:
                yield event, _listener(hook, _HEARD[event][1], keys)

    def plain_layers(self, report: Callable[[PluginError], None]) -> tuple[Layer, ...]:
        """Return the layers around processing that need no event loop; the others are reported and left out.

        Raises:
            PluginError: One that needs it is required.
        """
        waiting = [layer for layer in self.processing_layers if inspect.isasyncgenfunction(layer.function)]
        for layer in waiting:
            problem = _needs_loop(layer.plugin, layer.role)
            if layer.required:
                raise problem
            report(problem)
        return tuple(layer for layer in self.processing_layers if layer not in waiting)


def _handing(function: Callable[..., Any], handed: str | None, job: Job) -> Any:
    return function(job, handed)


def _needs_loop(plugin: str, name: str) -> PluginError:
    return PluginError(
        f"plugin {plugin!r}: {name} is async, which a blocking worker cannot run and leaves out; "
        "write it as a plain function, which workers of both kinds run"
    )


def _listener(hook: Hook, names: Sequence[str], keys: Keys) -> Callable[..., Any]:
    return lambda *args: hook(keys=keys, **dict(zip(names, args, strict=True)))


def _answers(manager: pluggy.PluginManager, name: str, answers: Answers) -> Iterator[tuple[Hook, Any]]:
    for hook in hooks_of(manager, name):
        asked = (hook.plugin, name)
        if asked not in answers:
            answers[asked] = hook()
        yield hook, answers[asked]


def _middleware(manager: pluggy.PluginManager, answers: Answers) -> Iterator[tuple[str, Middleware]]:
    for hook, answer in _answers(manager, "echomq_register_middleware", answers):
        for found in answer if isinstance(answer, (list, tuple)) else [answer]:
            if not isinstance(found, Middleware):
                raise PluginError(f"plugin {hook.plugin!r}: {hook.name} gave {found!r}, expected a Middleware")
            yield hook.plugin, found


def _layers(ordered: Sequence[tuple[str, Middleware]], role: str) -> tuple[Layer, ...]:
    return tuple(
        Layer(plugin=plugin, role=role, function=getattr(found, role), required=found.required)
        for plugin, found in ordered
        if getattr(found, role) is not None
    )


def _before_add(hook: Hook) -> Layer:
    def ask(job: Job) -> Any:
        changed = hook.function(**dict.fromkeys(hook.takes, job))
        yield job if changed is None else changed

    return Layer(plugin=hook.plugin, role=hook.name, function=ask)


def _strategies(manager: pluggy.PluginManager, answers: Answers) -> dict[str, BackoffStrategy]:
    found: dict[str, BackoffStrategy] = {}
    owners: dict[str, str] = {}
    for hook, brought in _answers(manager, "echomq_register_backoffs", answers):
        if not isinstance(brought, Mapping):
            raise PluginError(f"plugin {hook.plugin!r}: {hook.name} gave {brought!r}, expected names and strategies")
        for name, strategy in brought.items():
            if name in owners:
                raise PluginError(f"plugins {owners[name]!r} and {hook.plugin!r} both bring the backoff {name!r}")
            owners[name] = hook.plugin
            found[name] = _named(hook.plugin, name, strategy)
    return found


def _named(plugin: str, name: str, strategy: BackoffStrategy) -> BackoffStrategy:
    """Return the strategy so that what it raises tells the plugin."""
    hook = Hook(plugin, f"backoff {name!r}", lambda args: strategy(*args), ("args",))
    return lambda *args: hook(args=args)
