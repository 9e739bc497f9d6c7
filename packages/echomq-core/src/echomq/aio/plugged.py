"""Lets plugins into a worker.

Source: design.md section 7.
"""

import attrs

from echomq import plugins
from echomq.errors import PluginError
from echomq.extensions import report
from echomq.keys import Keys
from echomq.options import WorkerOptions

from .listeners import Listeners
from .processing import JobRunner
from .routing import Surrounded

__all__ = ["plug_in", "with_backoffs"]


def with_backoffs(options: WorkerOptions) -> WorkerOptions:
    """Return a worker's options with the backoff types of plugins; its own win."""
    found = plugins.extensions().backoff_strategies
    if not found:
        return options
    return attrs.evolve(options, backoff_strategies={**found, **options.backoff_strategies})


def plug_in(runner: JobRunner, keys: Keys, listeners: Listeners) -> JobRunner:
    """Let plugins hear a worker's events, and return what runs its jobs through their layers.

    Args:
        runner: Runs the jobs; returned as it is where no plugin stands around processing.
        keys: Of the worker's queue.
        listeners: Of the worker.
    """
    found = plugins.extensions()
    for event, listener in found.listeners(keys):
        listeners.add(event, listener)
    if not found.processing_layers:
        return runner

    def tell(problem: PluginError) -> None:
        report(problem)
        listeners.call("error", problem)

    return Surrounded(runner, found.processing_layers, tell)
