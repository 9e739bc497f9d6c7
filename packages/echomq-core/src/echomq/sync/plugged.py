"""Lets plugins into a blocking worker; the twin of :mod:`echomq.aio.plugged`.

Source: design.md section 7.
"""

import attrs

from echomq import plugins
from echomq.errors import PluginError, UsageError
from echomq.extensions import report
from echomq.keys import Keys
from echomq.listening import Listening
from echomq.options import WorkerOptions
from echomq.processors import is_coroutine_function

from .processing import JobRunner, surrounded

__all__ = ["plug_in", "with_backoffs"]


def with_backoffs(options: WorkerOptions) -> WorkerOptions:
    """Return a worker's options with the backoff types of plugins; its own win.

    Raises:
        UsageError: One of its own is an ``async def``.
    """
    for name, strategy in options.backoff_strategies.items():
        if is_coroutine_function(strategy):
            raise UsageError(f"backoff_strategies[{name!r}]: is an async def, and this worker has no event loop")
    found = plugins.extensions().backoff_strategies
    if not found:
        return options
    return attrs.evolve(options, backoff_strategies={**found, **options.backoff_strategies})


def plug_in(run: JobRunner, keys: Keys, listening: Listening) -> JobRunner:
    """Let plugins hear a worker's events, and return what runs its jobs through their layers.

    Args:
        run: Runs the jobs; returned as it is where no plugin stands around processing.
        keys: Of the worker's queue.
        listening: Of the worker.

    Raises:
        PluginError: A layer is required and needs an event loop.
    """
    found = plugins.extensions()
    for event, listener in found.plain_listeners(keys, report):
        listening.add(event, listener)
    layers = found.plain_layers(report)
    if not layers:
        return run

    def tell(problem: PluginError) -> None:
        report(problem)
        listening.call("error", problem)

    return surrounded(run, layers, tell)
