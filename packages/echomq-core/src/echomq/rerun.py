"""Bring jobs back in line: finished ones again, delayed ones before their time.

Source: protocol spec 03 section 3.11; 04 section 2.10.
"""

from typing import Any

from .calls import change, query
from .calls import queue as queue_calls
from .checks import whole
from .errors import JobNotFound, JobNotInState
from .keys import Keys
from .moments import moment_ms
from .plans import Plan, ask_all
from .states import JobState

__all__ = ["KEEP", "move_all_to_wait", "retry"]

KEEP: Any = object()
"""Stands for data that are not given, since None is a value."""


def retry(
    keys: Keys, job_id: str, state: JobState, *, lifo: bool, reset_attempts: bool, data: object = KEEP
) -> Plan[None]:
    """Run a finished job again, with other data if they are given.

    Raises:
        JobNotFound, JobNotInState: Nothing was changed.

    Source: protocol spec 03 section 3.11.
    """
    call = change.reprocess_job(
        *(keys, job_id, state),
        lifo=lifo,
        reset_attempts_made=reset_attempts,
        reset_attempts_started=reset_attempts,
    )
    if data is KEEP:
        yield call
        return
    edit = change.update_data(keys, job_id, data)
    found = yield query.get_state(keys, job_id)
    if found is not state:  # a transaction is not undone: the data of a running job would be changed
        raise (JobNotFound if found is JobState.UNKNOWN else JobNotInState)("reprocessJob", job_id)
    yield from ask_all((edit, call), atomic=True)


def move_all_to_wait(keys: Keys, state: JobState, *, count: int, until_ms: int | None) -> Plan[None]:
    """Retry all failed or completed jobs, or promote all delayed ones, in steps of ``count``.

    Raises:
        InvalidOption: ``count`` is not at least 1, or the state is another one.

    Source: protocol spec 04 section 2.10.
    """
    whole("count", count, 1)
    until_ms = None if until_ms is None else moment_ms("until_ms", until_ms)
    while (yield queue_calls.move_jobs_to_wait(keys, state, count, until_ms)):
        pass
