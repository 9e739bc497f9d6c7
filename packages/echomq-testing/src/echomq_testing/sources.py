"""What can be drained, in either shell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from echomq.errors import UsageError

if TYPE_CHECKING:
    from echomq.keywords import WorkerKeywords
    from echomq.processors import Processors

__all__ = ["LOOK_S", "drain_options", "processors_of"]

LOOK_S = 0.05
"""How often to look whether a drain has nothing to do but to wait for a rate limit."""

Queue = TypeVar("Queue")


def drain_options(given: WorkerKeywords) -> WorkerKeywords:
    """Return the options of a worker that runs one job at a time and waits for none."""
    defaults: WorkerKeywords = {"concurrency": 1, "drain_delay": 1}
    return {**defaults, **given}


def processors_of(what: Any, processor: Processors | None, kind: type[Queue]) -> dict[Queue, Processors]:
    """Return the processor of each queue.

    Raises:
        UsageError: There is none, or what is given is no queue of this shell.
    """
    if isinstance(what, Mapping):
        if processor is not None:
            raise UsageError("with several queues each has its processor in the mapping; leave the second argument out")
        pairs = dict(what)
    elif processor is None:
        raise UsageError("a queue needs a processor: drain(queue, processor)")
    else:
        pairs = {what: processor}
    for queue in pairs:
        if not isinstance(queue, kind):
            shell = "echomq.sync.Queue" if ".sync." in kind.__module__ else "echomq.Queue"
            raise UsageError(f"expected {shell} or Tasks to drain, not {queue!r} of {type(queue).__module__}")
    return pairs
