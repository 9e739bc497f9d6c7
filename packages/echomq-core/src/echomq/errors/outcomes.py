"""How jobs ended, and what was not added."""

from collections.abc import Mapping, Sequence
from typing import Any

from .roots import EchoMQError

__all__ = [
    "BulkAddFailed",
    "FlowFailed",
    "JobFailed",
    "JobRemoved",
    "JobTimedOut",
    "ProcessDied",
    "RaisedInProcess",
    "ResultTimeout",
    "class_name",
]


class BulkAddFailed(EchoMQError):
    """The server declined some jobs of a bulk add; the others were added.

    Attributes:
        outcomes: For each job, in order, the job as added or the error that kept it out.
    """

    def __init__(self, outcomes: Sequence[Any]) -> None:
        errors = [outcome for outcome in outcomes if isinstance(outcome, EchoMQError)]
        super().__init__(f"{len(errors)} of {len(outcomes)} jobs were not added; the first because: {errors[0]}")
        self.outcomes = outcomes


class FlowFailed(EchoMQError):
    """The server declined some jobs of a flow.

    Attributes:
        refused: For each job that was not added, by its key, the error that kept it out.
        incomplete: Jobs that were added, but lack a child that was refused; empty if nothing was added.
            They wait until you remove them, or let them run by ``FlowProducer.release``.
    """

    def __init__(self, refused: Mapping[str, EchoMQError], incomplete: Sequence[Any], *, is_sent: bool = True) -> None:
        key, error = next(iter(refused.items()))
        lacking = ", ".join(job.key for job in incomplete)
        state = "the others were added" if is_sent else "nothing was added"
        advice = f" These lack a child now: {lacking}; remove them, or release them." if lacking else ""
        super().__init__(f"{len(refused)} jobs of the flow were refused, {state}; {key}: {error}{advice}")
        self.refused = refused
        self.incomplete = tuple(incomplete)


class JobFailed(EchoMQError):
    """A job whose result was awaited failed, and no attempt is left.

    Attributes:
        job_id: The job.
        reason: What its code raised, as text.
    """

    def __init__(self, queue: str, job_id: str, reason: str) -> None:
        super().__init__(f"job {job_id} of queue {queue!r} failed: {reason}")
        self.job_id = job_id
        self.reason = reason


class JobRemoved(EchoMQError):
    """A job whose result was awaited does not exist (any more), and nothing is known of its end.

    Attributes:
        job_id: The job.
    """

    def __init__(self, queue: str, job_id: str) -> None:
        super().__init__(
            f"job {job_id} of queue {queue!r} does not exist, and the event log does not tell of its end. "
            "It was removed before it ended, or so long ago that the log has forgotten, or the id is wrong."
        )
        self.job_id = job_id


class ResultTimeout(EchoMQError, TimeoutError):
    """A job did not end within the time that was given to wait for its result; it goes on.

    Attributes:
        job_id: The job.
    """

    def __init__(self, queue: str, job_id: str, timeout_ms: int) -> None:
        super().__init__(f"job {job_id} of queue {queue!r} did not end within {timeout_ms} ms; it may still do so")
        self.job_id = job_id


class JobTimedOut(EchoMQError, TimeoutError):
    """An attempt took longer than its ``timeout`` allows, and was stopped.

    Attributes:
        job_id: The job.
        timeout_ms: The limit.
    """

    def __init__(self, job_id: str, timeout_ms: int) -> None:
        super().__init__(f"job {job_id} ran longer than {timeout_ms} ms and was stopped")
        self.job_id = job_id
        self.timeout_ms = timeout_ms


class ProcessDied(EchoMQError):
    """The child process that ran a job ended before the job did.

    Attributes:
        exit_code: As ``multiprocessing`` gives it: negative for the signal that killed it.
    """

    def __init__(self, job_id: str, exit_code: int | None, how: str) -> None:
        super().__init__(f"the process that ran job {job_id} {how}")
        self.exit_code = exit_code


class RaisedInProcess(EchoMQError):
    """Job code in a child process raised an error of a class that only the child knows.

    Attributes:
        type_name: Module and name of that class.
        type_names: The same of that class and all it is made of, nearest first.
    """

    def __init__(self, type_name: str, message: str, type_names: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.type_name = type_name
        self.type_names = type_names or (type_name,)

    def is_a(self, cls: type[BaseException]) -> bool:
        """Tell whether the error in the child was of a class, which this process knows by the same name."""
        return class_name(cls) in self.type_names


def class_name(cls: type[BaseException]) -> str:
    """Return module and name of a class; the program itself is called alike here and in child processes."""
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return f"{module}.{cls.__qualname__}"
