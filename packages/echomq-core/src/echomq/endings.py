"""How a job ended: from the job itself, or from the event log if the job is gone.

A job that retention removes the moment it completes leaves its result in the
event log only. A waiter therefore first fixes a place in the log, then asks for
the end, and then reads on from that place: no end falls between.

Source: protocol spec 05 section 7.3; 03 section 3.10.
"""

from typing import Any, TypeAlias

from . import codec
from .calls.events import past_events
from .calls.query import is_finished
from .errors import JobFailed, JobNotFound, JobRemoved, ProtocolError
from .events import Completed, Event, Failed, Removed
from .keys import Keys
from .plans import Plan
from .states import JobState

__all__ = ["CHECK_MS", "Ending", "as_ending", "find_ending", "value_of"]

CHECK_MS = 2_000
"""How often a waiter asks again: ``drain``, ``clean`` and ``obliterate`` remove jobs without a word in the log."""

_PAGE = 100
_LARGE_PAGE = 1_000

Ending: TypeAlias = Completed | Failed | Removed


def as_ending(event: Event) -> Ending | None:
    """Return an event if a job ends with it; that a finished job was removed is no end."""
    if isinstance(event, Removed):
        return None if event.previous is not None and event.previous.is_finished else event
    return event if isinstance(event, (Completed, Failed)) else None


def value_of(keys: Keys, ending: Ending) -> Any:
    """Return the result of a job that completed.

    Raises:
        JobFailed: It failed.
        JobRemoved: It was removed before it ended.
    """
    if isinstance(ending, Completed):
        return ending.return_value
    if isinstance(ending, Failed):
        raise JobFailed(keys.queue, ending.job_id, ending.reason)
    raise JobRemoved(keys.queue, ending.job_id)


def find_ending(keys: Keys, job_id: str) -> Plan[Ending | None]:
    """Ask how a job ended; None while it has not.

    Raises:
        JobRemoved: There is no such job, and the log does not tell of its end.
        ProtocolError: Another client stored a result that is not JSON.
    """
    try:
        found = yield is_finished(keys, job_id)
    except JobNotFound:
        return (yield from _look_back(keys, job_id))
    if found.state is JobState.COMPLETED:
        return Completed(id="", job_id=job_id, return_value=_decoded(job_id, found.raw_return_value))
    if found.state is JobState.FAILED:
        return Failed(id="", job_id=job_id, reason=found.failed_reason or "")
    return None


def _decoded(job_id: str, raw: codec.Raw | None) -> Any:
    try:
        return None if raw is None else codec.decode_json(raw)
    except ProtocolError as error:
        raise ProtocolError(f"the result of job {job_id} is {error}") from None


def _look_back(keys: Keys, job_id: str) -> Plan[Ending]:
    before: str | None = None
    count = _PAGE
    while page := (yield past_events(keys, before, count)):
        for event in page:
            ending = as_ending(event)
            if ending is not None and ending.job_id == job_id:
                return ending
        before, count = page[-1].id, _LARGE_PAGE
    raise JobRemoved(keys.queue, job_id)
