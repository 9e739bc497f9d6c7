"""Who works for a queue, and how long jobs wait there.

Source: protocol spec 05 sections 1 and 10.
"""

import contextlib
from collections.abc import Iterable

from .call import Command, ScriptCall
from .calls.clients import Client, get_event_readers, get_workers
from .calls.presence import WorkerDetails, forget_workers, list_worker_ids, read_workers
from .calls.query import get_jobs
from .errors import ServerRefused
from .job import Job
from .keys import Keys
from .plans import Plan, ask_all
from .states import JobState

__all__ = ["event_readers", "first_in_line", "latency", "longest_wait_ms", "worker_details", "workers"]


def workers(keys: Keys) -> Plan[list[Client]]:
    """List the workers of a queue that are connected.

    Raises:
        ServerRefused: The server or the user's rights do not allow to list clients; says so.
    """
    return (yield from _listed(get_workers(keys)))


def worker_details(keys: Keys) -> Plan[list[WorkerDetails]]:
    """Read what our workers tell of themselves, those that began first before others; forgets those that are gone."""
    ids = yield list_worker_ids(keys)
    if not ids:
        return []
    found: list[WorkerDetails | None] = yield read_workers(keys, ids)
    gone = [worker_id for worker_id, details in zip(ids, found, strict=True) if details is None]
    if gone:
        with contextlib.suppress(ServerRefused):  # a user that may only read; the set expires with its last worker
            yield forget_workers(keys, gone)
    return sorted((details for details in found if details is not None), key=lambda one: (one.started_ms, one.id))


def event_readers(keys: Keys) -> Plan[list[Client]]:
    """List the readers of a queue's events that are connected; as :func:`workers`."""
    return (yield from _listed(get_event_readers(keys)))


def _listed(command: Command[list[Client]]) -> Plan[list[Client]]:
    try:
        found: list[Client] = yield command
    except ServerRefused as error:
        raise ServerRefused(
            f"the server does not list its clients, so workers and readers cannot be found: {error}. "
            "Some hosted servers have no CLIENT LIST; elsewhere allow it: ACL SETUSER <user> +client|list",
            prefix=error.prefix,
        ) from error
    return found


def latency(keys: Keys, now_ms: int) -> Plan[int]:
    """Return for how long the job that is first in line has waited since it could run; 0 if none waits."""
    return longest_wait_ms((yield from ask_all(first_in_line(keys))), now_ms)


def first_in_line(keys: Keys) -> tuple[ScriptCall[list[Job]], ...]:
    """Read the jobs that workers take next, if there are any."""
    return tuple(get_jobs(keys, [state], 0, 0, ascending=True) for state in (JobState.WAITING, JobState.PRIORITIZED))


def longest_wait_ms(found: Iterable[list[Job]], now_ms: int) -> int:
    """Return for how long these jobs have waited at most, as replies to :func:`first_in_line`."""
    return max((0, *(now_ms - _ready_ms(job) for jobs in found for job in jobs)))


def _ready_ms(job: Job) -> int:
    """Since when a waiting job could run: it was due, or its last attempt began."""
    return max(job.timestamp_ms + job.options.delay, job.processed_on_ms or 0)
