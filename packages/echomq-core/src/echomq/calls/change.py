"""Change one job: progress, data, logs, delay, priority, and run it again.

Repeatable are those that set a value: progress (listeners may hear it twice),
data, stack trace. A log row would be stored twice. Moves are not: between two
runs the job may have moved on, and be moved again.

Source: protocol spec 03 sections 3.9 and 3.11; 04 sections 2.7 to 2.9.
"""

from collections.abc import Sequence

from echomq import codec, replies
from echomq.call import Command, ScriptCall
from echomq.checks import whole
from echomq.errors import InvalidOption
from echomq.keys import Keys
from echomq.options import MAX_PRIORITY
from echomq.states import JobState

__all__ = [
    "add_log",
    "change_delay",
    "change_priority",
    "clear_logs",
    "promote",
    "reprocess_job",
    "save_stacktrace",
    "update_data",
    "update_progress",
]


def update_progress(keys: Keys, job_id: str, progress: object) -> ScriptCall[None]:
    """Store how far a job has come and announce it. Repeatable.

    Args:
        keys: The queue.
        job_id: The job; any state, no lock needed.
        progress: Any JSON value.

    Raises:
        NotEncodable: The progress is not strict JSON.
        JobNotFound: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="updateProgress",
        keys=(keys.job_named(job_id), keys.events, keys.meta),
        args=(job_id, codec.encode_json(f"progress of job {job_id}", progress)),
        decode=replies.Checked(replies.nothing, "updateProgress", job_id),
        repeatable=True,
    )


def update_data(keys: Keys, job_id: str, data: object) -> ScriptCall[None]:
    """Replace a job's data, in any state. Repeatable.

    Raises:
        NotEncodable: The data is not strict JSON.
        JobNotFound: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="updateData",
        keys=(keys.job_named(job_id),),
        args=(codec.encode_json(f"data of job {job_id}", data),),
        decode=replies.Checked(replies.nothing, "updateData", job_id),
        repeatable=True,
    )


def add_log(keys: Keys, job_id: str, row: str, keep: int | None = None) -> ScriptCall[int]:
    """Append a row to a job's log.

    Args:
        keys: The queue.
        job_id: The job.
        row: Any text.
        keep: Keep only the last so many rows; None or 0 keeps all.

    Returns:
        Decodes to the number of rows there are now.

    Raises:
        InvalidOption: ``row`` is no text, or ``keep`` no count.
        JobNotFound: By ``decode``; nothing was written.
    """
    if not isinstance(row, str):
        raise InvalidOption("row", f"a log row is text, not {row!r}")
    if keep is not None:
        whole("keep", keep)
    return ScriptCall(
        script="addLog",
        keys=(keys.job_named(job_id), keys.logs(job_id)),
        args=(job_id, codec.as_utf8(row), keep or ""),
        decode=replies.Checked(replies.number, "addLog", job_id),
    )


def clear_logs(keys: Keys, job_id: str, keep: int = 0) -> Command[None]:
    """Drop all but the last ``keep`` rows of a job's log. Repeatable."""
    logs = keys.logs(job_id)
    parts = ("LTRIM", logs, -keep, -1) if keep else ("DEL", logs)
    return Command(parts=parts, decode=replies.nothing, repeatable=True)


def save_stacktrace(keys: Keys, job_id: str, stacktrace: Sequence[str], reason: str) -> ScriptCall[None]:
    """Store why a job failed, without moving it. Repeatable.

    Raises:
        JobNotFound: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="saveStacktrace",
        keys=(keys.job(job_id),),
        args=(codec.encode_json("stacktrace", list(stacktrace)), codec.as_utf8(reason)),
        decode=replies.Checked(replies.nothing, "saveStacktrace", job_id),
        repeatable=True,
    )


def promote(keys: Keys, job_id: str) -> ScriptCall[None]:
    """Run a delayed job now.

    Raises:
        JobNotInState: By ``decode``; it is not delayed, or does not exist.
    """
    return ScriptCall(
        script="promote",
        keys=(
            *(keys.delayed, keys.wait, keys.paused, keys.meta, keys.prioritized),
            *(keys.active, keys.priority_counter, keys.events, keys.marker),
        ),
        args=(keys.base, job_id),
        decode=replies.Checked(replies.nothing, "promote", job_id),
    )


def change_delay(keys: Keys, job_id: str, delay_ms: int, now_ms: int) -> ScriptCall[None]:
    """Let a delayed job run at another time.

    Args:
        keys: The queue.
        job_id: The job.
        delay_ms: From now; 0 is due at once.
        now_ms: The present.

    Raises:
        JobNotFound, JobNotInState: By ``decode``; nothing was written.
    """
    return ScriptCall(
        script="changeDelay",
        keys=(keys.delayed, keys.meta, keys.marker, keys.events),
        args=(delay_ms, now_ms, job_id, keys.job_named(job_id)),
        decode=replies.Checked(replies.nothing, "changeDelay", job_id),
    )


def change_priority(keys: Keys, job_id: str, priority: int, *, lifo: bool = False) -> ScriptCall[None]:
    """Give a job another priority, and a place that goes with it if it waits.

    Args:
        keys: The queue.
        job_id: The job.
        priority: 0 for none, else 1 (most urgent) to 2,097,151.
        lifo: Put it before all others of that priority.

    Raises:
        InvalidOption: The priority is outside the range.
        JobNotFound: By ``decode``; nothing was written.
    """
    keys.job_named(job_id)  # the script makes the key itself, whatever it leads to
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= MAX_PRIORITY:
        raise InvalidOption("priority", f"must be a whole number between 0 and {MAX_PRIORITY}, not {priority!r}")
    return ScriptCall(
        script="changePriority",
        keys=(
            *(keys.wait, keys.paused, keys.meta, keys.prioritized),
            *(keys.active, keys.priority_counter, keys.marker),
        ),
        args=(priority, keys.base, job_id, "1" if lifo else "0"),
        decode=replies.Checked(replies.nothing, "changePriority", job_id),
    )


def reprocess_job(
    keys: Keys,
    job_id: str,
    state: JobState = JobState.FAILED,
    *,
    lifo: bool = False,
    reset_attempts_made: bool = False,
    reset_attempts_started: bool = False,
) -> ScriptCall[None]:
    """Run a finished job again.

    Args:
        keys: The queue.
        job_id: The job.
        state: Where it is: completed or failed.
        lifo: Put it first in line.
        reset_attempts_made: Give it all its attempts again.
        reset_attempts_started: Count its starts anew.

    Raises:
        InvalidOption: The state is not a finished one.
        JobNotFound, JobNotInState: By ``decode``; nothing was written.
    """
    if not state.is_finished:
        raise InvalidOption("state", f"only completed and failed jobs can run again, not {state.value} ones")
    completed = state is JobState.COMPLETED
    return ScriptCall(
        script="reprocessJob",
        keys=(
            *(keys.job_named(job_id), keys.events, keys.completed if completed else keys.failed, keys.wait),
            *(keys.meta, keys.active, keys.marker, keys.prioritized, keys.priority_counter),
        ),
        args=(
            *(job_id, "RPUSH" if lifo else "LPUSH", "returnvalue" if completed else "failedReason", state.value),
            *("1" if reset_attempts_made else "0", "1" if reset_attempts_started else "0"),
        ),
        decode=replies.Checked(replies.nothing, "reprocessJob", job_id),
    )
