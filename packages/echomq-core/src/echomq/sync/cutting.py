"""The end of jobs that a closing worker does not wait for: those that do not end go back to wait.

What is known of a job's end is told to the server even then. Reports go out one
after the other, and the one that is under way may wait for a server that does
not answer; whatever waits behind it has not left this process. It is written now,
without an answer: the server does it when it comes to, and no job that has
ended, or was given back, is left to be found when its lock has run out. Over TLS
it cannot be, for a link that one thread reads must not be written to by another.

Source: protocol spec 05 section 4.7.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from echomq.call import Batch, ScriptCall
from echomq.calls.fetch import move_job_from_active_to_wait
from echomq.clock import wall_ms
from echomq.driver import Connection
from echomq.errors import EchoMQError
from echomq.options import WorkerOptions
from echomq.scheduling.outcome import HandedBack
from echomq.scheduling.settling import settle

from .cluster import ClusterLink
from .link import Link

if TYPE_CHECKING:
    from .held import Held

__all__ = ["last_words"]

_log = logging.getLogger("echomq.worker")

_LAST_WORD_MS = 1_000
"""How long a server has to answer them."""


def last_words(
    connection: Connection, left: "list[Held]", options: WorkerOptions, complain: Callable[[BaseException], None]
) -> None:
    """Tell the server what became of jobs that are not waited for any longer.

    Args:
        connection: For all calls but the blocking ones.
        left: The jobs; no report of theirs begins any more.
        options: The worker's.
        complain: Told what goes wrong.
    """
    # A report that is under way may ask for a script the server does not know; to repeat it does no harm.
    if left and isinstance(connection, Link | ClusterLink) and connection.post(_said_of(left, options)):
        _log.warning(
            "worker of queue %s closes: its server does not answer; the ends of %d jobs were sent all the same",
            left[0].job.keys.queue,
            len(left),
        )
        return
    unsaid = [held for held in left if not held.reporting]
    if not unsaid:
        return
    try:
        outcomes = connection.send_batch(_said_of(unsaid, options), deadline_ms=_LAST_WORD_MS)
    except EchoMQError as error:
        outcomes = [error]
    for outcome in outcomes:
        if isinstance(outcome, EchoMQError):
            complain(outcome)


def _said_of(left: "list[Held]", options: WorkerOptions) -> Batch:
    return Batch(requests=tuple(_last_word(held, options) for held in left))


def _last_word(held: "Held", options: WorkerOptions) -> ScriptCall[Any]:
    if held.outcome is not None and not isinstance(held.outcome, HandedBack):
        first = next(settle(held.job, held.outcome, held.take, options, fetch=False, now_ms=wall_ms()))
        if isinstance(first, ScriptCall):
            return first
    return move_job_from_active_to_wait(held.job.keys, held.job.id, held.token)
